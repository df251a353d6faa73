"""Reversing a string of digits (Cho et al. 2024): the last one first."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.problems import Problems
from carry.tasks import backwards
from carry.tasks.copying import Copying


class Reversing(Copying):
    """The same digits in the opposite order.

    >>> from carry.tasks import to_digits
    >>> Reversing().solve(*to_digits([["0123"]])).answer[0].tolist()
    [0, 1, 2, 3]
    """

    backwards: ClassVar[bool] = True

    def solve(
        self, operands: Integer[Tensor, "B 1 N"], lengths: Integer[Tensor, "B 1"]
    ) -> Problems:
        """Take the digits from the other end."""
        answer = backwards(operands[:, 0], lengths[:, 0])
        return self.solved(operands, lengths, answer, lengths[:, 0])

    def steps(self, problems: Problems) -> dict[str, Integer[Tensor, "B _"]]:
        """Return the place that each digit comes from."""
        place = torch.arange(problems.operands.shape[2], device=problems.room.device)
        return {"from_place": (problems.lengths - 1 - place).clamp(min=-1)}

    def oracle(self, *operands: str) -> str:
        """Return the text, backwards."""
        return operands[0][::-1]
