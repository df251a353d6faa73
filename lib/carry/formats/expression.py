"""The problem as one writes it: `^a+b=c$`, either side reversed, padded with zeros or not."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.batch import NO_PLACE, Batch, Problems
from carry.formats import (
    ALPHABET,
    BOS,
    EOS,
    EQUALS,
    FIRST_LETTER,
    LETTERS,
    PAD,
    SIGNS,
    Extent,
    Format,
    Piece,
    first_letter,
    join,
    symbol,
    together,
)
from carry.settings import SettingsError


class Expression(Format):
    """The operands and their result, with the task's sign between operands.

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

    @property
    def levels(self) -> int:
        """Digits are coupled by their place, at one level (Cho et al. 2024)."""
        return 1

    def misfit(self) -> str | None:
        """Refuse answers that are no numbers."""
        if not self.task.in_digits:
            return "'expression' writes numbers, and the answer is a list; expected 'labelled'"
        return None

    def symbols(self) -> int:
        """Return the digits and signs of addition, further signs, or the letters too."""
        if self.hinted:
            return len(SIGNS + LETTERS)
        return max([PAD, *map(ALPHABET.index, self.task.sign)]) + 1

    def extent(self, digits: int) -> Extent:
        """Return the longest number, and the tokens of the longest problem with its signs.

        Raises:
            SettingsError: for more places than there are letters to hint at them.
        """
        longest, lengths = self.task.longest_answer(digits), self.task.largest(digits)
        if self.hinted and longest > len(LETTERS):
            raise SettingsError(
                f"format.hints: {longest} places of a number do not fit, there are "
                f"{len(LETTERS)} letters; expected fewer digits"
            )
        if self.pad:
            lengths = self.task.padded(lengths)
        each, signs = 2 if self.hinted else 1, 2 + lengths.shape[1]
        tokens = each * (int(lengths.sum()) + longest) + signs
        run = max(digits, longest, int(lengths.max()))
        return Extent(each * run, tokens, (run + (1 if self.reverse_answer else 2),))

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; a sign is coupled one below the ones.

        Where the answer is written with its highest digit first, `=` is coupled one above it.
        """
        device, first = problems.operands.device, self._first(problems)
        lengths = self.task.padded(problems.lengths) if self.pad else problems.lengths
        most = lengths.shape[1]
        pieces = [symbol(BOS, device)]
        for index in range(most):
            present = (lengths[:, index] > 0)[:, None] if most > 2 else None
            if index:
                pieces += [symbol(ALPHABET.index(self.task.sign), device, present, index)]
            digits = problems.operands[:, index]
            pieces += [number(digits, lengths[:, index], index + 1, self.reverse_operands)]
        length = problems.room if self.pad else problems.answer_length
        above = NO_PLACE if self.reverse_answer else length[:, None]
        pieces += [symbol(EQUALS, device, None, most + 1, above)]
        pieces += [number(problems.answer, length, most + 1, self.reverse_answer)]
        pieces += [symbol(EOS, device)]
        if self.hinted:
            pieces = [piece if piece.sign else _hinted(piece, first) for piece in pieces]
        lines = [((1, 1),)] * (most + 1)
        tokens, marks, total = join(pieces, len(problems), device, lines)
        each = 2 if self.hinted else 1
        return Batch(tokens, *marks, total - each * length - 1, total)

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


def number(digits: Tensor, length: Tensor, part: int, reverse: bool) -> Piece:
    """Return the piece that is a number, with zeros up to its length, the ones first if reversed.

    >>> piece = number(torch.tensor([[3, 5]]), torch.tensor([3]), part=1, reverse=False)
    >>> piece.tokens.tolist(), piece.place.tolist()
    ([[0, 5, 3]], [[2, 1, 0]])
    """
    width = int(length.max()) if len(length) else 0
    digits = torch.nn.functional.pad(digits, (0, max(0, width - digits.shape[1])))
    place = torch.arange(digits.shape[1], device=digits.device)[None]
    present = place < length[:, None]
    if not reverse:
        digits, present, place = digits.flip(1), present.flip(1), place.flip(1)
    return Piece(digits, present, part, place)


def _hinted(piece: Piece, first: Integer[Tensor, " B"]) -> Piece:
    """Put a letter before each digit, with the marks of the digit."""
    letters = FIRST_LETTER + (first[:, None] + piece.place) % len(LETTERS)
    digits = torch.stack([letters, piece.tokens.long()], dim=2).flatten(1)
    present, place = (of.repeat_interleave(2, 1) for of in (piece.present, piece.place))
    return Piece(digits, present, piece.part, place)
