"""Addition of two natural numbers.

place              3 2 1 0
a                  . 6 5 3
b                  . . 4 9
digit sum          0 6 9 12     a + b at each place, without carries
carry generated    0 0 0 1      the digit sum is ten or more
carry used         0 1 1 0      the carry into the place
carry made         0 0 1 1      the carry out of the place
cascade            0 0 1 0      a digit sum of nine that passes a carry on
answer             . 7 0 2
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.data.problems import Problems, resolve_carries
from carry.tasks import DIGIT_SYMBOLS, Lengths, NumberPairTask, Operands, Steps


class Addition(NumberPairTask):
    """Addition of two numbers; a cell is the lengths of both. `radix`: the base of all numbers.

    >>> from carry.randomness import stream
    >>> problems = Addition().draw(1000, digits=5, generator=stream(0, "doctest"))
    >>> problems.operands.shape, problems.answer.shape
    (torch.Size([1000, 2, 5]), torch.Size([1000, 6]))
    """

    noun = "sums"
    sign = "+"

    radix: int = Field(default=10, ge=2, le=len(DIGIT_SYMBOLS))

    @property
    def base(self) -> int:
        """The radix: digits of operands are smaller than this."""
        return self.radix

    def count_problems(self, size: int) -> int:
        """Return the number of pairs of numbers of this length, without leading zeros.

        >>> [Addition().count_problems(size) for size in (1, 2, 3)]
        [100, 8100, 810000]
        """
        base = self.base
        return (base if size == 1 and self.zero else (base - 1) * base ** (size - 1)) ** 2

    def answer_room(self, lengths: Lengths) -> Integer[Tensor, " B"]:
        """Return the length of the longer number, plus one."""
        return lengths.amax(1) + 1

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Add all problems and all places at once."""
        answer, _ = resolve_carries(_digit_sum(operands), self.base)
        longest = lengths.amax(1)
        top = answer.gather(1, longest[:, None])[:, 0]
        return self.make_problems(operands, lengths, answer, longest + (top > 0))

    def compute_steps(self, problems: Problems) -> Steps:
        """Return digit sums, carries generated, used and made, and cascades, by place."""
        total = _digit_sum(problems.operands)
        _, carries = resolve_carries(total, self.base)
        return {
            "digit_sum": total,
            "carry_generated": (total >= self.base).to(total.dtype),
            "carry_used": carries[:, :-1],
            "carry_made": carries[:, 1:],
            "cascade": (total == self.base - 1).to(total.dtype) * carries[:, :-1],
        }

    def solve_text(self, *operands: str) -> str:
        """Return the sum of Python integers."""
        total, answer = 0, ""
        for text in operands:
            number = 0
            for symbol in text:
                number = number * self.base + DIGIT_SYMBOLS.index(symbol)
            total += number
        while total or not answer:
            total, digit = divmod(total, self.base)
            answer = DIGIT_SYMBOLS[digit] + answer
        return answer


def _digit_sum(operands: Operands) -> Integer[Tensor, "B K"]:
    return F.pad(operands.sum(1, dtype=torch.uint8), (0, 1))
