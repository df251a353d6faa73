"""Multiplication of two non-negative integers (mcleish2024, A.3.1; cho2025, section 5).

By columns of digit products:

place          3  2  1  0
a              .  .  4  7
b              .  .  3  6
column sum     0 12 45 42     all products of two digits whose places add up to this one
carry used     1  4  4  0     what comes in from below
carry made     0  1  4  4     what goes out
answer         1  6  9  2

By hand, with a scratchpad of two stages: a by each digit of b, then the sums of these, each moved
up by a place more than the one before it.

digits         37*925=581+470+333=58100>52900>52243
level 1        320000123412341234000000000000000000     the place in a, and in a by a digit
level 2        000321111122223333111111222222333333     the digit of b, and what was made with it
level 3        000000123423453456123456123456123456     the place in the answer

`local` steps (ours) can be read off what stands next to them, and are as long as that tells: sums
have a place more each, and rows stand one above what they are made of, the digit of b, or at a
level of its own the sum before and the product that is added to it.

digits         37*925=581+470+333=581>5290>52243
level 1        320000123412341234000000000000000     the place in a, and in a by a digit
level 2        000321222233334444000000000000000     the digit of b, and above it what it makes
level 3        000000123423453456123412345123456     the place in the answer
level 4        000000111122223333222233333444444     the product, and above it the sum with it
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.problems import Problems
from carry.tasks import OfNumbers, Stage
from carry.tasks.multi_operand_addition import written_length


class Multiplication(OfNumbers):
    """Multiplication of two numbers; a cell is the lengths of both.

    >>> from carry.tasks import to_digits
    >>> problems = Multiplication().solve(*to_digits([[47, 36]]))
    >>> problems.answer[0].tolist()
    [2, 9, 6, 1]
    >>> {name: step[0].tolist() for name, step in Multiplication().steps(problems).items()}
    {'column_sum': [42, 45, 12, 0], 'carry_used': [0, 4, 4, 1], 'carry_made': [4, 4, 1, 0]}
    """

    sign: ClassVar[str] = "*"
    local: bool = False

    @property
    def levels(self) -> int:
        """Three, and one more where steps are local."""
        return 4 if self.local else 3

    def room(self, lengths: Integer[Tensor, "B M"]) -> Integer[Tensor, " B"]:
        """Return the digits of both numbers together."""
        return lengths.sum(1)

    def longest_answer(self, digits: int) -> int:
        """Return twice the digits."""
        return 2 * digits

    def solve(
        self, operands: Integer[Tensor, "B M N"], lengths: Integer[Tensor, "B M"]
    ) -> Problems:
        """Multiply, all problems at once, one place of one number after the other."""
        columns = _column_sums(operands)
        answer = (columns + _carry_used(columns)).remainder_(10).to(torch.uint8)
        room = self.room(lengths)
        top = answer.gather(1, room[:, None] - 1)[:, 0]
        zero = (operands.sum(2) == 0).any(1)  # whose one digit is all that is written
        length = torch.where(zero, 1, room - (top == 0).long())
        return self.solved(operands, lengths, answer, length)

    def steps(self, problems: Problems) -> dict[str, Integer[Tensor, "B _"]]:
        """Return column sums and the carries used and made, by place, the ones first."""
        columns = _column_sums(problems.operands)
        used = _carry_used(columns)
        return {"column_sum": columns, "carry_used": used, "carry_made": (columns + used) // 10}

    def oracle(self, *operands: str) -> str:
        """Return the product of Python integers."""
        a, b = map(int, operands)
        return str(a * b)

    def stages(self, problems: Problems, from_zero: bool) -> list[Stage]:
        """Return the numbers, the products with each digit of the second, and their sums."""
        count = int(problems.lengths[:, 1].max())
        partial, sums = (of[:, :count] for of in _by_hand(problems.operands))
        there = torch.arange(count, device=sums.device) < problems.lengths[:, 1:]
        long = problems.lengths[:, :1] + 1
        orders = range(count)
        digits = [((1, 1), None, None), (None, (0, 1), None)]
        lines = [((1, 1), (k, 0), (1 + k, 1)) for k in orders]
        summed, room = [(None, (k, 0), (1, 1)) for k in orders], problems.room[:, None]
        if self.local:
            digits = [(*line, None) for line in digits]
            lines = [((1, 1), (k + 1, 0), (1 + k, 1), (k, 0)) for k in orders]
            summed = [(None, None, (1, 1), (k + 1, 0)) for k in orders]
            room = long + torch.arange(count, device=sums.device)
        return [
            Stage(self.sign, problems.operands, problems.lengths, problems.lengths, digits,
                  [tuple(None for _ in digits[0])]),
            Stage("+", partial, there * written_length(partial), there * long, lines),
            Stage(">", sums, there * written_length(sums), there * room, summed),
        ]  # fmt: skip

    def oracle_stages(self, *operands: str, from_zero: bool) -> list[list[tuple[int, str]]]:
        """Return products and running sums of Python integers."""
        a, digits = int(operands[0]), [int(digit) for digit in reversed(operands[1])]
        partial = [a * digit for digit in digits]
        sums = [sum(of * 10**k for k, of in enumerate(partial[: end + 1]))
                for end in range(len(digits))]  # fmt: skip
        a, b = map(len, operands)
        rooms = [a + 1 + k if self.local else a + b for k in range(b)]
        summed = [(room, str(of)) for room, of in zip(rooms, sums, strict=True)]
        return [[(a + 1, str(of)) for of in partial], summed]


def _column_sums(operands: Integer[Tensor, "B 2 N"]) -> Integer[Tensor, "B K"]:
    a, b = operands.int().permute(1, 2, 0).contiguous()  # by place: quick to step
    width = len(a)
    columns = torch.zeros(2 * width, a.shape[1], dtype=torch.int32, device=a.device)
    for place in range(width):
        columns[place : place + width].addcmul_(a[place], b)
    return columns.T


def _by_hand(
    operands: Integer[Tensor, "B 2 N"],
) -> tuple[Integer[Tensor, "B N K"], Integer[Tensor, "B N L"]]:
    """Return the products with each digit of the second number, and their running sums."""
    a, b = operands.int().unbind(1)
    count, width = a.shape
    products = a[:, None] * b[:, :, None]
    columns = products.new_zeros(count, width, 2 * width)
    for place in range(width):
        columns[:, place, place : place + width] = products[:, place]
    both = torch.nn.functional.pad(products, (0, 1)), columns.cumsum(1)
    found = []
    for of in both:
        flat = of.flatten(0, 1)
        digits = (flat + _carry_used(flat)).remainder_(10).to(torch.uint8)
        found.append(digits.unflatten(0, (count, width)))
    return found[0], found[1]


def _carry_used(columns: Integer[Tensor, "B K"]) -> Integer[Tensor, "B K"]:
    by_place = columns.T
    used = torch.zeros_like(by_place)
    for place in range(1, len(by_place)):
        torch.add(by_place[place - 1], used[place - 1], out=used[place])
        used[place].floor_divide_(10)
    return used.T
