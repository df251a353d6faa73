"""A learned vector for each id, added to the token (Gehring et al. 2017)."""

from __future__ import annotations

from jaxtyping import Float, Integer
from pydantic import Field
from torch import Tensor, nn

from carry import settings
from carry.models.encodings import Encoding, Shape


class Learned(Encoding):
    """An embedding table; its row 0, the id of tokens without a place, is learned as well.

    `table`: the largest id with a row of its own (default: the largest that training can show).
    """

    class Settings(settings.Settings):
        """The settings of this kind."""

        table: int | None = Field(default=None, ge=1)

    def __init__(self, given: Settings, shape: Shape, largest: int) -> None:
        super().__init__(given, shape, largest)
        self.limit = given.table or largest
        self.rows = nn.Embedding(self.limit + 1, shape.width)

    def embed(self, ids: Integer[Tensor, "b T"]) -> Float[Tensor, "b T D"]:
        """Look the ids up."""
        return self.rows(ids)
