"""A calculation with its rows: `^` becomes the operation, as in `-73,25=158-051+$` (37 - 52 = -15).

The first token is the operation, so that every token sees it; division is written `:`. All numbers
have their least significant digit first. A row is a count, a number and a sign; see
`carry.tasks.calculator` for the rows.

Marks are a function of the tokens so far, at three levels:

    tokens    -  7  3  ,  2  5  =  1  5  8  -  0  5  1  +  $
    level 1   .  2  3  .  2  3  0  1  2  3  0  1  2  3  0  .
    level 2   .  0  0  .  .  .  0  4  4  4  4  9  9  9  9  .
    level 3   .  .  .  .  .  .  0  .  .  .  0  .  .  .  0  .

    tokens    :  5  8  ,  7  =  0  8  0  +  1  1  0  +  2  4  9  -  1  1  0  +  0  5  1  +  1
    level 1   .  .  .  .  2  0  1  2  3  0  1  2  3  0  1  2  3  0  1  2  3  0  1  2  3  0  1
    level 2   .  .  .  .  .  0  3  3  3  3  7  7  7  7 11 11 11 11 16 16 16 16 19 19 19 19 23
    level 3   .  2  1  .  .  0  1  .  .  1  .  .  .  1  .  .  .  1  .  .  .  1  2  .  .  2  .

1   the place: a digit is two above its place, a count 1, and a sign 0, as is `=`
2   the row: 3 above the previous one for a shift, 4 for a step, 5 for a repair, each distance
    has one meaning; the row before the previous one is 6 or more away. The number that a
    sum or a difference begins with is row 0
3   the digit that rows count, from the most significant one on: of the second factor, or of the
    dividend. The sign of a row has the present one, so that a window shows it and the next; the
    count of a shift has the digit that it brings down
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import NO_LEVEL, NO_PLACE, Batch
from carry.data.problems import Problems
from carry.formats import (
    ALPHABET,
    EOS,
    EQUALS,
    PAD,
    PLUS,
    Extent,
    Format,
    to_text,
    to_tokens,
)
from carry.tasks.calculator import (
    DIVIDE,
    MULTIPLY,
    OPERATIONS,
    Calculator,
    check_digits,
    read_answer,
    read_calculations,
    write_rows,
)

COMMA, MINUS, TIMES, OVER = map(ALPHABET.index, ",-*:")
OPERATION_TOKENS = (PLUS, MINUS, TIMES, OVER)  # in the order of `OPERATIONS`
SHIFT, STEP, REPAIR = 3, 4, 5  # rows above the previous one


class Longhand(Format):
    """The rows of a calculation; the last row and the counts have the answer.

    >>> from carry.formats import build_format
    >>> from carry.tasks import build_task
    >>> form = build_format({"name": "longhand"}, build_task({"name": "calculator"}))
    >>> for text in ("57+48", "37-52", "12*30", "85/7"):
    ...     print(form.write_text(*form.task.parse_question(text)))
    +75,84=1501+$
    -73,25=158-051+$
    *21,03=000+121+242+363+0063+$
    :58,7=080+110+249-110+051+180+210+349-210+$
    """

    task_type = Calculator
    has_steps = True
    level_count = 3  # place, row, and counted digit
    marks_known_from_question = False  # the model decides where rows end and which kind follows
    hides_answer_length = True

    def extent(self, digits: int) -> Extent:
        """Return bounds on the longest number, the tokens and the levels."""
        check_digits(digits, "format")
        codes = torch.tensor([OPERATIONS.index(sign) for sign in self.task.operations])
        lengths = self.task.largest_lengths(digits).expand(len(codes), -1)
        rows, tokens = _bound_response(codes, lengths)
        number = 2 * digits if "*" in self.task.operations else digits + 1
        levels = (number + 2, REPAIR * int(rows.max()) + 1, digits + 1)
        return Extent(number, 2 * digits + 3 + int(tokens.max()), levels)

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks."""
        responses = [
            "".join(write_rows(sign, first, second)) + "$"
            for first, second, sign in read_calculations(problems.operands, problems.lengths)
        ]
        return self._write(problems, responses)

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the questions, followed by zeros for the longest possible responses."""
        _, lengths = _bound_response(problems.operands[:, 2, 0].long(), problems.lengths)
        return self._write(problems, ["0" * length for length in lengths.tolist()])

    def mark_continuation(
        self, problems: Problems, question: Batch, response: Integer[Tensor, "B A"]
    ) -> Batch:
        """Append response tokens to questions, with marks computed from all tokens."""
        tokens = torch.cat([question.tokens[:, : int(question.start[0])], response.int()], dim=1)
        return mark_tokens(tokens, question.start, torch.full_like(question.start, tokens.shape[1]))

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the answer, most significant digit first, followed by EOS.

        Rows that begin with a shift are those of a product if the first one is 0 and no sign is -;
        a quotient without such signs has digits 9 only.
        """
        answers, (count, width) = [], response.shape
        for text in map(to_text, response):
            rows = re.findall(r"\d+[-+]", text.partition("$")[0])
            is_quotient = "-" in "".join(rows) or bool("".join(rows[:1]).strip("0+"))
            divides = is_quotient and rows[0][0] == "0"
            answers.append(read_answer(rows, divides) if rows else "")
        text = "".join(answer.ljust(width, ALPHABET[EOS]) for answer in answers)
        return to_tokens(text).view(count, width).to(response.device)

    def describe_rows(self, response: str) -> str:
        """Return a response as lines, one for each row, most significant digit first.

        >>> from carry.formats import build_format
        >>> from carry.tasks import build_task
        >>> form = build_format({"name": "longhand"}, build_task({"name": "calculator"}))
        >>> print(form.describe_rows("158-051+$"))
        1:  85 -
        0:  15
        """
        rows = re.findall(r"(\d)(\d*)([-+]?)", response)
        width = max((len(digits) for _, digits, _ in rows), default=0)
        return "\n".join(
            f"{count}:  {digits[::-1]:>{width}} {sign.strip('+')}".rstrip()
            for count, digits, sign in rows
        )

    def _write(self, problems: Problems, responses: list[str]) -> Batch:
        """Write questions with responses."""
        calculations = read_calculations(problems.operands, problems.lengths)
        texts = [
            f"{sign}{first},{second}={response}"
            for (first, second, sign), response in zip(calculations, responses, strict=True)
        ]
        return write_texts(texts).to(problems.room.device)


