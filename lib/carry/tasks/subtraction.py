"""Subtraction of two natural numbers, the larger one first.

place              2 1 0
a                  6 0 3
b                  . 4 9
difference         6 -4 -6      a - b at each place, without borrows
borrow used        1 1 0        the borrow out of the next lower place
borrow made        0 1 1        the borrow out of the place
answer             5 5 4

digits             306-94=455
level 1            2341231234      the place; a sign is one below place 0
level 2            1111223333      the number, so that a step can tell both apart

No step can see which zeros lead an answer that is written least significant digit first, so a
scratchpad writes it as long as the larger number. A signed difference needs the last borrow before
its digits: `carry.tasks.calculator` writes it in two rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.problems import Problems, count_written_digits, resolve_carries
from carry.tasks import Cells, Lengths, NumberPairTask, Operands, ScratchpadStage


class Subtraction(NumberPairTask):
    """Subtraction of a number from one that is not smaller; a cell is their lengths, in any order.

    >>> from carry.tasks import to_digits
    >>> problems = Subtraction().solve(*to_digits([[603, 49]]))
    >>> problems.answer[0].tolist()
    [4, 5, 5]
    """

    noun = "differences"
    sign = "-"
    scratchpad_levels = 2

    def draw_operands(self, cells: Cells, generator: torch.Generator) -> tuple[Operands, Lengths]:
        """Draw both numbers uniformly from the numbers of their lengths, and sort them."""
        digits, lengths = super().draw_operands(cells, generator)
        swaps = _subtract(digits)[1][:, -1] > 0
        order = torch.stack([swaps, ~swaps], dim=1).long()
        return digits.gather(1, order[:, :, None].expand_as(digits)), lengths.gather(1, order)

    def check_question(self, operands: Sequence[str]) -> None:
        """Refuse a second number that is larger."""
        a, b = operands
        if (len(a), a) < (len(b), b):
            raise SettingsError(
                "operands.1: it is larger than operands.0; expected the larger number first"
            )

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Subtract all problems at once."""
        answer, _ = _subtract(operands)
        return self.make_problems(operands, lengths, answer, count_written_digits(answer))

    def solve_text(self, *operands: str) -> str:
        """Return the difference of Python integers."""
        a, b = map(int, operands)
        return str(a - b)

    def scratchpad_stages(self, problems: Problems, from_zero: bool) -> list[ScratchpadStage]:
        """Return the numbers and the answer."""
        answer, length = problems.answer[:, None], problems.answer_length[:, None]
        return list_numbers(problems, self.sign, answer, length, problems.room[:, None])


def list_numbers(
    problems: Problems, sign: str, answer: Tensor, length: Tensor, room: Tensor
) -> list[ScratchpadStage]:
    """Return two numbers and an answer at the same places; the second level tells them apart."""
    couplings = [((1, 1), (number, 0)) for number in range(3)]
    lengths = problems.lengths
    return [
        ScratchpadStage(sign, problems.operands, lengths, lengths, couplings[:2]),
        ScratchpadStage("", answer, length, room, couplings[2:]),
    ]


def _subtract(operands: Operands) -> tuple[Integer[Tensor, "B N"], Integer[Tensor, "B V"]]:
    """Return the digits of the differences, and the borrow into each place and out of the last."""
    digits, carries = resolve_carries(operands[:, 0].char() - operands[:, 1].char())
    return digits, -carries
