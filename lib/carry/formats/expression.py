"""The problem as one writes it: `^a+b=c$`, either side reversed, padded with zeros or not."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.batch import Batch, Problems
from carry.formats import (
    ALPHABET,
    BOS,
    EOS,
    EQUALS,
    FIRST_LETTER,
    LETTERS,
    PAD,
    Extent,
    Format,
    first_letter,
    join,
    symbol,
    together,
)
from carry.settings import SettingsError
from carry.tasks import Task


class Expression(Format):
    """Two operands and their result, with the task's sign between them.

    `reverse_operands`, `reverse_answer`: write the ones first. `pad`: zeros make the operands of
    a problem equally long, and its answer as long as it could be (cho2025's coupling).

    `hints`: a letter before every digit says its place, in all numbers of a problem alike, from a
    drawn one on (mcleish2024, A.6.5): `cyclic`, starting at any of 102, with the first following
    the last, or `ordered`, starting early enough to end in order, so that late letters are rare.

    >>> from carry.formats import build, text
    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> problems = task.solve(*to_digits([[653, 49]]))
    >>> for given in ({}, {"reverse_operands": False, "pad": True}, {"hints": "cyclic"}):
    ...     print(text(build(given, task).write(problems).tokens[0]))
    ^356+94=207$
    ^653+049=2070$
    ^a3b5c6+a9b4=a2b0c7$
    """

    reverse_operands: bool = True
    reverse_answer: bool = True
    pad: bool = False
    hints: Literal["none", "cyclic", "ordered"] = "none"

    @property
    def hinted(self) -> bool:
        """Whether letters stand before the digits."""
        return self.hints != "none"

    def misfit(self, task: Task) -> str | None:
        """Refuse answers that are no numbers, and another sign than the task's."""
        if not task.in_digits:
            return "'expression' writes numbers, and the answer is a list; expected 'labelled'"
        if self.sign != task.sign:
            return f"sign {self.sign!r} is not the task's, expected {task.sign!r}"
        return None

    def symbols(self, task: Task) -> int:
        """Return the digits and signs of addition, further signs, or the letters too."""
        if self.hinted:
            return len(ALPHABET)
        return max(PAD, ALPHABET.index(self.sign)) + 1

    def extent(self, task: Task, digits: int) -> Extent:
        """Return the longest number, and the tokens of the longest problem with its four signs.

        Raises:
            SettingsError: for more places than there are letters to hint at them.
        """
        longest = task.longest_answer(digits)
        if self.hinted and longest > len(LETTERS):
            raise SettingsError(
                f"format.hints: {longest} places of a number do not fit, there are "
                f"{len(LETTERS)} letters; expected fewer digits"
            )
        each = 2 if self.hinted else 1
        return Extent(each * max(digits, longest), each * (2 * digits + longest) + 4)

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks."""
        count, device = len(problems), problems.operands.device
        longest = problems.lengths.amax(1)
        first = self._first(problems)
        pieces = [symbol(BOS, device)]
        for index, sign in enumerate([ALPHABET.index(self.sign), EQUALS]):
            length = longest if self.pad else problems.lengths[:, index]
            digits = problems.operands[:, index]
            pieces += [self._number(digits, length, index + 1, self.reverse_operands, first)]
            pieces += [symbol(sign, device)]
        length = problems.room if self.pad else problems.answer_length
        pieces += [self._number(problems.answer, length, 3, self.reverse_answer, first)]
        pieces += [symbol(EOS, device)]
        tokens, number, place, total = join(pieces, count, device)
        each = 2 if self.hinted else 1
        return Batch(tokens, number, place, total - each * length - 1, total)

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the digits with the ones first; what stands at and behind their end is EOS.

        Letters are left out, wherever they stand.
        """
        at = torch.arange(response.shape[1], device=response.device)
        kept = (response == EOS).cumsum(1) == 0
        if self.hinted:
            response, kept = together(response, kept & (response < FIRST_LETTER))
        response = torch.where(kept, response, EOS)
        if self.reverse_answer:
            return response
        back = kept.sum(1, keepdim=True) - 1 - at
        return torch.where(back >= 0, response.gather(1, back.clamp(min=0)), EOS)

    def _first(self, problems: Problems) -> Integer[Tensor, " B"]:
        """Return the letter of the ones, counted from the first."""
        count = len(LETTERS)
        if self.hints == "ordered":
            count = (count + 1 - torch.maximum(problems.room, problems.lengths.amax(1))).clamp(1)
        return first_letter(problems.label, count)

    def _number(
        self, digits: Tensor, length: Tensor, number: int, reverse: bool, first: Tensor
    ) -> tuple:
        place = torch.arange(digits.shape[1], device=digits.device)[None]
        present = place < length[:, None]
        if not reverse:
            digits, present, place = digits.flip(1), present.flip(1), place.flip(1)
        if self.hinted:  # a letter takes the marks of its digit, and stands before it
            letters = FIRST_LETTER + (first[:, None] + place) % len(LETTERS)
            digits = torch.stack([letters, digits.long()], dim=2).flatten(1)
            present, place = (marks.repeat_interleave(2, 1) for marks in (present, place))
        return digits, present, number, place
