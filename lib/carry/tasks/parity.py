"""Parity of a binary string (cho2025, section 3); its scratchpad has the parity of each prefix.

place          0 1 2 3
string         0 1 0 1
prefixes       0 1 1 0     each is the parity of the previous prefix and one bit; the last answers

digits         0101=0110
level 1        234512345
"""

from __future__ import annotations

import torch

from carry.data.problems import Problems
from carry.tasks import Lengths, Operands, ScratchpadStage, StringTask


class Parity(StringTask):
    """Whether the number of ones is odd; bits are uniform.

    The text of an operand ends with the bit of place 0, as numbers do; formats write place 0
    first by default.

    >>> from carry.tasks import to_digits
    >>> problems = Parity().solve(*to_digits([["1010"]]))
    >>> problems.answer[0].tolist()
    [0]
    """

    noun = "answers"
    unit = "{0} bits"
    base = 2
    scratchpad_levels = 1
    answer_is_last_digit = True

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Count the ones."""
        answer = (operands.sum(2) % 2).to(torch.uint8)
        return self.make_problems(operands, lengths, answer)

    def solve_text(self, *operands: str) -> str:
        """Count the ones in the text."""
        return str(operands[0].count("1") % 2)

    def scratchpad_stages(self, problems: Problems, from_zero: bool) -> list[ScratchpadStage]:
        """Return the string and the parities of its prefixes, each as one number."""
        couplings, lengths = [((1, 1),)], problems.lengths
        prefixes = (problems.operands.cumsum(2) % 2).to(torch.uint8)
        return [
            ScratchpadStage("", problems.operands, lengths, lengths, couplings),
            ScratchpadStage("", prefixes, lengths, lengths, couplings),
        ]
