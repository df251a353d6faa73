"""A calculator: +, -, * and division with remainder, by rows of additions and subtractions.

The third operand is the operation, as its index in "+-*/". Every response is a list of rows. A row
has a count, a number, and a sign. There are three kinds of row:

    kind     when                      row
    shift    the count is 0            the previous row times 10, plus a digit of the dividend
    step     the count is above 0      the previous row + or - the fixed number
    repair   the previous sign is -    undoes a subtraction that went below 0

37 - 52 is one step and a repair; the sign is read off the last borrow. A number below 0 is written
without it, as 85 for -15:

    count 1   37 - 52 = 85 and a borrow   -
    count 0   100 - 85 = 15               +     so the answer is -15

12 * 30 goes through the digits of 30, and adds 12 as often as each digit says:

    count 0   00               +     shift; the first row is as long as 12
    count 1   00 + 12 = 12     +
    count 2   12 + 12 = 24     +
    count 3   24 + 12 = 36     +     3 is the first digit
    count 0   360              +     shift; 0 is the next digit, and the last one

85 / 7 goes through the digits of 85, and subtracts 7 until a borrow remains. The quotient has the
last count of each digit:

    count 0   08               +     shift brings 8 down
    count 1   08 - 7 = 01      +
    count 2   01 - 7 = 94      -
    count 1   94 + 7 = 01      +     repair: the first digit of the quotient is 1
    count 0   15               +     shift brings 5 down
    count 1   15 - 7 = 08      +
    count 2   08 - 7 = 01      +
    count 3   01 - 7 = 94      -
    count 2   94 + 7 = 01      +     the second digit is 2, and the remainder 1

After a ninth subtraction no tenth is tried. Each digit of a row depends on digits at two places of
the previous row and of the fixed number, and on the digit before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Integer
from pydantic import Field
from torch import Tensor

from carry.config.settings import SettingsError, describe
from carry.data.problems import Problems, resolve_carries
from carry.tasks import Cells, Lengths, NumberPairTask, Operands

OPERATIONS = "+-*/"
ADD, SUBTRACT, MULTIPLY, DIVIDE = range(4)
ANSWER_SYMBOLS = "0123456789-r"  # r precedes the remainder


Kind = Literal["shift", "step", "repair"]  # of a row


class Rows(NamedTuple):
    """The rows of a response. Shapes: B problems, S rows of at most W digits by place."""

    counts: Integer[Tensor, "B S"]
    digits: Integer[Tensor, "B S W"]
    lengths: Integer[Tensor, "B S"]  # 0: no row
    negative: Bool[Tensor, "B S"]


class Calculator(NumberPairTask):
    """The operations in `operations`, drawn equally often; a cell is the lengths of both numbers.

    An answer is a text of `ANSWER_SYMBOLS`, most significant digit first.

    >>> task = Calculator()
    >>> [task.solve_text(*task.parse_question(text)) for text in ("37-52", "12*30", "85/7")]
    ['-15', '360', '12r1']
    """

    noun = "calculations"
    sign = ","
    operand_count = 3
    answer_is_number = False
    answer_symbols = ANSWER_SYMBOLS

    operations: str = Field(default=OPERATIONS, pattern=r"^[-+*/]+$")

    def parse_question(self, text: str) -> list[str]:
        """Return the two numbers and the operation of a text such as "85/7".

        Raises:
            SettingsError: for a text without one of the operations, or with several.
        """
        sign = next((character for character in text if character in OPERATIONS), None)
        if sign is None or sign not in self.operations:
            raise SettingsError(
                f"operands: {describe(text)} has no operation that fits; "
                f"expected one of {' '.join(self.operations)} between two numbers"
            )
        numbers = text.split(sign)
        if len(numbers) > 2:
            raise SettingsError(
                f"operands: {describe(text)} has {len(numbers)} numbers; expected 2"
            )
        return [*numbers, str(OPERATIONS.index(sign))]

    def draw_operands(self, cells: Cells, generator: torch.Generator) -> tuple[Operands, Lengths]:
        """Draw both numbers uniformly from those of their lengths; a divisor of 0 becomes 1."""
        digits, lengths = super().draw_operands(cells, generator)
        codes = torch.tensor([OPERATIONS.index(sign) for sign in self.operations])
        drawn = torch.randint(
            len(codes), cells[:, 0].shape, generator=generator, device=cells.device
        )
        operation = codes.to(cells.device)[drawn]
        digits[:, 1, 0] += (digits[:, 1].sum(1) == 0) & (operation == DIVIDE)
        third = torch.zeros_like(digits[:, :1])
        third[:, 0, 0] = operation
        return torch.cat([digits, third], 1), torch.nn.functional.pad(lengths, (0, 1), value=1)

    def answer_room(self, lengths: Lengths) -> Integer[Tensor, " B"]:
        """Return the length of both numbers plus one, as of a quotient with its remainder."""
        return lengths[:, :2].sum(1) + 1

    def largest_lengths(self, digits: int) -> Lengths:
        """Return the lengths of both numbers and of the operation."""
        return torch.tensor([[digits, digits, 1]])

    def check_question(self, operands: Sequence[str]) -> None:
        """Refuse a division by 0, and an operation that the task does not have."""
        codes = {str(OPERATIONS.index(sign)): sign for sign in self.operations}
        if operands[2] not in codes:
            expected = ", ".join(f"{code} ({sign})" for code, sign in codes.items())
            raise SettingsError(
                f"operands.2: {describe(operands[2])} is no operation that fits; expected one of "
                f"{expected}"
            )
        if operands[2] == str(DIVIDE) and operands[1] == "0":
            raise SettingsError(
                "operands.1: 0 does not fit a division, which has no result; "
                "expected a divisor from 1"
            )

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Write the rows of all problems at once, and read the answers from them."""
        answers = []
        columns = (column.tolist() for column in compute_rows(operands, lengths))
        for *part, code in zip(*columns, operands[:, 2, 0].tolist(), strict=True):
            written = zip(*part, strict=True)
            rows = [(count, digits[:n], negative) for count, digits, n, negative in written if n]
            symbols = map(ANSWER_SYMBOLS.index, read_answer(rows, code == DIVIDE))
            answers.append(torch.tensor([*symbols], dtype=torch.uint8))
        answer = torch.nn.utils.rnn.pad_sequence(answers, batch_first=True).to(lengths.device)
        missing = max(0, int(self.answer_room(lengths).max()) - answer.shape[1])
        answer = torch.nn.functional.pad(answer, (0, missing))
        length = torch.tensor([*map(len, answers)], device=lengths.device)
        return self.make_problems(operands, lengths, answer, length)

    def solve_text(self, *operands: str) -> str:
        """Return the answer of Python integers."""
        a, b = map(int, operands[:2])
        operation = OPERATIONS[int(operands[2])]
        if operation == "/":
            return "r".join(map(str, divmod(a, b)))
        return str({"+": a + b, "-": a - b, "*": a * b}[operation])


