"""Addition of two non-negative integers: every place sums two digits and the carry before it.

place          3 2 1 0
a              . 6 5 3
b              . . 4 9
digit sum      0 6 9 12     a + b, without carries
generated      0 0 0 1      a carry that both digits make by themselves
carry used     0 1 1 0      a carry comes in
carry made     0 0 1 1      a carry goes out
cascade        0 0 1 0      a digit sum of nine that passes the carry on
answer         . 7 0 2
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Integer
from torch import Tensor

from carry.data.problems import Problems
from carry.tasks import OfNumbers


class Addition(OfNumbers):
    """Addition of two numbers; a cell is the lengths of both.

    >>> from carry.randomness import stream
    >>> problems = Addition().draw(1000, digits=5, generator=stream(0, "doctest"))
    >>> problems.operands.shape, problems.answer.shape
    (torch.Size([1000, 2, 5]), torch.Size([1000, 6]))
    """

    sign: ClassVar[str] = "+"

    def room(self, lengths: Integer[Tensor, "B M"]) -> Integer[Tensor, " B"]:
        """Return one digit more than the longer number has."""
        return lengths.amax(1) + 1

    def longest_answer(self, digits: int) -> int:
        """Return one digit more."""
        return digits + 1

    def solve(
        self, operands: Integer[Tensor, "B M N"], lengths: Integer[Tensor, "B M"]
    ) -> Problems:
        """Add, all problems and all places at once."""
        total = _digit_sum(operands)
        answer = total + _carry_used(total)
        answer = torch.where(answer >= 10, answer - 10, answer)
        longest = lengths.amax(1)
        top = answer.gather(1, longest[:, None])[:, 0]
        return self.solved(operands, lengths, answer, longest + (top > 0))

    def steps(self, problems: Problems) -> dict[str, Integer[Tensor, "B _"]]:
        """Return digit sums, carries generated, used and made, and cascades, by place.

        The ones stand first. A carry is generated where the two digits alone make ten or more.
        """
        total = _digit_sum(problems.operands)
        used = _carry_used(total)
        made = (total + used >= 10).to(total.dtype)
        return {
            "digit_sum": total,
            "carry_generated": (total >= 10).to(total.dtype),
            "carry_used": used,
            "carry_made": made,
            "cascade": (total == 9).to(total.dtype) * used,
        }

    def oracle(self, *operands: str) -> str:
        """Return the sum of Python integers."""
        return str(sum(map(int, operands)))


def _digit_sum(operands: Integer[Tensor, "B M N"]) -> Integer[Tensor, "B K"]:
    return F.pad(operands.sum(1, dtype=torch.uint8), (0, 1))


def _carry_used(total: Integer[Tensor, "B K"]) -> Integer[Tensor, "B K"]:
    """Find the carry into each place: the nearest lower digit sum that is not nine decides."""
    by_place = total.T.contiguous()  # one place of all problems lies together: quick to step
    used = torch.zeros_like(by_place)
    for place in range(1, len(by_place)):
        used[place] = by_place[place - 1] + used[place - 1] >= 10
    return used.T
