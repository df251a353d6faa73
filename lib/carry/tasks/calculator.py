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

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.config.settings import SettingsError, describe
from carry.data.problems import Problems
from carry.tasks import Cells, Lengths, NumberPairTask, Operands

OPERATIONS = "+-*/"
ADD, SUBTRACT, MULTIPLY, DIVIDE = range(4)
ANSWER_SYMBOLS = "0123456789-r"  # r precedes the remainder
LONGEST = 1000  # digits; more rows would exhaust the memory


Kind = Literal["shift", "step", "repair"]  # of a row


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
        """Refuse a division by 0, long numbers, and an operation that the task does not have."""
        codes = {str(OPERATIONS.index(sign)): sign for sign in self.operations}
        if operands[2] not in codes:
            expected = ", ".join(f"{code} ({sign})" for code, sign in codes.items())
            raise SettingsError(
                f"operands.2: {describe(operands[2])} is no operation that fits; expected one of "
                f"{expected}"
            )
        check_digits(max(map(len, operands)), "operands")
        if operands[2] == str(DIVIDE) and operands[1] == "0":
            raise SettingsError(
                "operands.1: 0 does not fit a division, which has no result; "
                "expected a divisor from 1"
            )

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Write the rows of each problem, and read the answer from them."""
        answers = []
        for first, second, sign in read_calculations(operands, lengths):
            rows = write_rows(sign, first, second)
            symbols = map(ANSWER_SYMBOLS.index, read_answer(rows, divides=sign == ":"))
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


def check_digits(digits: int, where: str) -> None:
    """Refuse numbers whose rows are too long."""
    if digits > LONGEST:
        raise SettingsError(
            f"{where}: the rows of {digits} digits are too long; expected at most {LONGEST}"
        )


def read_calculations(operands: Operands, lengths: Lengths) -> Iterator[tuple[str, str, str]]:
    """Yield both numbers of each problem, least significant digit first, and the operation.

    >>> from carry.tasks import to_digits
    >>> list(read_calculations(*to_digits([["85", "7", "3"]])))
    [('58', '7', ':')]
    """
    for digits, sizes in zip(operands.tolist(), lengths.tolist(), strict=True):
        numbers = zip(digits[:2], sizes[:2], strict=True)
        first, second = ("".join(map(str, number[:size])) for number, size in numbers)
        yield first, second, "+-*:"[digits[2][0]]


def read_answer(rows: Sequence[str], divides: bool) -> str:
    """Return the answer that rows give: the last number, or the last counts and a remainder.

    >>> read_answer(["158-", "051+"], divides=False)
    '-15'
    """
    number = rows[-1][-2:0:-1].lstrip("0") or "0"
    if not divides:
        return "-" * any(row[-1] == "-" for row in rows) + number
    following = [*(row[0] for row in rows[1:]), "0"]
    counts = [  # of the last row of each digit
        row[0] for row, after in zip(rows, following, strict=True) if row[-1] + after == "+0"
    ]
    return f"{''.join(counts).lstrip('0') or '0'}r{number}"


def write_rows(operation: str, first: str, second: str) -> list[str]:
    """Return the rows of a calculation: a count, a number and a sign, by Python's integers.

    Numbers have their least significant digit first; the operation is one of + - * and :.

    >>> write_rows("-", "73", "25"), write_rows("*", "21", "3")
    (['158-', '051+'], ['000+', '121+', '242+', '363+'])
    """
    if operation in "+-":
        rows = ["1" + write_row(operation, "step", first, second)]
        if rows[0][-1] == "-":
            rows.append("0" + write_row(operation, "repair", rows[0][1:-1], second))
        return rows
    fixed, counted = (first, second) if operation == "*" else (second, first)
    rows, row = [], ""
    for digit in reversed(counted):
        row, count = write_row(operation, "shift", row[:-1], fixed, digit), 0
        rows.append(f"0{row}")
        while row[-1] == "+" and count < (int(digit) if operation == "*" else 9):
            row, count = write_row(operation, "step", row[:-1], fixed), count + 1
            rows.append(f"{count}{row}")
        if row[-1] == "-":
            row = write_row(operation, "repair", row[:-1], fixed)
            rows.append(f"{count - 1}{row}")
    return rows


def write_row(operation: str, kind: Kind, number: str, fixed: str, digit: str = "0") -> str:
    """Return a row without its count.

    Args:
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
