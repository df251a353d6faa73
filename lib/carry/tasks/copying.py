"""Copying a string of digits (Cho et al. 2024)."""

from __future__ import annotations

from carry.data.problems import Problems
from carry.tasks import Lengths, Operands, StringTask


class Copying(StringTask):
    """The answer is the operand, whose digits are uniform.

    >>> from carry.tasks import to_digits
    >>> Copying().solve(*to_digits([["0123"]])).answer[0].tolist()
    [3, 2, 1, 0]
    """

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Return the operand."""
        return self.make_problems(operands, lengths, operands[:, 0])

    def solve_text(self, *operands: str) -> str:
        """Return the text."""
        return operands[0]
