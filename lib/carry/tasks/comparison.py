"""Comparison of two natural numbers; its scratchpad has the comparison of the digits so far.

place              2 1 0
a                  6 0 3
b                  . 4 9
so far             1 2 2     0: equal, 1: the first is larger, 2: the second is; the last answers

digits             306-94=221
level 1            2341231234      the place; a sign is one below place 0
level 2            1111223333      the number, so that a step can tell both apart

A higher place overrules the lower ones, so that steps begin with the least significant digits and
depend on one place and on the step before.
"""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.problems import Problems
from carry.tasks import Lengths, NumberPairTask, Operands, ScratchpadStage
from carry.tasks.subtraction import list_numbers

EQUAL, FIRST, SECOND = range(3)


class Comparison(NumberPairTask):
    """Which of two numbers is larger: 0: none, 1: the first, 2: the second.

    >>> from carry.tasks import to_digits
    >>> problems = Comparison().solve(*to_digits([[603, 649], [7, 7]]))
    >>> problems.answer[:, 0].tolist()
    [2, 0]
    """

    noun = "comparisons"
    sign = "-"
    scratchpad_levels = 2
    answer_is_last_digit = True

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Compare all problems at once."""
        answer = _compare_so_far(operands)[:, -1:]
        return self.make_problems(operands, lengths, answer)

    def solve_text(self, *operands: str) -> str:
        """Compare Python integers."""
        a, b = map(int, operands)
        return str(FIRST if a > b else SECOND if b > a else EQUAL)

    def scratchpad_stages(self, problems: Problems, from_zero: bool) -> list[ScratchpadStage]:
        """Return the numbers, and the comparisons so far as one number."""
        longest = problems.lengths.amax(1, keepdim=True)
        so_far = _compare_so_far(problems.operands)[:, None]
        return list_numbers(problems, self.sign, so_far, longest, longest)


def _compare_so_far(operands: Operands) -> Integer[Tensor, "B N"]:
    """Return the comparison of the digits up to each place: that of the last different ones."""
    a, b = operands.unbind(1)
    place = torch.arange(a.shape[1], device=a.device)
    own = torch.where(a > b, FIRST, torch.where(b > a, SECOND, EQUAL)).to(torch.uint8)
    source = torch.where(a == b, 0, place).cummax(1).values
    return own.gather(1, source)