def compute_rows(operands: Operands, lengths: Lengths) -> Rows:
    """Return the rows of problems, row after row for all problems at once.

    >>> from carry.tasks import to_digits
    >>> rows = compute_rows(*to_digits([["37", "52", "1"]]))
    >>> rows.counts.tolist(), rows.digits.tolist(), rows.negative.tolist()
    ([[1, 0]], [[[5, 8], [5, 1]]], [[True, False]])
    """
    operation = operands[:, 2, 0].long()
    adds, subtracts = operation == ADD, operation == SUBTRACT
    multiplies, divides = operation == MULTIPLY, operation == DIVIDE
    numbers, length = operands[:, :2].to(torch.int8), lengths[:, :2]  # a column is below 20
    longest = length.amax(1)
    width = torch.where(adds, longest + 1, longest)
    width = torch.where(multiplies, length.sum(1), width)
    width = int(torch.where(divides, length[:, 1] + 1, width).max())
    numbers = torch.nn.functional.pad(numbers, (0, max(0, width - numbers.shape[2])))
    fixed_index = (~multiplies).long()  # which operand is added or subtracted
    row = torch.arange(len(operands), device=operands.device)
    fixed, fixed_length = numbers[row, fixed_index, :width], length[row, fixed_index]
    counted, steps = numbers[row, 1 - fixed_index], length[row, 1 - fixed_index]
    in_one = adds | subtracts  # the first operand is the number before the first row
    number = torch.where(in_one[:, None], counted[:, :width], 0)
    number_length = torch.where(in_one, steps, 0)
    count, digit = in_one.long(), steps - 1  # and the place of the digit that is counted
    negative, done = torch.zeros_like(adds), torch.zeros_like(adds)
    rows = []
    while not done.all():
        value = counted.gather(1, digit.clamp(min=0)[:, None])
        repairs, shifts = negative, ~negative & (count == 0)
        negates, lowers = repairs & subtracts, (subtracts | divides) & ~repairs
        signs = torch.stack([1 - 2 * negates.char(), 1 - 2 * lowers.char() - negates.char()])
        columns = signs[0, :, None] * number + signs[1, :, None] * fixed
        total, carries = resolve_carries(columns)
        new_length = torch.maximum(number_length, fixed_length)
        new_length = torch.where(negates, number_length, new_length)
        new_length = torch.where(divides, fixed_length + 1, new_length)
        new_length = torch.where(done, number_length, new_length)
        carry = carries.gather(1, new_length[:, None])[:, 0]
        grows = (adds | multiplies) & ~done
        new_length = torch.where(grows, new_length + (carry > 0), new_length)
        negative = (carry < 0) & ~repairs & ~shifts
        shifted = torch.cat([value * divides[:, None], number[:, : width - 1]], dim=1)
        number = torch.where(shifts[:, None], shifted, total.char())
        first = torch.where(number_length == 0, fixed_length, number_length + 1)
        new_length = torch.where(shifts & grows, first, new_length)
        number = number * (torch.arange(width, device=row.device) < new_length[:, None])
        number_length = new_length
        rows.append((count, number, torch.where(done, 0, new_length), negative))
        ends = in_one | torch.where(multiplies, count == value[:, 0], repairs | (count == 9))
        ends &= ~negative
        done = done | (ends & (in_one | (digit == 0)))
        digit = torch.where(ends, digit - 1, digit)
        count = torch.where(negative, count - 1, torch.where(ends, 0, count + 1))
        negative = negative & ~done
    counts, digits, row_lengths, signs = (
        torch.stack(part, dim=1) for part in zip(*rows, strict=True)
    )
    present = row_lengths > 0
    return Rows(
        counts * present,
        (digits * present[:, :, None]).to(torch.uint8),
        row_lengths,
        signs & present,
    )


