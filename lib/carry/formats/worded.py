"""An addition worked out in words, with a line for each place (ibrahimli2024, 4.2.1, Table 4.1).

567 + 7890, line by line; it is written in one, with nothing between these:

    ^567+7890=                  the question
    7 6 5 + 0 9 8 7             both operands with the ones first
    ; c=0                       no carry comes into the ones
    , 7+0+0=7, c=0              two digits and the carry that comes in; the carry that goes out
    ; 6+9+0=5, c=1
    ; 5+8+1=4, c=1
    ; 0+7+1=8, c=0
     8457$                      the answer

There is a line for each place of the longer operand; a digit that the other lacks is 0. A carry out
of the last place is the answer's highest digit, and has no line.

The source prints this text behind the question 567+789 and with `9 8 7`, which are those of another
sum than all that follows; and it says that a bar separates the answer, but prints a space.
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
    EOS,
    EQUALS,
    PLUS,
    SPACE,
    Extent,
    Format,
    Piece,
    blanked,
    join,
    symbol,
)
from carry.formats.expression import asked, number, ones_first
from carry.formats.sub_task import phrase
from carry.tasks.addition import Addition

BAR, COMMA, SEMICOLON, CARRY = map(ALPHABET.index, "|,;c")
FIRST_LINE = 5  # numbers 1 to 4 are the operands, in the question and behind it


class Worded(Format):
    """The scratchpad with carries: each place's digits, their sum, and the carry, in words.

    `begin`: what stands first; a `$` is the same symbol as the end. `bar`: one stands before the
    answer, and no space.

    The reversed operands are numbers 3 and 4, each line is a number with the place that it adds,
    and the last number is the answer: in tables of steps these are 0 and 1, 2 and more, the last.

    >>> from carry.formats import build, text
    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> problems = task.solve(*to_digits([[57, 8]]))
    >>> text(build({"name": "worded"}, task).write(problems).tokens[0])
    '^57+8=7 5 + 8; c=0, 7+8+0=5, c=1; 5+0+1=6, c=0 65$'
    """

    begin: Literal["^", "$"] = "^"
    bar: bool = False

    @property
    def has_steps(self) -> bool:
        """Steps stand before the answer."""
        return True

    def incompatibility(self) -> str | None:
        """Refuse all but the addition of two numbers."""
        if not isinstance(self.task, Addition):
            name = type(self.task).__name__
            return (
                f"'worded' writes the carries of an addition, and {name} has others; expected "
                "task 'addition'"
            )
        return None

    def symbols(self) -> int:
        """Return the digits and the signs, and letters up to the one for a carry."""
        return CARRY + 1

    def extent(self, digits: int) -> Extent:
        """Return the longest number, and the tokens of the longest problem."""
        longest = self.task.longest_answer(digits)
        question, reversed_operands = 2 * digits + 3, 4 * digits + 1
        return Extent(longest, question + reversed_operands + 5 + 14 * digits + 1 + longest + 1)

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; signs have no number and no place."""
        device, longest = problems.operands.device, problems.lengths.amax(1)
        question = [
            symbol(ALPHABET.index(self.begin), device),
            *asked(problems.operands, problems.lengths, "+", False),
            symbol(EQUALS, device),
        ]
        (first, second), (one, other) = problems.operands.unbind(1), problems.lengths.unbind(1)
        nothing = torch.zeros(1, 1, dtype=torch.long, device=device)
        response = [
            columns([(first, 3)], one, between=SPACE),
            phrase(" + ", device),
            columns([(second, 4)], other, between=SPACE),
            phrase("; c=", device),
            Piece(nothing, nothing == 0, FIRST_LINE, nothing),
            self._lines(problems),
            symbol(BAR if self.bar else SPACE, device),
            number(problems.answer, problems.answer_length, FIRST_LINE + longest[:, None], False),
            symbol(EOS, device),
        ]
        parts = FIRST_LINE + int(longest.max())
        tokens, marks, total = join([*question, *response], len(problems), device, [()] * parts)
        return Batch(tokens, *marks, problems.lengths.sum(1) + 3, total)

    def write_open_ended(self, problems: Problems) -> Batch:
        """Write the questions, and behind them zeros for the longest response they could have."""
        return blanked(super().write_open_ended(problems))

    def _lines(self, problems: Problems) -> Piece:
        """Return the lines of all places: `, 7+0+0=7, c=0` and so on, each a number."""
        steps, device = self.task.steps(problems), problems.operands.device
        place = torch.arange(problems.operands.shape[2], device=device)[None]
        used, made = steps["carry_used"], steps["carry_made"]
        first, second = problems.operands.unbind(1)
        line = FIRST_LINE + place
        each = [
            (torch.where(place == 0, COMMA, SEMICOLON), 0), (SPACE, 0),
            (first, line), (PLUS, 0), (second, line), (PLUS, 0), (used, line), (EQUALS, 0),
            (steps["digit_sum"] + used - 10 * made, line), (COMMA, 0), (SPACE, 0),
            (CARRY, 0), (EQUALS, 0), (made, line),
        ]  # fmt: skip
        return columns(each, problems.lengths.amax(1))

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the answer with the ones first; what stands behind it is EOS.

        It is all that stands between the last space, or bar, and the end, if these are digits;
        or else there is none.
        """
        at = torch.arange(response.shape[1], device=response.device)
        inside = (response == EOS).cumsum(1) == 0
        separator = inside & (response == (BAR if self.bar else SPACE))
        begins = torch.where(separator, at + 1, 0).amax(1, keepdim=True)
        last = inside & (at >= begins)
        whole = (begins > 0) & ~(last & (response > 9)).any(1, keepdim=True)
        moved = response.gather(1, (begins + at).clamp(max=len(at) - 1))
        return ones_first(moved, whole & (at < last.sum(1, keepdim=True)), reverse=False)


def columns(
    each: list[tuple[Tensor | int, Tensor | int]],
    length: Integer[Tensor, " B"],
    between: int | None = None,
) -> Piece:
    """Return the piece that has several tokens for each place, the ones first.

    Args:
        each: tokens by place with the ones first, or one for all, and the number that they belong
            to; 0: they are signs.
        length: how many places there are.
        between: a sign between two places.

    >>> each = [(torch.tensor([[3, 5]]), 1), (PLUS, 0), (torch.tensor([[4, 8]]), 2)]
    >>> piece = columns(each, torch.tensor([2]), between=COMMA)
    >>> piece.tokens[piece.present].tolist(), piece.place[piece.present].tolist()
    ([3, 10, 4, 18, 5, 10, 8], [0, -1, 0, -1, 1, -1, 1])
    """
    device = length.device
    place = torch.arange(int(length.max()), device=device)[None]
    shape = (len(length), place.shape[1])

    def wide(of: Tensor | int) -> Tensor:
        if isinstance(of, Tensor):
            return of[:, : shape[1]].long().expand(shape)
        return torch.full(shape, of, device=device)

    if between is not None:
        each = [(between, 0), *each]
    tokens = torch.stack([wide(of) for of, _ in each], dim=2)
    part = torch.stack([wide(of) for _, of in each], dim=2)
    where = torch.where(part > 0, place[:, :, None], NO_PLACE)
    present = (place < length[:, None])[:, :, None].repeat(1, 1, len(each))
    if between is not None:
        present[:, :1, 0] = False
    return Piece(*(of.flatten(1) for of in (tokens, present, part, where)))
