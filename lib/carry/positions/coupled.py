"""Position coupling (Cho et al. 2024), at one of several levels (cho2025, 4.1 and 5.1)."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.data.batch import Batch
from carry.formats import Extent, Format
from carry.positions import RandomStart


class Coupled(RandomStart):
    """Tokens with the same coupling number at a `level` share an id; uncounted tokens have id 0.

    At level 1 of a sum, digits of the same place share an id, and `+` and `=` have the id below
    place 0. A scratchpad can have more levels: see the file of its task.

    In training, each row starts at a random id such that its last id is at most `limit` (None: all
    rows start at 1).

    >>> from carry.positions import show_ids
    >>> show_ids(Coupled(), "653", "49", reverse_operands=False, pad=True)
    '^ 6 5 3 + 0 4 9 = 2 0 7 0 $ | 0 4 3 2 1 4 3 2 1 2 3 4 5 0'
    """

    uncounted_id: ClassVar[int | None] = 0
    offset: ClassVar[int] = 1
    per_example: ClassVar[bool] = True

    level: int = Field(default=1, ge=1)

    def incompatibility(self, form: Format) -> str | None:
        """Refuse a missing level, and an answer whose first id would tell its length."""
        levels = form.level_count
        if self.level > levels:
            return f"level {self.level} is missing; expected at most {levels}, as in the format"
        if form.hides_answer_length:
            return None
        return (
            "'coupled' does not fit a format with reverse_answer: false and pad: false, because "
            "the id of the first digit would tell the answer's length; expected either to be true"
        )

    def ids(self, batch: Batch, start: int = 1) -> Integer[Tensor, "B T"]:
        """Return the coupling numbers of the level plus `start`."""
        return self.move_ids(batch.levels[:, :, self.level - 1].long() + 1, start - 1)

    def required_ids(self, extent: Extent) -> int:
        """Return the number of coupling numbers of the level."""
        return extent.levels[self.level - 1]
