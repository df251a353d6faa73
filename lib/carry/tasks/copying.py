"""Copying a string of digits (Cho et al. 2024): the answer is the operand."""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.problems import Problems
from carry.tasks import OfOne


class Copying(OfOne):
    """The same digits again, which are drawn evenly.

    >>> from carry.tasks import to_digits
    >>> Copying().solve(*to_digits([["0123"]])).answer[0].tolist()
    [3, 2, 1, 0]
    """

    def room(self, lengths: Integer[Tensor, "B 1"]) -> Integer[Tensor, " B"]:
        """Return the same length."""
        return lengths[:, 0]

    def longest_answer(self, digits: int) -> int:
        """Return the same length."""
        return digits

    def solve(
        self, operands: Integer[Tensor, "B 1 N"], lengths: Integer[Tensor, "B 1"]
    ) -> Problems:
        """Take the operand."""
        return self.solved(operands, lengths, operands[:, 0], lengths[:, 0])

    def steps(self, problems: Problems) -> dict[str, Integer[Tensor, "B _"]]:
        """Return the place that each digit comes from."""
        place = torch.arange(problems.operands.shape[2], device=problems.room.device)
        return {"from_place": torch.where(place < problems.lengths, place, -1)}

    def oracle(self, *operands: str) -> str:
        """Return the text."""
        return operands[0]
