"""Sums in a line of other text: `^kq 7+5=21 x21+43=64$`; the response answers the last sum.

kq                    text: letters and spaces
7+5=21                an earlier sum with its correct answer, followed by a space
x                     text
21+43=                the problem

^ k q   7 + 5 = 2 1   x 2 1 + 4 3 = 6 4 $
. . . . 1 0 1 0 1 2 . . 1 2 0 1 2 0 1 2 .     level 1: the place
. . . . 1 1 1 1 1 1 . . 2 2 2 2 2 2 2 2 .     level 2: the sum, counted through the line
"""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Integer
from pydantic import BeforeValidator, Field
from torch import Tensor

from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.formats import (
    ALPHABET,
    BOS,
    EQUALS,
    FIRST_LETTER,
    SPACE,
    Extent,
    Format,
    Piece,
    join_pieces,
    sign_piece,
)
from carry.formats.expression import number_piece, operand_pieces
from carry.randomness import hash_to_range
from carry.tasks.addition import Addition

TEXT_LETTERS = 26
MAX_CHARACTERS, MAX_SUMS = 100_000, 10_000  # longer lines exhaust memory
# Purposes of hashed numbers: the number of sums, and four purposes for each sum.
SUMS, PER_SUM = 0, 4
LENGTH, TEXT, LENGTHS, DIGITS = range(1, 1 + PER_SUM)


def _to_range(value: object) -> object:
    """Return a single number as minimum and maximum."""
    return [value, value] if isinstance(value, int) else value


Pair = Field(min_length=2, max_length=2)
Characters = Annotated[int, Field(ge=0, le=MAX_CHARACTERS)]
Sums = Annotated[int, Field(ge=1, le=MAX_SUMS)]


class Line(Format):
    """Letters and spaces before each of several sums; the last sum is the problem.

    `text`: the number of characters before each sum; `sums`: the number of sums. Each setting is
    one number, or a minimum and a maximum of a uniform number. The least significant digit of each
    number is first.

    Text and earlier sums are a function of the problem's label, so that a problem is always
    written alike. Earlier sums are correct, and their operands are at most as long as the longest
    operand of the problem. Text is not coupled.

    >>> from carry.formats import build_format
    >>> from carry.tasks import build_task
    >>> task = build_task({"name": "addition"})
    >>> for settings in ({"sums": 1}, {"text": 0, "sums": 3}, {"text": 4, "sums": 2}):
    ...     print(build_format({"name": "line", **settings}, task).write_text(653, 49))
    ^kwgqaa356+94=207$
    ^3+139=439 955+9=865 356+94=207$
    ^kwgq3+139=439 ra r356+94=207$
    """

    task_type = Addition
    last_symbol = ALPHABET[FIRST_LETTER + TEXT_LETTERS - 1]
    level_count = 2  # the place, and the sum
    hides_answer_length = True

    text: Annotated[list[Characters], Pair, BeforeValidator(_to_range)] = [0, 10]
    sums: Annotated[list[Sums], Pair, BeforeValidator(_to_range)] = [1, 2]

    @property
    def variable_length(self) -> bool:
        """Text and earlier sums have random lengths."""
        return self.text[0] < self.text[1] or self.sums[1] > 1

    def incompatibility(self) -> str | None:
        """Refuse empty ranges."""
        for key in ("text", "sums"):
            least, most = getattr(self, key)
            if least > most:
                return f"{key} {[least, most]} is empty; expected the minimum first"
        return None

    def extent(self, digits: int) -> Extent:
        """Return the longest number, and the tokens of the longest line."""
        longest, (_, text), (_, sums) = self.task.max_answer_length(digits), self.text, self.sums
        tokens = sums * (text + 2 * digits + 2 + longest) + (sums - 1) + 2
        return Extent(longest, tokens, (longest + 1, sums))

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; signs are coupled as in an `expression`.

        Numbers are counted through the line.
        """
        device, label = problems.operands.device, problems.label
        earlier = _hash_in_range(self.sums, label, SUMS) - 1  # number of earlier sums
        pieces = [sign_piece(BOS, device)]
        for index in range(self.sums[1] - 1):
            present = (index < earlier)[:, None]
            sum_pieces = self._sum_pieces(self._earlier_problems(problems, index), index)
            for piece in (self._text_piece(label, index), *sum_pieces, sign_piece(SPACE, device)):
                pieces.append(piece._replace(present=piece.present & present))
        last = earlier[:, None]
        pieces += [self._text_piece(label, last), *self._sum_pieces(problems, last)]
        couplings = [((1, 1), (index, 0)) for index in range(self.sums[1]) for _ in range(3)]
        return join_pieces(pieces[:-1], pieces[-1:], len(problems), couplings)

    def _sum_pieces(self, problems: Problems, index: int | Integer[Tensor, "B 1"]) -> list[Piece]:
        """Return the pieces of a sum with its index in the line."""
        length = problems.answer_length
        pieces = [
            *operand_pieces(problems.operands, problems.lengths, "+", reverse=True),
            sign_piece(EQUALS, length.device, number=3),
            number_piece(problems.answer, length, 3, reverse=True),
        ]
        return [piece._replace(number=piece.number + 3 * index) for piece in pieces]

    def _text_piece(
        self, label: Integer[Tensor, " B"], index: int | Integer[Tensor, "B 1"]
    ) -> Piece:
        """Return the text before the sum with this index."""
        purpose = PER_SUM * index
        length = _hash_in_range(self.text, label, purpose + LENGTH)
        character = hash_to_range(_keys(label, purpose + TEXT, self.text[1]), TEXT_LETTERS + 1)
        tokens = torch.where(character < TEXT_LETTERS, FIRST_LETTER + character, SPACE)
        present = torch.arange(self.text[1], device=label.device) < length[:, None]
        return Piece(tokens, present, 0, torch.full_like(tokens, NO_PLACE))

    def _earlier_problems(self, problems: Problems, index: int) -> Problems:
        """Return the earlier sum with this index for each problem's line."""
        label, longest = problems.label, problems.lengths.amax(1, keepdim=True)
        purpose = PER_SUM * index
        lengths = 1 + hash_to_range(_keys(label, purpose + LENGTHS, 2), longest)
        place = torch.arange(problems.operands.shape[2], device=label.device)
        inside = place < lengths[:, :, None]
        leading = ((place == lengths[:, :, None] - 1) & (place > 0)).long()  # must not be zero
        keys = _keys(label, purpose + DIGITS, 2 * len(place)).unflatten(1, (-1, 2)).transpose(1, 2)
        digits = (leading + hash_to_range(keys, self.task.base - leading)) * inside
        return self.task.solve(digits.to(torch.uint8), lengths)


def _hash_in_range(
    bounds: list[int], label: Integer[Tensor, " B"], purpose: int | Integer[Tensor, "B 1"]
) -> Integer[Tensor, " B"]:
    """Return a hashed number from a minimum to a maximum for each label."""
    least, most = bounds
    return least + hash_to_range(_keys(label, purpose, 1)[:, 0], most - least + 1)


def _keys(
    label: Integer[Tensor, " B"], purpose: int | Integer[Tensor, "B 1"], count: int
) -> Integer[Tensor, "B W"]:
    """Return `count` hash keys for each label and purpose; no two purposes share a key."""
    index = torch.arange(count, device=label.device)
    return (label.long()[:, None] << 44) + (purpose << 24) + index
