"""An array with a name before each number, and the names in order: `^a:65,b:9,c:81=b,a,c$`."""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.formats import (
    ALPHABET,
    BOS,
    EOS,
    EQUALS,
    FIRST_LETTER,
    Extent,
    Format,
    Piece,
    first_letter,
    join,
    symbol,
    together,
)
from carry.tasks import NAMES


class Labelled(Format):
    """Operands named by consecutive letters from a drawn one on, of 52 (mcleish2024, A.5).

    `reverse_operands`: write the ones first, as the paper does.

    >>> from carry.formats import build, text
    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "sorting"})
    >>> problems = task.solve(*to_digits([[57, 8, 120]]))
    >>> text(build({"name": "labelled"}, task).write(problems).tokens[0])
    '^a:75,b:8,c:021=b,a,c$'
    """

    reverse_operands: bool = True

    def incompatibility(self) -> str | None:
        """Refuse answers that are numbers."""
        if self.task.in_digits:
            return "'labelled' names operands, and the answer is a number; expected 'expression'"
        return None

    def symbols(self) -> int:
        """Return the digits, the signs and the names."""
        return FIRST_LETTER + len(NAMES)

    def extent(self, digits: int) -> Extent:
        """Return the longest operand, and the tokens of so many operands of so many digits.

        Raises:
            SettingsError: for more operands than there are names.
        """
        if digits > len(NAMES):
            raise SettingsError(
                f"format: an array of {digits} numbers does not fit, there are {len(NAMES)} names; "
                "expected a shorter one"
            )
        return Extent(digits, 2 + digits * (digits + 3) + 2 * digits - 1)

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; names and signs have no place."""
        device = problems.operands.device
        first = FIRST_LETTER + first_letter(problems.label, len(NAMES) + 1 - problems.room)
        colon, comma = map(ALPHABET.index, ":,")
        place = torch.arange(problems.operands.shape[2], device=device)[None]
        pieces = [symbol(BOS, device)]
        for index in range(problems.operands.shape[1]):
            there = (index < problems.room)[:, None]
            present = place < problems.lengths[:, index, None]
            digits, at = problems.operands[:, index], place
            if not self.reverse_operands:
                digits, present, at = digits.flip(1), present.flip(1), place.flip(1)
            if index:
                pieces += [symbol(comma, device, there)]
            pieces += [symbol(first[:, None] + index, device, there), symbol(colon, device, there)]
            pieces += [Piece(digits, present, index + 1, at)]
        pieces += [symbol(EQUALS, device)]
        for rank in range(problems.answer.shape[1]):
            there = (rank < problems.answer_length)[:, None]
            if rank:
                pieces += [symbol(comma, device, there)]
            pieces += [symbol(first[:, None] + problems.answer[:, rank, None], device, there)]
        pieces += [symbol(EOS, device)]
        lines = [()] * problems.operands.shape[1]
        tokens, marks, total = join(pieces, len(problems), device, lines)
        return Batch(tokens, *marks, total - 2 * problems.answer_length, total)

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the names in order, as letters of the alphabet; behind their end stands EOS."""
        kept = ((response == EOS).cumsum(1) == 0) & (response >= FIRST_LETTER)
        names, inside = together(response, kept)
        return torch.where(inside, names, EOS)