def read_answer(rows: Sequence[tuple[int, Sequence[int] | str, bool]], divides: bool) -> str:
    """Return the answer that rows give: the last number, or the last counts and a remainder.

    Args:
        rows: of each the count, the digits by place, and whether its sign is -.
        divides: whether the counts have a quotient.

    >>> read_answer([(1, "58", True), (0, "51", False)], divides=False)
    '-15'
    """
    number = "".join(map(str, reversed(rows[-1][1]))).lstrip("0") or "0"
    if not divides:
        return "-" * any(negative for *_, negative in rows) + number
    following = [*(count for count, _, _ in rows[1:]), 0]
    counts = [
        str(count)
        for (count, _, negative), after in zip(rows, following, strict=True)
        if not negative and after == 0  # the last row of a digit
    ]
    return f"{''.join(counts).lstrip('0') or '0'}r{number}"


def write_row(operation: str, kind: Kind, number: str, fixed: str, digit: str = "0") -> str:
    """Return a row and its sign, by Python's integers; all least significant digit first.

    Args:
        operation: one of + - * and :, the sign of a division in this format.
        number: the previous row.
        fixed: the number that is added or subtracted.
        digit: of the dividend, which a shift brings down.

    >>> write_row("-", "step", "73", "25"), write_row(":", "shift", "10", "7", "5")
    ('58-', '51+')
    """
    length = len(fixed) + 1 if operation == ":" else max(len(number), len(fixed))
    if kind == "shift":
        if operation == "*":
            return f"0{number}+" if number else "0" * len(fixed) + "+"
        return f"{digit}{number:0<{length}}"[:length] + "+"
    x, y = int(number[::-1]), int(fixed[::-1])
    if kind == "repair":
        total = (x + y if operation == ":" else -x) % 10**length
    else:
        total = x + y if operation in "+*" else x - y
    below = total < 0
    return f"{total % 10**length if below else total:0{length}}"[::-1] + ("-" if below else "+")
