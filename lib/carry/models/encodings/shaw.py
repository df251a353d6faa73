"""A learned vector for each difference of ids, added to keys (Shaw et al. 2018)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Integer
from pydantic import Field
from torch import Tensor, nn

from carry.models.encodings import Encoding, IdRange, ModelSettings


class Shaw(Encoding):
    """Scores q (k + a) / sqrt(d) of query q and key k, with a vector a for the difference of ids.

    Differences are clipped at `clip`. Each layer has its own vectors, and its heads share them
    (3.2, 3.3 there). The paper also adds vectors to values, which changes no result (Table 3).
    """

    class Settings(Encoding.Settings):
        """The settings of relative vectors."""

        clip: int = Field(default=16, ge=1)

    def __init__(self, settings: Settings, model: ModelSettings, ids: IdRange) -> None:
        super().__init__(settings, model, ids)
        self.clip = settings.clip
        size = 2 * settings.clip + 1, model.head_size
        self.vectors = nn.ParameterList(
            nn.Parameter(torch.zeros(size)) for _ in range(model.layers)
        )

    def initialise(self, std: float) -> None:
        """Set the first vectors, of length 1 on average; keys are sqrt(d) times as long."""
        for vectors in self.vectors:
            nn.init.normal_(vectors, std=vectors.shape[1] ** -0.5)

    def score(
        self,
        layer: int,
        queries: Float[Tensor, "B H Q d"],
        query: Integer[Tensor, "_ Q"],
        key: Integer[Tensor, "_ T"],
    ) -> Float[Tensor, "B H Q T"]:
        """Return q a: the products with all vectors, gathered by the difference of ids."""
        products = queries @ self.vectors[layer].T
        difference = (key[:, None, :] - query[:, :, None]).clamp(-self.clip, self.clip) + self.clip
        return products.gather(3, difference[:, None].expand(*products.shape[:3], -1))
