"""A learned bias for each head and difference of ids.

Over place ids (Abacus, coupled) this reads places relatively, and a window keeps attention local
in place: what the next token depends on is then bounded at every length.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from pydantic import Field
from torch import Tensor, nn

from carry.models.encodings import Encoding, Ids, Shape


class Relative(Encoding):
    """Biases by difference, clipped at `clip` (default: one more than the window, or 16).

    Where ids do not count some tokens, these have biases of their own: between a query that is
    counted and a key that is not, the other way round, and between two that are not.
    Biases are stored small and multiplied by `scale`, so that they can grow quickly; they begin at
    0, or as noise of such a `spread`.
    """

    class Settings(Encoding.Settings):
        """The settings of this kind."""

        clip: int | None = Field(default=None, ge=1)
        scale: float = Field(default=8.0, gt=0.0)
        spread: float = Field(default=0.0, ge=0.0)

    def __init__(self, given: Settings, shape: Shape, ids: Ids) -> None:
        super().__init__(given, shape, ids)
        self.scale, self.spread = given.scale, given.spread
        self.clip = given.clip or (16 if self.window is None else max(self.window) + 1)
        rows = 2 * self.clip + 1 + (0 if self.absent is None else 3)
        self.biases = nn.ParameterList(
            nn.Parameter(torch.zeros(rows, shape.heads)) for _ in range(shape.layers)
        )

    def initialise(self, std: float) -> None:
        """Set the first biases, whose spread does not depend on that of embeddings."""
        if self.spread:
            for biases in self.biases:
                nn.init.normal_(biases, std=self.spread / self.scale)

    def bias(
        self, layer: int, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "_ H Q T"]:
        """Look the clipped differences up."""
        query, key = query[:, :, None], key[:, None, :]
        row = (query - key).clamp(-self.clip, self.clip) + self.clip
        if self.absent is not None:
            lacking = (query == self.absent).long() + 2 * (key == self.absent).long()
            row = torch.where(lacking > 0, 2 * self.clip + lacking, row)
        felt = F.embedding(row, self.biases[layer] * self.scale)
        return felt.permute(0, 3, 1, 2)
