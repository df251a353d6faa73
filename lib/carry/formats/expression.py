"""The problem as one writes it: `^a+b=c$`, either side reversed, padded with zeros or not."""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.batch import Batch, Problems
from carry.formats import BOS, EOS, EQUALS, PLUS, Format, join, symbol


class Expression(Format):
    """Two operands and their result.

    `reverse_operands`, `reverse_answer`: write the ones first. `pad`: zeros make the operands of
    a problem equally long, and its answer one digit longer than that (cho2025's coupling).

    >>> from carry.formats import text
    >>> from carry.tasks import build, to_digits
    >>> problems = build({"name": "addition"}).solve(*to_digits([[653, 49]]))
    >>> text(Expression().write(problems).tokens[0])
    '^356+94=207$'
    >>> text(Expression(reverse_operands=False, pad=True).write(problems).tokens[0])
    '^653+049=2070$'
    """

    reverse_operands: bool = True
    reverse_answer: bool = True
    pad: bool = False

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks."""
        count, device = len(problems), problems.operands.device
        longest = problems.lengths.amax(1)
        pieces = [symbol(BOS, device)]
        for index, sign in enumerate([PLUS, EQUALS]):
            length = longest if self.pad else problems.lengths[:, index]
            digits = problems.operands[:, index]
            pieces += [self._number(digits, length, index + 1, self.reverse_operands)]
            pieces += [symbol(sign, device)]
        length = longest + 1 if self.pad else problems.answer_length
        pieces += [self._number(problems.answer, length, 3, self.reverse_answer)]
        pieces += [symbol(EOS, device)]
        tokens, number, place, total = join(pieces, count, device)
        return Batch(tokens, number, place, total - length - 1, total)

    def longest(self, digits: int) -> int:
        """Return the tokens of the longest sum: both operands, an answer one longer, four signs."""
        return 3 * digits + 1 + 4

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B A"]:
        """Return the response with the ones first; what stands at and behind its end is EOS."""
        ended = (response == EOS).cumsum(1) > 0
        response = torch.where(ended, EOS, response)
        if self.reverse_answer:
            return response
        length = (~ended).sum(1, keepdim=True)
        at = length - 1 - torch.arange(response.shape[1], device=response.device)
        return torch.where(at >= 0, response.gather(1, at.clamp(min=0)), EOS)

    @staticmethod
    def _number(digits: Tensor, length: Tensor, number: int, reverse: bool) -> tuple:
        place = torch.arange(digits.shape[1], device=digits.device)[None]
        present = place < length[:, None]
        if reverse:
            return digits, present, number, place
        return digits.flip(1), present.flip(1), number, place.flip(1)
