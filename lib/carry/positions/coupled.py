"""Position coupling (Cho et al. 2024), at one of several levels (cho2025, 4.1 and 5.1)."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.data.batch import Batch
from carry.formats import Extent, Format
from carry.positions import Scheme


class Coupled(Scheme):
    """Tokens that the marks of a `level` count alike share an id; those it does not count have 0.

    Level 1 is the power of ten in sums: digits of one place share an id, and `+` and `=` are tied
    to the ones, with the id below. A scratchpad may have two levels more: see the task's file.

    In training each example starts at random, so that its last id is at most `limit` (None: all
    start at 1). Drawn uniformly, starts rarely show the first and the last ids; drawn `even`ly,
    the outermost starts have the weight of those that would stand beyond them, and every id is
    trained about alike.

    >>> from carry.positions import drawn
    >>> drawn(Coupled(), "653", "49", reverse_operands=False, pad=True)
    '^ 6 5 3 + 0 4 9 = 2 0 7 0 $ | 0 4 3 2 1 4 3 2 1 2 3 4 5 0'
    """

    absent: ClassVar[int | None] = 0

    level: int = Field(default=1, ge=1)
    limit: int | None = Field(default=None, ge=1)
    even: bool = False

    def train_ids(self, batch: Batch, generator: torch.Generator) -> Integer[Tensor, "b T"]:
        """Return ids from a random start for each row."""
        ids = self.ids(batch)
        if self.limit is None:
            return ids
        needed = ids.amax(1, keepdim=True)
        last = self.limit - needed  # the largest move
        beyond = needed - 1 if self.even else torch.zeros_like(needed)
        share = torch.rand(needed.shape, generator=generator, device=ids.device)
        move = (share * (last + 1 + 2 * beyond)).floor().long() - beyond
        return torch.where(ids > 0, ids + move.clamp(min=0).minimum(last), 0)

    def incompatibility(self, form: Format) -> str | None:
        """Refuse a level that is not there, and an answer whose first id would tell its length."""
        if self.level > form.levels:
            return f"level {self.level} is not there, the format has {form.levels}; expected less"
        if getattr(form, "reverse_answer", True) or getattr(form, "pad", True):
            return None
        return (
            "'coupled' does not fit a format with reverse_answer: false and pad: false, because "
            "the id of the first digit would tell the answer's length; expected either to be true"
        )

    def fixed_range(self) -> int | None:
        """Return the limit."""
        return self.limit

    def ids(self, batch: Batch, start: int = 1) -> Integer[Tensor, "B T"]:
        """Return what the level counts, from `start` on."""
        level = batch.levels[:, :, self.level - 1].long()
        return torch.where(level >= 0, level + start, 0)

    def span(self, extent: Extent) -> int:
        """Return how far the level counts."""
        return extent.levels[self.level - 1]

    def largest(self, extent: Extent) -> int:
        """Return the limit, or the last id of the longest problem."""
        return self.limit or self.span(extent)
