"""Abacus ids (mcleish2024, 3.1): the order inside each number, from a random offset."""

from __future__ import annotations

import torch
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.data.batch import Batch
from carry.formats import Extent
from carry.positions import Scheme


class Abacus(Scheme):
    """Ids restart in every number; all other tokens have id 0, as in the released code.

    In training, the first id is uniform from 1 to `offset` (the paper's k), one for each batch as
    in the paper, or one for each row with `per_example`. (The released code draws from 1 to k + 1;
    that is offset k + 1.)

    >>> from carry.positions import show_ids
    >>> show_ids(Abacus(), "653", "49")
    '^ 3 5 6 + 9 4 = 2 0 7 $ | 0 1 2 3 0 1 2 0 1 2 3 0'
    """

    offset: int = Field(default=1, ge=1)
    per_example: bool = False

    @property
    def ids_measure_distance(self) -> bool:
        """Without offsets, the distance between digits and signs (id 0) is the same everywhere."""
        return self.offset == 1

    def train_ids(self, batch: Batch, generator: torch.Generator) -> Integer[Tensor, "b T"]:
        """Return ids from a random offset."""
        ids = self.ids(batch)
        count = len(ids) if self.per_example else 1
        move = torch.randint(self.offset, (count, 1), generator=generator, device=ids.device)
        return torch.where(ids > 0, ids + move, 0)

    def ids(self, batch: Batch, start: int = 1) -> Integer[Tensor, "B T"]:
        """Return the order inside each number, counted from `start`."""
        index = torch.arange(batch.number.shape[1], device=batch.number.device)
        previous = torch.nn.functional.pad(batch.number[:, :-1], (1, 0), value=-1)
        first = torch.where(batch.number != previous, index, 0).cummax(1).values
        return torch.where(batch.number > 0, index - first + start, 0)

    def required_ids(self, extent: Extent) -> int:
        """Return the tokens of the longest number."""
        return extent.longest_number

    def largest_id(self, extent: Extent) -> int:
        """Return the last id of the longest number at the largest offset."""
        return self.offset + extent.longest_number - 1
