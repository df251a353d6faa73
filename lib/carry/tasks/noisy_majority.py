"""The majority of zeros and ones in a string with twos as noise (fraknoi2024, section 5).

string       0 1 2 1 2 2 1
zeros, ones  1 3
answer       5                 4: at least as many zeros as ones; 5: more ones
"""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.problems import Problems
from carry.tasks import Lengths, Operands, StringTask

ZEROS_ANSWER, ONES_ANSWER = 4, 5


class NoisyMajority(StringTask):
    """Whether a string over 0, 1 and 2 has more ones than zeros; a tie counts as zeros.

    >>> from carry.tasks import to_digits
    >>> NoisyMajority().solve(*to_digits([["0121221"], ["0212"]])).answer[:, 0].tolist()
    [5, 4]
    """

    unit = "{0} symbols"
    base = 3

    def answer_room(self, lengths: Lengths) -> Integer[Tensor, " B"]:
        """Return one digit."""
        return torch.ones_like(lengths[:, 0])

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Compare the counts of zeros and ones."""
        zeros, ones, _ = self.count_symbols(operands, lengths).unbind(1)
        answer = torch.where(zeros >= ones, ZEROS_ANSWER, ONES_ANSWER).to(torch.uint8)[:, None]
        return self.make_problems(operands, lengths, answer)

    def count_symbols(self, operands: Operands, lengths: Lengths) -> Integer[Tensor, "B 3"]:
        """Count the zeros, ones and twos of each string; the answer depends only on the counts."""
        present = torch.arange(operands.shape[2], device=lengths.device) < lengths
        counts = [(present & (operands[:, 0] == symbol)).sum(1) for symbol in range(3)]
        return torch.stack(counts, dim=1)

    def solve_text(self, *operands: str) -> str:
        """Count in the text."""
        zeros, ones = (operands[0].count(symbol) for symbol in "01")
        return str(ONES_ANSWER if ones > zeros else ZEROS_ANSWER)
