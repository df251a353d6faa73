"""Abacus ids (mcleish2024, 3.1): the order inside each number, from a random offset."""

from __future__ import annotations

import pydantic
import torch
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.data.batch import Batch
from carry.formats import PLUS, Extent, Format
from carry.positions import RandomStart


class Abacus(RandomStart):
    """Ids restart in every run of a number's digits; all other tokens have id 0.

    Letters of index hints and signs of sub-task `car` have id 0 too, since the released code counts
    digits alone; with hints, every digit therefore has id 1.

    In training, the first id is uniform from 1 to `offset` (the paper's k), one for each batch as
    in the paper, or one for each row with `per_example`. (The released code draws from 1 to k + 1;
    that is offset k + 1.) With `limit` instead, the last id of the longest number is at most this
    (ours). The other settings are those of `RandomStart`.

    >>> from carry.positions import show_ids
    >>> show_ids(Abacus(), "653", "49")
    '^ 3 5 6 + 9 4 = 2 0 7 $ | 0 1 2 3 0 1 2 0 1 2 3 0'
    """

    offset: int = Field(default=1, ge=1)
    per_example: bool = False

    @pydantic.model_validator(mode="after")
    def _check_offset(self) -> Abacus:
        if self.limit is not None and self.offset > 1:
            raise ValueError(
                f"offset {self.offset} does not fit limit {self.limit}; expected one of them"
            )
        return self

    @property
    def ids_measure_distance(self) -> bool:
        """From a fixed start, the distance between digits and signs (id 0) is always the same."""
        return self.start_is_fixed

    def incompatibility(self, form: Format) -> str | None:
        """Refuse digits that are letters."""
        if form.task.base > 10:
            return (
                f"'abacus' does not count the letters of base {form.task.base}; expected a base "
                "of at most 10, or other ids"
            )
        return None

    def ids(self, batch: Batch, start: int = 1) -> Integer[Tensor, "B T"]:
        """Return the order inside each run of digits, counted from `start`."""
        # The token of a digit is less than those of all signs and letters.
        number = torch.where(batch.tokens < PLUS, batch.number, 0)
        index = torch.arange(number.shape[1], device=number.device)
        previous = torch.nn.functional.pad(number[:, :-1], (1, 0), value=-1)
        first = torch.where(number != previous, index, 0).cummax(1).values
        return self.move_ids(torch.where(number > 0, index - first + 1, 0), start - 1)

    def required_ids(self, extent: Extent) -> int:
        """Return the tokens of the longest number."""
        return extent.longest_number
