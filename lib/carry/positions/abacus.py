"""Abacus ids (mcleish2024, 3.1): order inside the digit run, from a random start."""

from __future__ import annotations

import torch
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.data.batch import Batch
from carry.formats import Extent
from carry.positions import Scheme


class Abacus(Scheme):
    """Ids restart in every number and are 0 on every other token, as in the released code.

    In training the first id is drawn from U[1, `offset`] (the paper's k), once for a batch as in
    the paper, or `per_example`. (The released code draws from U[1, k + 1]; that is offset k + 1.)

    >>> from carry.positions import drawn
    >>> drawn(Abacus(), "653", "49")
    '^ 3 5 6 + 9 4 = 2 0 7 $ | 0 1 2 3 0 1 2 0 1 2 3 0'
    """

    offset: int = Field(default=1, ge=1)
    per_example: bool = False

    @property
    def measures(self) -> bool:
        """Whether numbers always start at 1, as far from the signs' 0 in training as later on."""
        return self.offset == 1

    def train_ids(self, batch: Batch, generator: torch.Generator) -> Integer[Tensor, "b T"]:
        """Return ids from a random start."""
        ids = self.ids(batch)
        count = len(ids) if self.per_example else 1
        move = torch.randint(self.offset, (count, 1), generator=generator, device=ids.device)
        return torch.where(ids > 0, ids + move, 0)

    def ids(self, batch: Batch, start: int = 1) -> Integer[Tensor, "B T"]:
        """Return the order inside each digit run, counted from `start`."""
        at = torch.arange(batch.number.shape[1], device=batch.number.device)
        before = torch.nn.functional.pad(batch.number[:, :-1], (1, 0), value=-1)
        begins = torch.where(batch.number != before, at, 0).cummax(1).values
        return torch.where(batch.number > 0, at - begins + start, 0)

    def span(self, extent: Extent) -> int:
        """Return the tokens of the longest number."""
        return extent.run

    def largest(self, extent: Extent) -> int:
        """Return the last id of the longest number that starts as far on as it can."""
        return self.offset + extent.run - 1
