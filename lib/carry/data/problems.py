"""Problems as tensors of digits, least significant digit first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Integer
from torch import Tensor

LABEL_RANGE = 2**16  # large enough to be divided into any number of starts, nearly evenly
Rows = TypeVar("Rows", bound="TensorRows")


class TensorRows:
    """A dataclass of tensors that share their first axis, indexed and moved as one."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self: Rows, rows: Tensor | slice) -> Rows:
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def to(self: Rows, device: torch.device | str) -> Rows:
        """Return the same rows on another device."""
        return type(self)(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})


@dataclass(frozen=True)
class Problems(TensorRows):
    """Operands and answers as digits, least significant first, zero beyond each length.

    Shapes: B problems of M operands of at most N digits; answers of at most K digits. An absent
    operand has length 0. `room` is the longest answer that operands of these lengths can have.
    `label`, from 0 to `LABEL_RANGE` - 1, is drawn once for each problem; formats with an ordered
    alphabet derive its first letter from the label.
    """

    operands: Integer[Tensor, "B M N"]
    lengths: Integer[Tensor, "B M"]
    answer: Integer[Tensor, "B K"]
    answer_length: Integer[Tensor, " B"]
    room: Integer[Tensor, " B"]
    label: Integer[Tensor, " B"]

    def trim(self) -> Problems:
        """Drop operands and digits that no problem has."""
        longest = int(self.lengths.max())
        present = int((self.lengths > 0).sum(1).max())
        return replace(
            self,
            operands=self.operands[:, :present, :longest],
            lengths=self.lengths[:, :present],
            answer=self.answer[:, : int(self.room.max())],
        )


def concatenate_rows(parts: Sequence[Rows], **fill: int) -> Rows:
    """Concatenate rows of different widths, filled up to the widest with 0 or `fill` of a field.

    >>> def problem(digits):
    ...     number, size = torch.tensor([digits]), torch.tensor([len(digits)])
    ...     return Problems(number[None], size[None], number, size, size, size)
    >>> concatenate_rows([problem([5]), problem([3, 2, 1])]).answer.tolist()
    [[5, 0, 0], [3, 2, 1]]
    """

    def concatenate(name: str) -> Tensor:
        tensors = [getattr(part, name) for part in parts]
        for axis in range(1, tensors[0].ndim):
            width = max(tensor.shape[axis] for tensor in tensors)
            after = [0, 0] * (tensors[0].ndim - axis - 1)
            tensors = [
                F.pad(tensor, [*after, 0, width - tensor.shape[axis]], value=fill.get(name, 0))
                for tensor in tensors
            ]
        return torch.cat(tensors)

    kind = type(parts[0])
    return kind(**{field.name: concatenate(field.name) for field in fields(kind)})


def reverse_digits(
    digits: Integer[Tensor, "B N"], length: Integer[Tensor, " B"]
) -> Integer[Tensor, "B N"]:
    """Reverse the first `length` digits of each row.

    >>> reverse_digits(torch.tensor([[3, 5, 6, 0]]), torch.tensor([3])).tolist()
    [[6, 5, 3, 0]]
    """
    source = length[:, None] - 1 - torch.arange(digits.shape[1], device=digits.device)
    return digits.gather(1, source.clamp(min=0)) * (source >= 0)


def count_written_digits(digits: Integer[Tensor, "*B K"]) -> Integer[Tensor, "*B"]:
    """Return the number of digits without leading zeros; 0 has one.

    >>> count_written_digits(torch.tensor([[5, 0, 1, 0], [0, 0, 0, 0]])).tolist()
    [3, 1]
    """
    # 32 bits: 16 bits are faster but overflow at 32,768 digits.
    place = torch.arange(1, digits.shape[-1] + 1, dtype=torch.int32, device=digits.device)
    return ((digits > 0) * place).amax(-1).clamp(min=1).long()


def resolve_carries(
    columns: Integer[Tensor, "B W"], base: int = 10
) -> tuple[Integer[Tensor, "B W"], Integer[Tensor, "B V"]]:
    """Return the digits of columns of any size, and the carry into each place and out of the last.

    A column is the sum, the difference, or the sum of products of digits at a place. Carries of
    differences are negative.

    >>> digits, carries = resolve_carries(torch.tensor([[42, 45, 12, 0], [2, 0, -1, 5]]))
    >>> digits.tolist(), carries.tolist()
    ([[2, 9, 6, 1], [2, 0, 9, 4]], [[0, 4, 4, 1, 0], [0, 0, 0, -1, 0]])
    """
    by_place = columns.T.contiguous()  # each step reads one place of all problems
    carries = by_place.new_zeros(len(by_place) + 1, len(columns))
    for place, column in enumerate(by_place):
        torch.add(column, carries[place], out=carries[place + 1]).floor_divide_(base)
    digits = (columns + carries[:-1].T).remainder_(base)
    return digits.to(torch.uint8), carries.T
