"""FIRE: functional interpolation for relative positions (Li et al. 2023)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Integer
from pydantic import Field
from torch import Tensor, nn

from carry.models.encodings import Encoding, IdRange, ModelShape


class Fire(Encoding):
    """A bias f(psi(i - j) / psi(max(i, L))) with psi(x) = log(c x + 1), query id i, key id j.

    c and the threshold L are learned and positive; f is a network with one hidden layer of
    `hidden` units. Each layer has its own c, L and f.
    """

    class Settings(Encoding.Settings):
        """The settings of FIRE."""

        hidden: int = Field(default=32, ge=1)
        c: float = Field(default=0.1, gt=0.0)
        threshold: float = Field(default=512.0, gt=0.0)

    label = "FIRE"
    needs_order = True

    def __init__(self, settings: Settings, shape: ModelShape, ids: IdRange) -> None:
        super().__init__(settings, shape, ids)
        self.start = settings.c, settings.threshold
        # Both are stored as the logarithm of their ratio to the start, which keeps them positive.
        self.log_c = nn.Parameter(torch.zeros(shape.layers))
        self.log_threshold = nn.Parameter(torch.zeros(shape.layers))
        self.networks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(1, settings.hidden), nn.ReLU(), nn.Linear(settings.hidden, shape.heads)
            )
            for _ in range(shape.layers)
        )

    def bias(
        self, layer: int, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "_ H Q T"]:
        """Return the bias of each head; keys after the query, which are masked, have distance 0.

        It is computed in fp32: in bf16, distances of 300 and 301 would be equal.
        """
        c = self.start[0] * self.log_c[layer].exp()
        threshold = self.start[1] * self.log_threshold[layer].exp()
        distance = (query[:, :, None] - key[:, None, :]).clamp(min=0).to(c.dtype)
        scale = torch.log1p(c * torch.maximum(query.to(c.dtype), threshold))
        share = torch.log1p(c * distance) / scale[:, :, None]
        with torch.autocast(share.device.type, enabled=False):
            return self.networks[layer](share[..., None]).permute(0, 3, 1, 2)