def write_texts(texts: Sequence[str]) -> Batch:
    """Return calculations as tokens, with their marks.

    >>> write_texts(["-73,25=158-051+$"]).place[0].tolist()
    [-1, 0, 1, -1, 0, 1, -1, -1, 0, 1, -1, -1, 0, 1, -1, -1]
    """
    width = max(map(len, texts))
    padded = "".join(text.ljust(width, ALPHABET[PAD]) for text in texts)
    tokens = to_tokens(padded).view(len(texts), width).int()
    start = (tokens == EQUALS).int().argmax(1) + 1
    return mark_tokens(tokens, start, torch.tensor([*map(len, texts)]))


def _bound_response(
    operation: Integer[Tensor, " B"], lengths: Integer[Tensor, "B M"]
) -> tuple[Integer[Tensor, " B"], Integer[Tensor, " B"]]:
    """Return bounds on the rows (two, or 11 for each counted digit) and tokens of responses."""
    a, b = lengths[:, :2].unbind(1)
    counted = torch.where(operation == DIVIDE, a, b) * (operation >= MULTIPLY)
    rows = torch.where(operation >= MULTIPLY, 11 * counted, 2)
    longest = torch.where(operation == MULTIPLY, a + b, torch.maximum(a, b) + 1)
    longest = torch.where(operation == DIVIDE, b + 1, longest)
    return rows, rows * (longest + 2) + 1


def mark_tokens(
    tokens: Integer[Tensor, "B T"], start: Integer[Tensor, " B"], length: Integer[Tensor, " B"]
) -> Batch:
    """Return tokens with their marks, which depend on the question and on the tokens so far."""
    index = torch.arange(tokens.shape[1], device=tokens.device).expand(len(tokens), -1)
    is_digit, is_sign = tokens < 10, (tokens == PLUS) | (tokens == MINUS)
    comma = (tokens == COMMA).int().argmax(1, keepdim=True)
    equals = start[:, None] - 1
    in_response, in_first = index > equals, index < comma
    nth = index - torch.where(is_digit, 0, index + 1).cummax(1).values  # digit since the last sign
    is_count, is_sign = is_digit & in_response & (nth == 0), is_sign & in_response
    begins = is_sign | (index == equals)
    operation = tokens[:, :1]
    in_one = (operation == PLUS) | (operation == MINUS)
    counted = is_digit & ~in_response & ~in_one & (in_first == (operation == OVER))
    place = torch.where(is_digit & ~is_count, nth - in_response.int(), NO_PLACE)
    level_1 = torch.where(begins, 0, torch.where(is_count, 1, place + 2))
    level_1 = torch.where((is_digit & ~counted) | begins, level_1, NO_LEVEL)
    before = torch.nn.functional.pad(tokens[:, :-1], (1, 0))
    kind = torch.where(before == MINUS, REPAIR, torch.where(tokens == 0, SHIFT, STEP))
    shifts = is_count & (kind == SHIFT)
    row = (kind * is_count).cumsum(1)
    has_row = (in_response & is_digit) | begins | (in_one & in_first & is_digit)
    level_2 = torch.where(has_row, row, NO_LEVEL)
    step = shifts.cumsum(1)
    from_top = torch.where(in_first, comma, equals) - index
    level_3 = torch.where(begins | shifts, step, torch.where(counted, from_top, NO_LEVEL))
    order = 2 + (is_count.cumsum(1))
    number = torch.where(in_response, order, torch.where(in_first, 1, 2)) * (place >= 0)
    levels = torch.stack([level_1, level_2, level_3], dim=2).int()
    return Batch(tokens, number.int(), place.int(), levels, start, length)
