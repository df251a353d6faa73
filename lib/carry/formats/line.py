"""Sums inside a line of other text: `^kq 7+5=21 x21+43=64$`, the last of which is asked.

kq                    text: letters and spaces
7+5=21                an earlier sum, with its right answer and a space behind it
x                     text again
21+43=                the problem's own sum

^ k q   7 + 5 = 2 1   x 2 1 + 4 3 = 6 4 $
. . . . 1 0 1 0 1 2 . . 1 2 0 1 2 0 1 2 .     level 1: the place
. . . . 1 1 1 1 1 1 . . 2 2 2 2 2 2 2 2 .     level 2: which sum of the line
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from jaxtyping import Integer
from pydantic import BeforeValidator, Field
from torch import Tensor

from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.formats import (
    BOS,
    EOS,
    EQUALS,
    FIRST_LETTER,
    SPACE,
    Extent,
    Format,
    Piece,
    join,
    symbol,
)
from carry.formats.expression import asked, number, ones_first
from carry.randomness import drawn_for
from carry.tasks.addition import Addition

LETTERS = 26
# What is drawn for a problem: how many sums there are, then these for each of them.
SUMS, PER_SUM = 0, 4
LENGTH, TEXT, LENGTHS, DIGITS = range(1, 1 + PER_SUM)


def _both(given: object) -> object:
    """Return one number as the least and the most."""
    return [given, given] if isinstance(given, int) else given


Two = Field(min_length=2, max_length=2)
FromNone = Annotated[list[Annotated[int, Field(ge=0)]], Two, BeforeValidator(_both)]
FromOne = Annotated[list[Annotated[int, Field(ge=1)]], Two, BeforeValidator(_both)]


class Line(Format):
    """Letters and spaces before each of some sums, the last of which is the problem's own.

    `text`: so many characters stand before each sum; `sums`: so many sums stand in the line. Each
    is one number, or a least and a most, between which it is drawn evenly. `reverse_operands`,
    `reverse_answer`: write the ones first.

    All but the own sum is drawn for the label of the problem, so that it is written the same each
    time. Earlier sums are right, and their operands are as long as the longest of the problem at
    most. Text is coupled at no level.

    >>> from carry.formats import build, text
    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> problems = task.solve(*to_digits([[653, 49]]))
    >>> for given in ({"sums": 1}, {"text": 0, "sums": 3}, {"text": 4, "sums": 2}):
    ...     print(text(build({"name": "line", **given}, task).write(problems).tokens[0]))
    ^kwgqaa356+94=207$
    ^3+139=439 955+9=865 356+94=207$
    ^kwgq3+139=439 ra r356+94=207$
    """

    pad: ClassVar[bool] = False  # no zeros, so an id of the highest digit would tell the length

    text: FromNone = [0, 10]
    sums: FromOne = [1, 2]
    reverse_operands: bool = True
    reverse_answer: bool = True

    @property
    def variable_length(self) -> bool:
        """Text, and the sums before the own, are as long as they are drawn."""
        return self.text[0] < self.text[1] or self.sums[1] > 1

    @property
    def levels(self) -> int:
        """Digits are coupled by their place, and by the sum that they stand in."""
        return 2

    def incompatibility(self) -> str | None:
        """Refuse all but the addition of two numbers, and ranges that have nothing in them."""
        if not isinstance(self.task, Addition):
            name = type(self.task).__name__
            return f"'line' writes sums, and {name} has others; expected task 'addition'"
        for key in ("text", "sums"):
            least, most = getattr(self, key)
            if least > most:
                return f"{key} {[least, most]} has nothing in it; expected the least first"
        return None

    def symbols(self) -> int:
        """Return the digits, the signs and the letters of text."""
        return FIRST_LETTER + LETTERS

    def extent(self, digits: int) -> Extent:
        """Return the longest number, and the tokens of the longest line with as many sums."""
        longest, (_, text), (_, sums) = self.task.longest_answer(digits), self.text, self.sums
        tokens = sums * (text + 2 * digits + 2 + longest) + (sums - 1) + 2
        return Extent(longest, tokens, (longest + (1 if self.reverse_answer else 2), sums))

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; signs are coupled as in an `expression`.

        Numbers are counted through the line.
        """
        device, label = problems.operands.device, problems.label
        before = _drawn_in(self.sums, label, SUMS) - 1  # sums that stand before the own
        pieces = [symbol(BOS, device)]
        for index in range(self.sums[1] - 1):
            there = (index < before)[:, None]
            some = [*self._sum(self._earlier(problems, index), index), symbol(SPACE, device)]
            some = [self._text(label, index), *some]
            pieces += [piece._replace(present=piece.present & there) for piece in some]
        own = before[:, None]
        pieces += [self._text(label, own), *self._sum(problems, own), symbol(EOS, device)]
        lines = [((1, 1), (index, 0)) for index in range(self.sums[1]) for _ in range(3)]
        tokens, marks, total = join(pieces, len(problems), device, lines)
        return Batch(tokens, *marks, total - problems.answer_length - 1, total)

    def without_padding(self) -> Line:
        """Return the format without text and without other sums."""
        return self.model_copy(update={"text": [0, 0], "sums": [1, 1]})

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the digits with the ones first; what stands at and behind their end is EOS."""
        kept = (response == EOS).cumsum(1) == 0
        return ones_first(response, kept, self.reverse_answer)

    def _sum(self, problems: Problems, index: int | Integer[Tensor, "B 1"]) -> list[Piece]:
        """Return the pieces of a sum, which is the `index`-th of its line."""
        length = problems.answer_length
        above = NO_PLACE if self.reverse_answer else length[:, None]
        pieces = [
            *asked(problems.operands, problems.lengths, "+", self.reverse_operands),
            symbol(EQUALS, length.device, None, 3, above),
            number(problems.answer, length, 3, self.reverse_answer),
        ]
        return [piece._replace(part=piece.part + 3 * index) for piece in pieces]

    def _text(self, label: Integer[Tensor, " B"], index: int | Integer[Tensor, "B 1"]) -> Piece:
        """Return the piece that is the text before a sum."""
        what = PER_SUM * index
        length = _drawn_in(self.text, label, what + LENGTH)
        drawn = drawn_for(_keys(label, what + TEXT, self.text[1]), LETTERS + 1)
        tokens = torch.where(drawn < LETTERS, FIRST_LETTER + drawn, SPACE)
        present = torch.arange(self.text[1], device=label.device) < length[:, None]
        return Piece(tokens, present, 0, torch.full_like(tokens, NO_PLACE))

    def _earlier(self, problems: Problems, index: int) -> Problems:
        """Return for each problem the `index`-th sum of its line, which is not its own."""
        label, longest = problems.label, problems.lengths.amax(1, keepdim=True)
        what = PER_SUM * index
        lengths = 1 + drawn_for(_keys(label, what + LENGTHS, 2), longest)
        place = torch.arange(problems.operands.shape[2], device=label.device)
        inside = place < lengths[:, :, None]
        highest = ((place == lengths[:, :, None] - 1) & (place > 0)).long()  # and is no zero
        keys = _keys(label, what + DIGITS, 2 * len(place)).unflatten(1, (-1, 2)).transpose(1, 2)
        digits = (highest + drawn_for(keys, 10 - highest)) * inside
        return self.task.solve(digits.to(torch.uint8), lengths)


def _drawn_in(
    between: list[int], label: Integer[Tensor, " B"], what: int | Integer[Tensor, "B 1"]
) -> Integer[Tensor, " B"]:
    """Draw a number from a least to a most."""
    least, most = between
    return least + drawn_for(_keys(label, what, 1)[:, 0], most - least + 1)


def _keys(
    label: Integer[Tensor, " B"], what: int | Integer[Tensor, "B 1"], count: int
) -> Integer[Tensor, "B W"]:
    """Return what is drawn for: so many keys for a purpose, of which no other has any."""
    each = torch.arange(count, device=label.device)
    return (label.long()[:, None] << 44) + (what << 24) + each
