"""Written problems: tokens, and the marks of each token that position schemes read.

Problem                     6 5 3 + 4 9      digits, least significant first; a length each
Batch, one row       ^ 6 5 3 + 0 4 9 = 2 0 7 0 $
    number           0 1 1 1 0 2 2 2 0 3 3 3 3 0     which number a digit belongs to; 0: none
    place            . 2 1 0 . 2 1 0 . 0 1 2 3 .     its power of ten; -1 (printed as a dot): none
    levels           . 3 2 1 0 3 2 1 0 1 2 3 4 .     its coupling number, one for each level
    start                            9               index of the first response token
    length           14                              number of tokens; padding follows
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Integer, Shaped
from torch import Tensor

from carry.data.problems import TensorRows

NO_PLACE = NO_LEVEL = -1


@dataclass(frozen=True)
class Batch(TensorRows):
    """Problems as tokens, with the marks of each token.

    Shapes: B sequences of at most T tokens, L levels of coupling. Padding is on the right, where
    a causal model never sees it from a real token. Tokens with the same number at a level are
    coupled (cho2025, 4.1); a token that a level does not count has -1 there.
    """

    tokens: Integer[Tensor, "B T"]
    number: Integer[Tensor, "B T"]
    place: Integer[Tensor, "B T"]
    levels: Integer[Tensor, "B T L"]
    start: Integer[Tensor, " B"]
    length: Integer[Tensor, " B"]

    def trim(self) -> Batch:
        """Drop the columns that hold only padding."""
        width = int(self.length.max())
        marks = (self.tokens, self.number, self.place, self.levels)
        return Batch(*(mark[:, :width] for mark in marks), self.start, self.length)

    def response(
        self,
    ) -> tuple[Integer[Tensor, "B A"], Integer[Tensor, "B A"], Bool[Tensor, "B A"]]:
        """Return the index that predicts each response token, the token, and whether it is real.

        The token at index t is predicted from t - 1. A is the longest response of the batch.
        """
        longest = int((self.length - self.start).max())
        index = self.start[:, None] - 1 + torch.arange(longest, device=self.start.device)
        real = index + 1 < self.length[:, None]
        index = index.clamp(max=self.tokens.shape[1] - 2)
        return index, self.tokens.gather(1, index + 1).long(), real

    def slots(self) -> Integer[Tensor, "B A"]:
        """Return the indices of the response tokens; shorter responses repeat the last index."""
        return self.response()[0] + 1


def pack_columns(
    first: Shaped[Tensor, "B S *L"],
    second: Shaped[Tensor, "B T *L"],
    length: Integer[Tensor, " B"],
) -> Shaped[Tensor, "B _ *L"]:
    """Return each row of `second` after the first `length` columns of `first`, without padding.

    >>> first, second = torch.tensor([[1, 2, 0], [1, 2, 3]]), torch.tensor([[4, 5], [4, 5]])
    >>> pack_columns(first, second, torch.tensor([2, 3])).tolist()
    [[1, 2, 4, 5, 5], [1, 2, 3, 4, 5]]
    """
    both = torch.cat([first, second], dim=1)
    index = torch.arange(both.shape[1], device=both.device)
    padding = (first.shape[1] - length)[:, None]
    index = torch.where(index < length[:, None], index, index + padding)
    index = index.clamp(max=both.shape[1] - 1)
    return both.gather(1, index.reshape(*index.shape, *[1] * (both.ndim - 2)).expand_as(both))


def pack_pairs(first: Batch, second: Batch) -> Batch:
    """Return sequences of two problems; the response is that of the second one."""
    names = ("tokens", "number", "place", "levels")
    marks = [
        pack_columns(getattr(first, name), getattr(second, name), first.length) for name in names
    ]
    return Batch(*marks, first.length + second.start, first.length + second.length)
