"""Plain order: the first token has id 0, then 1, 2, 3, ..."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import Batch
from carry.formats import Extent
from carry.positions import Scheme


class Index(Scheme):
    """The id of a token is its index.

    >>> from carry.positions import show_ids
    >>> show_ids(Index(), "653", "49")
    '^ 3 5 6 + 9 4 = 2 0 7 $ | 0 1 2 3 4 5 6 7 8 9 10 11'
    """

    accepts_start: ClassVar[bool] = False
    increasing: ClassVar[bool] = True

    def ids(self, batch: Batch, start: int = 1) -> Integer[Tensor, "b T"]:
        """Return the indices, the same for every row."""
        return torch.arange(batch.tokens.shape[1], device=batch.tokens.device)[None]

    def required_ids(self, extent: Extent) -> int:
        """Return one id for each token but the first, which has 0."""
        return extent.tokens - 1
