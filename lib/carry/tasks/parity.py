"""Parity of a binary string (cho2025, section 3), by the parities of its prefixes.

place          0 1 2 3
string         0 1 0 1
prefixes       0 1 1 0     each the parity of the one before it and of one bit; the last is asked

digits         0101=0110
level 1        234512345
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.problems import Problems
from carry.tasks import OfOne, Stage


class Parity(OfOne):
    """Whether the number of ones is odd; bits are drawn evenly.

    Bits are counted from place 0, which is written first unless a format says otherwise; as with
    numbers, it stands last in the text of an operand.

    >>> from carry.tasks import to_digits
    >>> problems = Parity().solve(*to_digits([["1010"]]))
    >>> problems.answer[0].tolist(), Parity().steps(problems)["prefix_parity"][0].tolist()
    ([0], [0, 1, 1, 0])
    """

    base: ClassVar[int] = 2
    levels: ClassVar[int] = 1
    answer_is_last_digit: ClassVar[bool] = True

    def room(self, lengths: Integer[Tensor, "B 1"]) -> Integer[Tensor, " B"]:
        """Return one bit."""
        return torch.ones_like(lengths[:, 0])

    def longest_answer(self, digits: int) -> int:
        """Return one bit."""
        return 1

    def solve(
        self, operands: Integer[Tensor, "B 1 N"], lengths: Integer[Tensor, "B 1"]
    ) -> Problems:
        """Count the ones.

        Raises:
            SettingsError: for a string that is not binary.
        """
        if operands.numel() and int(operands.max()) > 1:
            raise SettingsError(f"operands: {int(operands.max())} is no bit; expected 0 and 1")
        answer = (operands.sum(2) % 2).to(torch.uint8)
        return self.solved(operands, lengths, answer, torch.ones_like(lengths[:, 0]))

    def steps(self, problems: Problems) -> dict[str, Integer[Tensor, "B _"]]:
        """Return the parity of the bits up to each place."""
        return {"prefix_parity": (problems.operands[:, 0].cumsum(1) % 2).to(torch.uint8)}

    def oracle(self, *operands: str) -> str:
        """Count the ones in the text."""
        return str(operands[0].count("1") % 2)

    def stages(self, problems: Problems, from_zero: bool) -> list[Stage]:
        """Return the string and the parities of its prefixes, one digit after the other."""
        lines, lengths = [((1, 1),)], problems.lengths
        prefixes = self.steps(problems)["prefix_parity"][:, None]
        return [
            Stage("", problems.operands, lengths, lengths, lines),
            Stage("", prefixes, lengths, lengths, lines),
        ]

    def oracle_stages(self, *operands: str, from_zero: bool) -> list[list[tuple[int, str]]]:
        """Count the ones in the end of the text from each place on."""
        bits = operands[0]
        prefixes = "".join(str(bits[at:].count("1") % 2) for at in range(len(bits)))
        return [[(len(bits), prefixes)]]
