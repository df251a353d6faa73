"""Reversing a string of digits (Cho et al. 2024)."""

from __future__ import annotations

from carry.data.problems import Problems, reverse_digits
from carry.tasks import Lengths, Operands
from carry.tasks.copying import Copying


class Reversing(Copying):
    """The answer has the operand's digits in reverse order.

    >>> from carry.tasks import to_digits
    >>> Reversing().solve(*to_digits([["0123"]])).answer[0].tolist()
    [0, 1, 2, 3]
    """

    answer_is_reversed = True

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Reverse the digits."""
        return self.make_problems(operands, lengths, reverse_digits(operands[:, 0], lengths[:, 0]))

    def solve_text(self, *operands: str) -> str:
        """Return the reversed text."""
        return operands[0][::-1]
