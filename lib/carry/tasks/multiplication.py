"""Multiplication of two natural numbers (mcleish2024, A.3.1; cho2025, section 5).

place          3  2  1  0
a              .  .  4  7
b              .  .  3  6
column sum     0 12 45 42     sum of the digit products whose places add up to this place
carry used     1  4  4  0     the carry into the place
carry made     0  1  4  4     the carry out of the place
answer         1  6  9  2

The scratchpad has two stages: the products of a with each digit of b, then their running sums,
where each product is shifted by one more place.

digits         37*925=581+470+333=58100>52900>52243
level 1        320000123412341234000000000000000000     the place in a and in the products
level 2        000321111122223333111111222222333333     the digit of b, its product and its sum
level 3        000000123423453456123456123456123456     the place in the answer

`local` steps (ours) depend only on nearby tokens, and so do their lengths: each sum has one place
more than the previous one, and each row is one above its inputs, at level 2 the digit of b, at
level 4 the previous sum and the product.

digits         37*925=581+470+333=581>5290>52243
level 1        320000123412341234000000000000000     the place in a and in the products
level 2        000321222233334444000000000000000     the digit of b, and one above it its product
level 3        000000123423453456123412345123456     the place in the answer
level 4        000000111122223333222233333444444     the product, and one above it its sum
"""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.problems import Problems, count_written_digits, resolve_carries
from carry.tasks import Lengths, NumberPairTask, Operands, ScratchpadStage, Steps


class Multiplication(NumberPairTask):
    """Multiplication of two numbers; a cell is the lengths of both.

    >>> from carry.tasks import to_digits
    >>> problems = Multiplication().solve(*to_digits([[47, 36]]))
    >>> problems.answer[0].tolist()
    [2, 9, 6, 1]
    >>> {name: row[0].tolist() for name, row in Multiplication().compute_steps(problems).items()}
    {'column_sum': [42, 45, 12, 0], 'carry_used': [0, 4, 4, 1], 'carry_made': [4, 4, 1, 0]}
    """

    noun = "products"
    sign = "*"

    local: bool = False

    @property
    def scratchpad_levels(self) -> int:
        """Three levels, or four with local steps."""
        return 4 if self.local else 3

    def answer_room(self, lengths: Lengths) -> Integer[Tensor, " B"]:
        """Return the sum of both lengths."""
        return lengths.sum(1)

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Multiply all problems at once, digit after digit of the first number."""
        answer, _ = resolve_carries(_column_sums(operands))
        room = self.answer_room(lengths)
        top = answer.gather(1, room[:, None] - 1)[:, 0]
        zero = (operands.sum(2) == 0).any(1)  # its product is written as one digit
        length = torch.where(zero, 1, room - (top == 0).long())
        return self.make_problems(operands, lengths, answer, length)

    def compute_steps(self, problems: Problems) -> Steps:
        """Return column sums and the carries used and made, by place."""
        columns = _column_sums(problems.operands)
        _, carries = resolve_carries(columns)
        return {
            "column_sum": columns,
            "carry_used": carries[:, :-1],
            "carry_made": carries[:, 1:],
        }

    def solve_text(self, *operands: str) -> str:
        """Return the product of Python integers."""
        a, b = map(int, operands)
        return str(a * b)

    def scratchpad_stages(self, problems: Problems, from_zero: bool) -> list[ScratchpadStage]:
        """Return the numbers, the products with each digit of the second, and their sums."""
        count = int(problems.lengths[:, 1].max())
        products, sums = (rows[:, :count] for rows in _products_and_sums(problems.operands))
        present = torch.arange(count, device=sums.device) < problems.lengths[:, 1:]
        product_room = problems.lengths[:, :1] + 1
        if self.local:
            operand_couplings = [((1, 1), None, None, None), (None, (0, 1), None, None)]
            product_couplings = [((1, 1), (k + 1, 0), (1 + k, 1), (k, 0)) for k in range(count)]
            sum_couplings = [(None, None, (1, 1), (k + 1, 0)) for k in range(count)]
            sum_room = product_room + torch.arange(count, device=sums.device)
        else:
            operand_couplings = [((1, 1), None, None), (None, (0, 1), None)]
            product_couplings = [((1, 1), (k, 0), (1 + k, 1)) for k in range(count)]
            sum_couplings = [(None, (k, 0), (1, 1)) for k in range(count)]
            sum_room = problems.room[:, None]
        uncoupled = [(None,) * self.scratchpad_levels]
        lengths, written = problems.lengths, present * count_written_digits(products)
        sum_lengths, sum_room = present * count_written_digits(sums), present * sum_room
        product_room = present * product_room
        return [
            ScratchpadStage(
                self.sign, problems.operands, lengths, lengths, operand_couplings, uncoupled
            ),
            ScratchpadStage("+", products, written, product_room, product_couplings),
            ScratchpadStage(">", sums, sum_lengths, sum_room, sum_couplings),
        ]


def _column_sums(operands: Operands) -> Integer[Tensor, "B K"]:
    a, b = operands.int().permute(1, 2, 0).contiguous()  # each step reads one place of all problems
    width = len(a)
    columns = torch.zeros(2 * width, a.shape[1], dtype=torch.int32, device=a.device)
    for place in range(width):
        columns[place : place + width].addcmul_(a[place], b)
    return columns.T


def _products_and_sums(
    operands: Operands,
) -> tuple[Integer[Tensor, "B N K"], Integer[Tensor, "B N L"]]:
    """Return the products with each digit of the second number, and their running sums."""
    a, b = operands.int().unbind(1)
    count, width = a.shape
    products = a[:, None] * b[:, :, None]
    columns = products.new_zeros(count, width, 2 * width)
    for place in range(width):
        columns[:, place, place : place + width] = products[:, place]
    product_columns = torch.nn.functional.pad(products, (0, 1)).flatten(0, 1)
    sum_columns = columns.cumsum(1).flatten(0, 1)
    products, _ = resolve_carries(product_columns)
    sums, _ = resolve_carries(sum_columns)
    return products.unflatten(0, (count, width)), sums.unflatten(0, (count, width))
