"""Each number as its bits, the highest first: `^0011+1001=0010$` is 3 + 9 modulo 10."""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.formats import ALPHABET, BOS, EOS, EQUALS, PAD, Extent, Format
from carry.tasks import values


class Binary(Format):
    """Numbers from 0 to `numbers` - 1 of the task, all of as many bits as the largest.

    The source (fraknoi2024, section 4) says "binary encoding" and no more; bits here are tokens.

    >>> from carry.formats import build, text
    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "modular_addition", "modulus": 10})
    >>> problems = task.solve(*to_digits([[3, 9]]))
    >>> text(build({"name": "binary"}, task).write(problems).tokens[0])
    '^0011+1001=0010$'
    """

    @property
    def bits(self) -> int:
        """How many bits the largest number has."""
        return max(1, (self.task.numbers - 1).bit_length())

    def incompatibility(self) -> str | None:
        """Refuse tasks on numbers without end."""
        if self.task.numbers is None:
            name = type(self.task).__name__
            return f"'binary' writes every number with as many bits, and {name} has no largest one"
        return None

    def symbols(self) -> int:
        """Return the digits, of which two are used, and the signs."""
        return max([PAD, *map(ALPHABET.index, self.task.sign)]) + 1

    def extent(self, digits: int) -> Extent:
        """Return the bits of a number, and the tokens of operands and answer with their signs."""
        operands = self.task.largest(digits).shape[1]
        return Extent(self.bits, (operands + 1) * self.bits + operands + 2)

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; the place of a bit is its power of two."""
        count, device = len(problems), problems.operands.device
        numbers = [*problems.operands.unbind(1), problems.answer]
        place = torch.arange(self.bits - 1, -1, -1, device=device)
        between = [ALPHABET.index(self.task.sign)] * (len(numbers) - 2)
        tokens, part, at = [], [], []
        for index, sign in enumerate([BOS, *between, EQUALS, EOS]):
            tokens += [torch.full((count, 1), sign, device=device)]
            part, at = [*part, 0], [*at, torch.tensor([NO_PLACE], device=device)]
            if index < len(numbers):
                tokens += [values(numbers[index])[:, None] >> place & 1]
                part, at = [*part, *[index + 1] * self.bits], [*at, place]
        written = torch.cat(tokens, dim=1).int()
        marks = torch.tensor(part, dtype=torch.int32, device=device), torch.cat(at).int()
        number, place = (of.expand(count, -1) for of in marks)
        length = torch.full((count,), written.shape[1], device=device)
        levels = written.new_empty(*written.shape, 0)
        return Batch(written, number, place, levels, length - 1 - self.bits, length)

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B N"]:
        """Return the decimal digits of the number, the ones first; behind their end stands EOS.

        A response with anything but bits where they are due is no number, and reads as empty.
        """
        bits = response[:, : self.bits].long()
        powers = 2 ** torch.arange(bits.shape[1] - 1, -1, -1, device=bits.device)
        value = (bits.clamp(0, 1) * powers).sum(1, keepdim=True)
        place = torch.arange(len(str(2**self.bits - 1)), device=bits.device)
        length = 1 + (value >= 10 ** place[1:]).sum(1, keepdim=True)
        whole = (bits <= 1).all(1, keepdim=True) & (bits.shape[1] == self.bits)
        return torch.where((place < length) & whole, value // 10**place % 10, EOS)
