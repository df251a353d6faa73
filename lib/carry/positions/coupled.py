"""Position coupling, single level (Cho et al. 2024; cho2025, 2.1): ids are significance."""

from __future__ import annotations

import torch
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.batch import Batch
from carry.positions import Scheme, shift


class Coupled(Scheme):
    """Digits of one power of ten share an id, one more for each place; beginning and end have 0.

    `+` and `=` are tied to the ones: they take the id below. Where the answer is written with its
    highest digit first, `=` takes the id next to that digit. In training the first id is drawn
    from U[1, `offset`] for each example.

    >>> from carry.positions import drawn
    >>> drawn(Coupled(), "653", "49", reverse_operands=False, pad=True)
    '^ 6 5 3 + 0 4 9 = 2 0 7 0 $ | 0 4 3 2 1 4 3 2 1 2 3 4 5 0'
    """

    offset: int = Field(default=1, ge=1)
    per_example: bool = True

    def train_ids(self, batch: Batch, generator: torch.Generator) -> Integer[Tensor, "b T"]:
        """Return ids from a random start."""
        return shift(self.ids(batch), self.offset, self.per_example, generator)

    def ids(self, batch: Batch, start: int = 1) -> Integer[Tensor, "B T"]:
        """Return significance, with the signs at `start` and the ones just above."""
        at = torch.arange(batch.place.shape[1], device=batch.place.device)
        ids = torch.where(batch.place >= 0, batch.place + start + 1, 0)
        sign = (batch.place < 0) & (at > 0) & (at < batch.start[:, None])
        ids = torch.where(sign, start, ids)
        first = batch.place.gather(1, batch.start[:, None])  # of the response
        downwards = (at == batch.start[:, None] - 1) & (first > 0)
        return torch.where(downwards, first + start + 2, ids)

    def span(self, digits: int, tokens: int) -> int:
        """Return a sign, the digits of the longest answer, and a sign above them."""
        return digits + 3

    def largest(self, digits: int, tokens: int) -> int:
        """Return the last id of the longest answer that starts as far on as it can."""
        return self.offset + digits + 2
