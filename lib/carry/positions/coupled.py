"""Position coupling, single level (Cho et al. 2024; cho2025, 2.1): ids are significance."""

from __future__ import annotations

import torch
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.batch import Batch
from carry.formats import Extent, Format
from carry.positions import Scheme


class Coupled(Scheme):
    """Digits of one power of ten share an id, one more for each place; beginning and end have 0.

    `+` and `=` are tied to the ones: they take the id below. Where the answer is written with its
    highest digit first, `=` takes the id next to that digit.

    In training each example starts at random, so that its last id is at most `limit` (None: all
    start at 1). Drawn uniformly, starts rarely show the first and the last ids; drawn `even`ly,
    the outermost starts have the weight of those that would stand beyond them, and every id is
    trained about alike.

    >>> from carry.positions import drawn
    >>> drawn(Coupled(), "653", "49", reverse_operands=False, pad=True)
    '^ 6 5 3 + 0 4 9 = 2 0 7 0 $ | 0 4 3 2 1 4 3 2 1 2 3 4 5 0'
    """

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

    def misfit(self, form: Format) -> str | None:
        """Refuse an answer whose first id would tell its length before it is written."""
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
        """Return significance, with the signs at `start` and the ones just above."""
        at = torch.arange(batch.place.shape[1], device=batch.place.device)
        ids = torch.where(batch.place >= 0, batch.place + start + 1, 0)
        sign = (batch.place < 0) & (at > 0) & (at < batch.start[:, None])
        ids = torch.where(sign, start, ids)
        first = batch.place.gather(1, batch.start[:, None])  # of the response
        downwards = (at == batch.start[:, None] - 1) & (first > 0)
        return torch.where(downwards, first + start + 2, ids)

    def span(self, extent: Extent) -> int:
        """Return a sign, the digits of the longest number, and a sign above them."""
        return extent.run + 2

    def largest(self, extent: Extent) -> int:
        """Return the limit, or the last id of the longest problem."""
        return self.limit or self.span(extent)
