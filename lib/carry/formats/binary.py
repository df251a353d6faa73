"""Numbers as bits, most significant first: `^0011+1001=0010$` is 3 + 9 modulo 10."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.formats import (
    ALPHABET,
    BOS,
    EOS,
    EQUALS,
    PAD,
    PLUS,
    Format,
    join_pieces,
    sign_piece,
)
from carry.formats.expression import number_piece
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
    last_symbol = ALPHABET[PAD]

    @property
    def bits(self) -> int:
        """The number of bits of the largest number."""
        return (self.task.modulus - 1).bit_length()

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; the place of a bit is its power of two."""
        place = torch.arange(self.bits, device=problems.room.device)
        return write_values(problems, lambda value: value >> place & 1, PLUS)

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B N"]:
        """Return the decimal digits of the number, least significant first, followed by EOS.

        A response with other tokens than bits reads as empty.
        """
        bits = response[:, : self.bits].long()
        powers = 2 ** torch.arange(bits.shape[1] - 1, -1, -1, device=bits.device)
        value = (bits.clamp(0, 1) * powers).sum(1, keepdim=True)
        valid = (bits <= 1).all(1, keepdim=True) & (bits.shape[1] == self.bits)
        return read_value(value, valid, 2**self.bits - 1)


def write_values(
    problems: Problems, write: Callable[[Integer[Tensor, "B 1"]], Tensor], sign: int | None
) -> Batch:
    """Write numbers as `write` does, by place, with a sign between operands."""
    numbers = [*problems.operands.unbind(1), problems.answer]
    device, pieces = problems.room.device, []
    for number, before in enumerate([BOS, *[sign] * (len(numbers) - 2), EQUALS], start=1):
        if before is not None:
            pieces.append(sign_piece(before, device))
        symbols = write(digits_to_values(numbers[number - 1])[:, None])
        length = torch.full_like(problems.room, symbols.shape[1])
        pieces.append(number_piece(symbols, length, number, reverse=False))
    return join_pieces(pieces[:-1], pieces[-1:], len(problems), [()] * len(numbers))


def read_value(
    value: Integer[Tensor, "B 1"], valid: Bool[Tensor, "B 1"], largest: int
) -> Integer[Tensor, "B N"]:
    """Return the digits of valid numbers, least significant first, followed by EOS.

    >>> read_value(torch.tensor([[37], [5]]), torch.tensor([[True], [False]]), 112).tolist()
    [[7, 3, 13], [13, 13, 13]]
    """
    place = torch.arange(len(str(largest)), device=value.device)
    length = 1 + (value >= 10 ** place[1:]).sum(1, keepdim=True)
    return torch.where((place < length) & valid, value // 10**place % 10, EOS)
