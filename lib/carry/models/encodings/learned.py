"""A learned vector for each id, added to the token (Gehring et al. 2017)."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Integer
from pydantic import Field
from torch import Tensor, nn

from carry.models.encodings import Encoding, Ids, Shape
from carry.models.encodings.sinusoidal import waves


class Learned(Encoding):
    """An embedding table; its row 0, the id of tokens without a place, is learned as well.

    `table`: the largest id with a row of its own (default: the largest that training can show).
    `initial`: rows begin as `normal` noise, or as `sinusoidal` waves (of the id, with `base`), so
    that from the start the product of two rows depends on the difference of their ids alone.
    `ring`: behind the last row comes the first again, so that none is at an edge, and any id can be
    felt; ids a whole table apart are felt alike.
    """

    class Settings(Encoding.Settings):
        """The settings of this kind."""

        table: int | None = Field(default=None, ge=1)
        initial: Literal["normal", "sinusoidal"] = "normal"
        base: float = Field(default=100.0, gt=0.0)
        ring: bool = False

    def __init__(self, given: Settings, shape: Shape, ids: Ids) -> None:
        super().__init__(given, shape, ids)
        self.given, self.table = given, given.table or ids.largest
        self.limit = None if given.ring else self.table
        self.rows = nn.Embedding(self.table + 1, shape.width)

    def initialise(self, std: float) -> None:
        """Set the first rows; what has no place begins as noise in any case."""
        nn.init.normal_(self.rows.weight, std=std)
        if self.given.initial == "sinusoidal":
            ids = torch.arange(1, self.table + 1)
            self.rows.weight[1:] = waves(ids, self.rows.embedding_dim, self.given.base)

    def embed(self, ids: Integer[Tensor, "b T"]) -> Float[Tensor, "b T D"]:
        """Look the ids up."""
        if self.given.ring:
            ids = torch.where(ids > 0, (ids - 1) % self.table + 1, 0)
        return self.rows(ids)
