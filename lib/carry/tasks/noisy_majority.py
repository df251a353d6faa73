"""The majority of zeros and ones among twos, which are noise (fraknoi2024, section 5).

string       0 1 2 1 2 2 1
zeros, ones  1 3
answer       5                 4 for at least as many zeros, 5 for more ones
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.problems import Problems
from carry.tasks import OfOne

ZEROS, ONES = 4, 5  # what is said for each


class NoisyMajority(OfOne):
    """Whether there are more ones than zeros in a string over 0, 1 and 2 (the thesis: or none).

    >>> from carry.tasks import to_digits
    >>> NoisyMajority().solve(*to_digits([["0121221"], ["0212"]])).answer[:, 0].tolist()
    [5, 4]
    """

    base: ClassVar[int] = 3

    def room(self, lengths: Integer[Tensor, "B 1"]) -> Integer[Tensor, " B"]:
        """Return one digit."""
        return torch.ones_like(lengths[:, 0])

    def longest_answer(self, digits: int) -> int:
        """Return one digit."""
        return 1

    def solve(
        self, operands: Integer[Tensor, "B 1 N"], lengths: Integer[Tensor, "B 1"]
    ) -> Problems:
        """Count.

        Raises:
            SettingsError: for a symbol outside the alphabet.
        """
        if operands.numel() and int(operands.max()) > 2:
            raise SettingsError(f"operands: {int(operands.max())} is no symbol; expected 0, 1, 2")
        zeros, ones, _ = self.counts(operands, lengths).unbind(1)
        answer = torch.where(zeros >= ones, ZEROS, ONES).to(torch.uint8)[:, None]
        return self.solved(operands, lengths, answer, torch.ones_like(lengths[:, 0]))

    def counts(
        self, operands: Integer[Tensor, "B 1 N"], lengths: Integer[Tensor, "B 1"]
    ) -> Integer[Tensor, "B 3"]:
        """Return how often each symbol is there: all that the answer depends on."""
        there = torch.arange(operands.shape[2], device=lengths.device) < lengths
        each = [(there & (operands[:, 0] == symbol)).sum(1) for symbol in range(3)]
        return torch.stack(each, dim=1)

    def steps(self, problems: Problems) -> dict[str, Integer[Tensor, "B _"]]:
        """Return by how much the ones lead up to each place."""
        string = problems.operands[:, 0].int()
        lead = torch.where(string == 1, 1, torch.where(string == 0, -1, 0))
        place = torch.arange(string.shape[1], device=string.device)
        return {"lead": (lead * (place < problems.lengths)).cumsum(1)}

    def oracle(self, *operands: str) -> str:
        """Count in the text."""
        return str(ONES if operands[0].count("1") > operands[0].count("0") else ZEROS)
