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


def concatenate_problems(parts: Sequence[Problems]) -> Problems:
    """Concatenate problems of different widths, padded with zeros to the widest.

    >>> def problem(digits):
    ...     number, size = torch.tensor([digits]), torch.tensor([len(digits)])
    ...     return Problems(number[None], size[None], number, size, size, size)
    >>> concatenate_problems([problem([5]), problem([3, 2, 1])]).answer.tolist()
    [[5, 0, 0], [3, 2, 1]]
    """

    def concatenate(name: str) -> Tensor:
        tensors = [getattr(part, name) for part in parts]
        if tensors[0].ndim > 1:
            width = max(tensor.shape[-1] for tensor in tensors)
            tensors = [F.pad(tensor, (0, width - tensor.shape[-1])) for tensor in tensors]
        return torch.cat(tensors)

    return Problems(**{field.name: concatenate(field.name) for field in fields(Problems)})
