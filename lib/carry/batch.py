"""The data that every layer shares: problems as digits, and written problems as tokens and marks.

Problem                     6 5 3 + 4 9      digits, the ones first; a length for each number
Batch, one row       ^ 6 5 3 + 0 4 9 = 2 0 7 0 $
    number           0 1 1 1 0 2 2 2 0 3 3 3 3 0     which number a digit belongs to; 0: none
    place            . 2 1 0 . 2 1 0 . 0 1 2 3 .     its power of ten; -1 (drawn as a dot): none
    levels           . 3 2 1 0 3 2 1 0 1 2 3 4 .     what it is coupled by, once for each level
    start                            9               where the response begins
    length           14                              tokens in all; what follows is padding
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Integer
from torch import Tensor

NO_PLACE = NO_LEVEL = -1
LABELS = 2**16  # fine enough to be cut into any number of starts, about evenly
Rows = TypeVar("Rows", bound="_Tensors")


class _Tensors:
    """Rows that move and are picked together."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self: Rows, rows: Tensor | slice) -> Rows:
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def to(self: Rows, device: torch.device | str) -> Rows:
        """Return the same rows on another device."""
        return type(self)(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})


@dataclass(frozen=True)
class Problems(_Tensors):
    """What is asked and what is true, as digits with the ones first, zero beyond each length.

    Shapes: B problems of M operands of at most N digits; answers of at most K digits. An operand
    of length 0 is not there. `room` is how long the answer could be, judged by the question's
    lengths; `label`, from 0 to `LABELS` - 1, is drawn once for each problem, for formats that
    begin an alphabet somewhere.
    """

    operands: Integer[Tensor, "B M N"]
    lengths: Integer[Tensor, "B M"]
    answer: Integer[Tensor, "B K"]
    answer_length: Integer[Tensor, " B"]
    room: Integer[Tensor, " B"]
    label: Integer[Tensor, " B"]

    def trim(self) -> Problems:
        """Drop the operands and the digits that no problem has."""
        widest = int(self.lengths.max())
        present = int((self.lengths > 0).sum(1).max())
        return replace(
            self,
            operands=self.operands[:, :present, :widest],
            lengths=self.lengths[:, :present],
            answer=self.answer[:, : int(self.room.max())],
        )


@dataclass(frozen=True)
class Batch(_Tensors):
    """Problems as they are written: tokens, and for each token the marks that schemes read.

    Shapes: B sequences of at most T tokens, L levels of coupling. Padding stands at the right,
    where a causal model never sees it from a real token. Tokens of one level that agree in their
    number there belong together (cho2025, 4.1); a token that no level counts has -1.
    """

    tokens: Integer[Tensor, "B T"]
    number: Integer[Tensor, "B T"]
    place: Integer[Tensor, "B T"]
    levels: Integer[Tensor, "B T L"]
    start: Integer[Tensor, " B"]
    length: Integer[Tensor, " B"]

    def trim(self) -> Batch:
        """Drop the columns that hold nothing but padding."""
        width = int(self.length.max())
        marks = (self.tokens, self.number, self.place, self.levels)
        return Batch(*(of[:, :width] for of in marks), self.start, self.length)

    def response(
        self,
    ) -> tuple[Integer[Tensor, "B A"], Integer[Tensor, "B A"], Bool[Tensor, "B A"]]:
        """Return where each response token is predicted from, the token, and whether it is real.

        The token at t is predicted from t - 1; A is the longest response of the batch.
        """
        longest = int((self.length - self.start).max())
        at = self.start[:, None] - 1 + torch.arange(longest, device=self.start.device)
        real = at + 1 < self.length[:, None]
        at = at.clamp(max=self.tokens.shape[1] - 2)
        return at, self.tokens.gather(1, at + 1).long(), real

    def slots(self) -> Integer[Tensor, "B A"]:
        """Return where the response tokens are; those of a shorter response end at the last."""
        return self.response()[0] + 1


def joined(parts: Sequence[Problems]) -> Problems:
    """Return problems of unlike width as one, as wide as the widest of them.

    >>> def one(digits):
    ...     number, size = torch.tensor([digits]), torch.tensor([len(digits)])
    ...     return Problems(number[None], size[None], number, size, size, size)
    >>> joined([one([5]), one([3, 2, 1])]).answer.tolist()
    [[5, 0, 0], [3, 2, 1]]
    """

    def whole(name: str) -> Tensor:
        tensors = [getattr(part, name) for part in parts]
        if tensors[0].ndim > 1:
            width = max(of.shape[-1] for of in tensors)
            tensors = [F.pad(of, (0, width - of.shape[-1])) for of in tensors]
        return torch.cat(tensors)

    return Problems(**{field.name: whole(field.name) for field in fields(Problems)})


def merged(batches: Sequence[Batch], rows: Sequence[Integer[Tensor, " _"]], padding: int) -> Batch:
    """Return batches of unlike width as one, in which row i of a batch stands where `rows` says.

    Args:
        rows: for each batch the rows that its own become; each row is given once in all.
        padding: the token behind the end of what is shorter than the widest.

    >>> def one(token, width):
    ...     marks = torch.full((1, width), token)
    ...     size = torch.tensor([width])
    ...     return Batch(marks, marks, marks, marks.new_empty(1, width, 0), size - 1, size)
    >>> merged([one(5, 3), one(7, 2)], [torch.tensor([1]), torch.tensor([0])], 14).tokens.tolist()
    [[7, 7, 14], [5, 5, 5]]
    """
    width = max(batch.tokens.shape[1] for batch in batches)
    order = torch.cat(list(rows)).argsort()
    empty = {"tokens": padding, "number": 0, "place": NO_PLACE, "levels": NO_LEVEL}

    def whole(name: str) -> Tensor:
        parts = [getattr(batch, name) for batch in batches]
        if name in empty:
            parts = [_widened(part, width, empty[name]) for part in parts]
        return torch.cat(parts)[order]

    return Batch(**{field.name: whole(field.name) for field in fields(Batch)})


def _widened(values: Tensor, width: int, empty: int) -> Tensor:
    more = values.new_full((len(values), width - values.shape[1], *values.shape[2:]), empty)
    return torch.cat([values, more], dim=1)
