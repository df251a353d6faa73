"""FIRE: functional interpolation for relative positions (Li et al. 2023)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from carry.models.encodings import Encoding, IdRange, ModelSettings

HIDDEN = 32  # units of the network of a layer
INITIAL_C, INITIAL_THRESHOLD = 0.1, 512.0


class Fire(Encoding):
    """A bias f(psi(i - j) / psi(max(i, L))) with psi(x) = log(c x + 1), query id i, key id j.

    c and the threshold L are learned and positive; f is a network with one hidden layer. Each layer
    has its own c, L and f.
    """

    label = "FIRE"
    needs_order = True

    def __init__(self, settings: Encoding.Settings, model: ModelSettings, ids: IdRange) -> None:
        super().__init__(settings, model, ids)
        # Both are stored as the logarithm of their ratio to the start, which keeps them positive.
        self.log_c = nn.Parameter(torch.zeros(model.layers))
        self.log_threshold = nn.Parameter(torch.zeros(model.layers))
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(1, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, model.heads))
            for _ in range(model.layers)
        )

    def bias(
        self, layer: int, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "_ H Q T"]:
        """Return the bias of each head; keys after the query, which are masked, have distance 0.

        It is computed in fp32: in bf16, distances of 300 and 301 would be equal.
        """
        c = INITIAL_C * self.log_c[layer].exp()
        threshold = INITIAL_THRESHOLD * self.log_threshold[layer].exp()
        distance = (query[:, :, None] - key[:, None, :]).clamp(min=0).to(c.dtype)
        scale = torch.log1p(c * torch.maximum(query.to(c.dtype), threshold))
        share = torch.log1p(c * distance) / scale[:, :, None]
        with torch.autocast(share.device.type, enabled=False):
            return self.networks[layer](share[..., None]).permute(0, 3, 1, 2)
