"""Plain order, and again from 0 at the last token of the question: as in an encoder-decoder."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import Batch
from carry.formats import Extent
from carry.positions import Scheme


class Restarted(Scheme):
    """The index of a token in the question, or in the answer with the token before it.

    A decoder that reads only these tokens has the ids of a sequence of its own.

    >>> from carry.positions import show_ids
    >>> show_ids(Restarted(), "653", "49")
    '^ 3 5 6 + 9 4 = 2 0 7 $ | 0 1 2 3 4 5 6 0 1 2 3 4'
    """

    label: ClassVar[str] = "Restarted index"
    accepts_start: ClassVar[bool] = False
    ids_measure_distance: ClassVar[bool] = False  # not between question and answer

    def ids(self, batch: Batch, start: int = 1) -> Integer[Tensor, "b T"]:
        """Return the indices in both parts."""
        index = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)[None]
        sign = batch.start[:, None] - 1
        return torch.where(index < sign, index, index - sign)

    def required_ids(self, extent: Extent) -> int:
        """Return one id for each token but the first; the question is most of them."""
        return extent.tokens - 1
