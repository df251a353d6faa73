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

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.config.settings import SettingsError
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
    compact_rows,
    to_text,
    to_tokens,
)
from carry.tasks.calculator import (
    DIVIDE,
    MULTIPLY,
    OPERATIONS,
    Calculator,
    compute_rows,
    read_answer,
)

COMMA, MINUS, TIMES, OVER = map(ALPHABET.index, ",-*:")
OPERATION_TOKENS = (PLUS, MINUS, TIMES, OVER)  # in the order of `OPERATIONS`
SHIFT, STEP, REPAIR = 3, 4, 5  # rows above the previous one
LONGEST = 1000  # digits of factors; more rows would exhaust the memory


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

    def extent(self, digits: int) -> Extent:
        """Return bounds on the longest number, the tokens and the levels."""
        if {*self.task.operations} & {*"*/"} and digits > LONGEST:
            raise SettingsError(
                f"format: the rows of {digits} digits are too long; expected at most {LONGEST}"
            )
        codes = torch.tensor([OPERATIONS.index(sign) for sign in self.task.operations])
        lengths = self.task.largest_lengths(digits).expand(len(codes), -1)
        rows, tokens = _bound_response(codes, lengths)
        number = 2 * digits if "*" in self.task.operations else digits + 1
        levels = (number + 2, REPAIR * int(rows.max()) + 1, digits + 1)
        return Extent(number, 2 * digits + 3 + int(tokens.max()), levels)

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks."""
        rows = compute_rows(problems.operands, problems.lengths)
        place = torch.arange(rows.digits.shape[2], device=rows.lengths.device)
        present = (rows.lengths > 0)[:, :, None]
        signs = torch.where(rows.negative, MINUS, PLUS)[:, :, None]
        tokens = torch.cat([rows.counts[:, :, None], rows.digits, signs], dim=2)
        inside = torch.cat([present, place < rows.lengths[:, :, None], present], dim=2)
        end = torch.full_like(tokens[:, :1, 0], EOS)
        tokens = torch.cat([tokens.flatten(1), end], dim=1)
        inside = torch.cat([inside.flatten(1), torch.ones_like(end, dtype=torch.bool)], dim=1)
        return self._join(problems, tokens, inside)

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the questions, followed by zeros for the longest possible responses."""
        _, length = _bound_response(problems.operands[:, 2, 0].long(), problems.lengths)
        zeros = length.new_zeros(len(length), int(length.max()))
        inside = torch.arange(zeros.shape[1], device=length.device) < length[:, None]
        return self._join(problems, zeros, inside)

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
            found = re.findall(r"(\d)(\d*)([-+])", text.partition("$")[0])
            rows = [(int(count), digits, sign == "-") for count, digits, sign in found]
            is_quotient = any(row[2] for row in rows) or any(row[1].strip("0") for row in rows[:1])
            divides = is_quotient and rows[0][0] == 0
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

    def _join(
        self, problems: Problems, response: Integer[Tensor, "B A"], inside: Bool[Tensor, "B A"]
    ) -> Batch:
        """Write questions with the tokens of responses that are `inside`."""
        operation = problems.operands[:, 2, 0].long()
        signs = torch.tensor(OPERATION_TOKENS, device=operation.device)[operation]
        place = torch.arange(problems.operands.shape[2], device=operation.device)
        kept = place < problems.lengths[:, :2, None]
        ones = torch.ones_like(signs, dtype=torch.bool)
        first, second = problems.operands[:, :2].long().unbind(1)
        columns = [
            (signs[:, None], ones[:, None]),
            (first, kept[:, 0]),
            (torch.full_like(signs, COMMA)[:, None], ones[:, None]),
            (second, kept[:, 1]),
            (torch.full_like(signs, EQUALS)[:, None], ones[:, None]),
            (response.long(), inside),
        ]
        tokens, kept = (torch.cat(part, dim=1) for part in zip(*columns, strict=True))
        tokens, kept = compact_rows(tokens, kept)
        length = kept.sum(1)
        width = int(length.max())
        tokens = torch.where(kept, tokens, PAD)[:, :width].int()
        return mark_tokens(tokens, problems.lengths[:, :2].sum(1) + 3, length)


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
