"""Addition with its steps in words, one line for each place (ibrahimli2024, 4.2.1, Table 4.1).

567 + 7890, line by line; the problem is one line of text without breaks:

    ^567+7890=                  the question
    7 6 5 + 0 9 8 7             both operands, least significant digit first
    ; c=0                       the carry into place 0
    , 7+0+0=7, c=0              two digits and the carry used; the carry made
    ; 6+9+0=5, c=1
    ; 5+8+1=4, c=1
    ; 0+7+1=8, c=0
     8457$                      the answer

Each place of the longer operand has a line; a digit that the other operand lacks is 0. A carry out
of the last place is the most significant digit of the answer and has no line.

The source prints this text after the question 567+789 and with `9 8 7`, from another sum than the
lines; it says that a bar separates the answer, and prints a space.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.formats import (
    ALPHABET,
    EQUALS,
    PLUS,
    SPACE,
    Format,
    Piece,
    before_end,
    hide_responses,
    join_pieces,
    read_after_last,
    sign_piece,
)
from carry.formats.expression import least_significant_first, number_piece, operand_pieces
from carry.formats.sub_task import text_piece
from carry.tasks.addition import Addition

BAR, COMMA, SEMICOLON, CARRY = map(ALPHABET.index, "|,;c")
FIRST_LINE = 5  # numbers 1 to 4 are the operands, in the question and in the response


class Worded(Format):
    """A scratchpad with carries: the digits of each place, their sum, and the carry, in words.

    `begin`: the first token; `$` is the same token as the end. `bar`: a bar precedes the answer
    instead of a space.

    The reversed operands are numbers 3 and 4, each line is a number with the place that it adds,
    and the answer is the last number. In tables of steps these are steps 0, 1, and 2 to the last.

    >>> from carry.formats import build_format
    >>> from carry.tasks import build_task
    >>> build_format({"name": "worded"}, build_task({"name": "addition"})).write_text(57, 8)
    '^57+8=7 5 + 8; c=0, 7+8+0=5, c=1; 5+0+1=6, c=0 65$'
    """

    task_type = Addition
    last_symbol = ALPHABET[CARRY]
    has_steps = True

    begin: Literal["^", "$"] = "^"
    bar: bool = False

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; signs have no number and no place."""
        device, longest = problems.operands.device, problems.lengths.amax(1)
        question = [
            sign_piece(ALPHABET.index(self.begin), device),
            *operand_pieces(problems.operands, problems.lengths, "+", False),
            sign_piece(EQUALS, device),
        ]
        first, second = problems.operands.unbind(1)
        first_length, second_length = problems.lengths.unbind(1)
        zero, last = torch.zeros(1, 1, dtype=torch.long, device=device), FIRST_LINE + longest
        response = [
            _columns_piece([(first, 3)], first_length, between=SPACE),
            text_piece(" + ", device),
            _columns_piece([(second, 4)], second_length, between=SPACE),
            text_piece("; c=", device),
            Piece(zero, zero == 0, FIRST_LINE, zero),
            self._line_pieces(problems),
            sign_piece(BAR if self.bar else SPACE, device),
            number_piece(problems.answer, problems.answer_length, last[:, None], False),
        ]
        couplings = [()] * (FIRST_LINE + int(longest.max()))
        return join_pieces(question, response, len(problems), couplings)

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the questions, followed by zeros for the longest possible responses."""
        return hide_responses(super().write_open_ended(problems))

    def _line_pieces(self, problems: Problems) -> Piece:
        """Return the lines of all places: `, 7+0+0=7, c=0` and so on, each a number."""
        steps, device = self.task.compute_steps(problems), problems.operands.device
        place = torch.arange(problems.operands.shape[2], device=device)[None]
        used, carry = steps["carry_used"], steps["carry_made"]
        first, second = problems.operands.unbind(1)
        separator = torch.where(place == 0, COMMA, SEMICOLON)
        digit, line = steps["digit_sum"] + used - self.task.base * carry, FIRST_LINE + place
        columns = [
            *((separator, 0), (SPACE, 0)),
            *((first, line), (PLUS, 0), (second, line), (PLUS, 0), (used, line)),
            *((EQUALS, 0), (digit, line), (COMMA, 0), (SPACE, 0)),
            *((CARRY, 0), (EQUALS, 0), (carry, line)),
        ]
        return _columns_piece(columns, problems.lengths.amax(1))

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the answer, least significant digit first, followed by EOS.

        The answer follows the last space, or bar. It is empty without a separator, or if other
        tokens than digits follow.
        """
        separator = (response == (BAR if self.bar else SPACE)) & before_end(response)
        answer, kept = read_after_last(response, separator)
        valid = separator.any(1) & ~(kept & (answer > 9)).any(1)
        return least_significant_first(answer, kept & valid[:, None], reversed_answer=False)


def _columns_piece(
    columns: list[tuple[Tensor | int, Tensor | int]],
    length: Integer[Tensor, " B"],
    between: int | None = None,
) -> Piece:
    """Return the tokens of each place and their numbers (0: a sign), lowest place first."""
    device = length.device
    place = torch.arange(int(length.max()), device=device)[None]
    shape = (len(length), place.shape[1])

    def expand(values: Tensor | int) -> Tensor:
        if isinstance(values, Tensor):
            return values[:, : shape[1]].long().expand(shape)
        return torch.full(shape, values, device=device)

    if between is not None:
        columns = [(between, 0), *columns]
    tokens = torch.stack([expand(column) for column, _ in columns], dim=2)
    number = torch.stack([expand(column) for _, column in columns], dim=2)
    places = torch.where(number > 0, place[:, :, None], NO_PLACE)
    present = (place < length[:, None])[:, :, None].repeat(1, 1, len(columns))
    if between is not None:
        present[:, :1, 0] = False
    return Piece(*(values.flatten(1) for values in (tokens, present, number, places)))
