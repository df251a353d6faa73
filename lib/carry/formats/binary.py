"""Numbers as bits, most significant first: `^0011+1001=0010$` is 3 + 9 modulo 10."""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.formats import ALPHABET, BOS, EOS, EQUALS, PAD, Extent, Format
from carry.tasks import digits_to_values
from carry.tasks.modular_addition import ModularAddition


class Binary(Format):
    """All numbers have the same number of bits, as many as the largest number needs.

    The source (fraknoi2024, section 4) says only "binary encoding"; here each bit is one token.

    >>> from carry.formats import build_format
    >>> from carry.tasks import build_task
    >>> task = build_task({"name": "modular_addition", "modulus": 10})
    >>> build_format({"name": "binary"}, task).write_text(3, 9)
    '^0011+1001=0010$'
    """

    task_type = ModularAddition

    @property
    def bits(self) -> int:
        """The number of bits of the largest number."""
        return (self.task.modulus - 1).bit_length()

    def vocabulary_size(self) -> int:
        """Return the end of the digits and signs; only two digits are used."""
        return max([PAD, *map(ALPHABET.index, self.task.sign)]) + 1

    def extent(self, digits: int) -> Extent:
        """Return the bits of a number, and the tokens of operands, answer and signs."""
        operands = self.task.largest_lengths(digits).shape[1]
        return Extent(self.bits, (operands + 1) * self.bits + operands + 2)

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; the place of a bit is its power of two."""
        count, device = len(problems), problems.operands.device
        numbers = [*problems.operands.unbind(1), problems.answer]
        bit_places = torch.arange(self.bits - 1, -1, -1, device=device)
        between = [ALPHABET.index(self.task.sign)] * (len(numbers) - 2)
        tokens, number_marks, place_marks = [], [], []
        for index, sign in enumerate([BOS, *between, EQUALS, EOS]):
            tokens.append(torch.full((count, 1), sign, device=device))
            number_marks.append(0)
            place_marks.append(torch.tensor([NO_PLACE], device=device))
            if index < len(numbers):
                tokens.append(digits_to_values(numbers[index])[:, None] >> bit_places & 1)
                number_marks.extend([index + 1] * self.bits)
                place_marks.append(bit_places)
        written = torch.cat(tokens, dim=1).int()
        number = torch.tensor(number_marks, dtype=torch.int32, device=device).expand(count, -1)
        place = torch.cat(place_marks).int().expand(count, -1)
        length = torch.full((count,), written.shape[1], device=device)
        levels = written.new_empty(*written.shape, 0)
        return Batch(written, number, place, levels, length - 1 - self.bits, length)

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B N"]:
        """Return the decimal digits of the number, least significant first, followed by EOS.

        A response with other tokens than bits reads as empty.
        """
        bits = response[:, : self.bits].long()
        powers = 2 ** torch.arange(bits.shape[1] - 1, -1, -1, device=bits.device)
        value = (bits.clamp(0, 1) * powers).sum(1, keepdim=True)
        place = torch.arange(len(str(2**self.bits - 1)), device=bits.device)
        length = 1 + (value >= 10 ** place[1:]).sum(1, keepdim=True)
        valid = (bits <= 1).all(1, keepdim=True) & (bits.shape[1] == self.bits)
        return torch.where((place < length) & valid, value // 10**place % 10, EOS)
