"""Bitwise OR of two binary vectors with one 1 in total (mcleish2024, A.2 and A.5).

place          0 1 2 3 4
a              0 0 1 . .
b              0 0 0 0 0
answer         0 0 1 0 0     as long as the longer vector

The task has no carries: a model learns to find the equal place, and where the answer ends.
"""

from __future__ import annotations

import torch

from carry.data.problems import Problems
from carry.tasks import Cells, Lengths, Operands, Task


class BitwiseOr(Task):
    """Bitwise OR; a cell is the lengths of both vectors, and the shorter one contains the 1.

    For vectors of equal length either contains it. All problems are equally likely, as in the
    paper; its released code has half as many problems of equal lengths.

    >>> from carry.tasks import to_digits
    >>> problems = BitwiseOr().solve(*to_digits([["100", "00000"]]))  # place 0 is the last digit
    >>> problems.answer[0].tolist()
    [0, 0, 1, 0, 0]
    """

    noun = "answers"
    unit = "{0} bits"
    sign = "|"
    base = 2
    operand_count = 2
    keeps_leading_zeros = True

    def draw_training_cells(self, count: int, digits: int, generator: torch.Generator) -> Cells:
        """Draw the lengths (i, j) of `count` training problems."""
        length = torch.arange(1, digits + 1, device=generator.device)
        problems = torch.minimum(length[:, None], length).float()  # in each cell
        problems.diagonal().mul_(2)  # either vector contains the 1
        cell = problems.flatten().multinomial(count, replacement=True, generator=generator)
        return torch.stack([cell // digits, cell % digits], dim=1) + 1

    def draw_operands(self, cells: Cells, generator: torch.Generator) -> tuple[Operands, Lengths]:
        """Draw the place of the 1, and its vector where both are equally long."""
        count, device = len(cells), cells.device
        share, coin = torch.rand(2, count, generator=generator, device=device)
        vector = torch.where(cells[:, 0] == cells[:, 1], coin < 0.5, cells[:, 0] > cells[:, 1])
        place = (share * cells.amin(1)).long()
        shape = (count, 2, int(cells.max()))
        vectors = torch.zeros(shape, dtype=torch.uint8, device=device)
        vectors[torch.arange(count, device=device), vector.long(), place] = 1
        return vectors, cells

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Return the larger bit of each place."""
        return self.make_problems(operands, lengths, operands.amax(1))

    def solve_text(self, *operands: str) -> str:
        """Return the OR of Python integers, as long as the longer text."""
        a, b = operands
        return f"{int(a, 2) | int(b, 2):0{max(len(a), len(b))}b}"
