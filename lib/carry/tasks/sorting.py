"""Sorting natural numbers: the answer lists the operands in ascending order (mcleish2024, A.3.2).

operand        0    1    2    3
number         57   8    120  57
rank           1    0    3    2     equal numbers keep their order
answer         1    0    3    2     the operand at each rank, smallest number first
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.problems import Problems
from carry.tasks import OPERAND_LETTERS, Cells, Lengths, Operands, Sampling, Task, draw_numbers


class Sorting(Task):
    """Sorting; a cell (i, j) is i numbers of up to j digits.

    `numbers`: uniform below 10^j (`uniform_values`), or numbers of uniform lengths from 1 to j
    without 0 (`uniform_lengths`, as in the released code of mcleish2024; A.5 leaves it open).
    Of values below 10^30 nine in ten have 30 digits; uniform lengths have a mean of 15.5.

    >>> from carry.tasks import to_digits
    >>> problems = Sorting().solve(*to_digits([[57, 8, 120, 57]]))
    >>> problems.answer[0].tolist()
    [1, 0, 3, 2]
    """

    noun = "lists"
    unit = "{0} numbers of {0} digits"
    sign = ","
    answer_is_number = False

    sampling: Sampling = "stratified"
    numbers: Literal["uniform_values", "uniform_lengths"] = "uniform_values"

    def draw_operands(self, cells: Cells, generator: torch.Generator) -> tuple[Operands, Lengths]:
        """Draw i numbers of up to j digits for each cell (i, j)."""
        most, width = cells.amax(0).tolist()
        device = cells.device
        if self.numbers == "uniform_lengths":
            share = torch.rand(len(cells), most, generator=generator, device=device)
            present = torch.arange(most, device=device) < cells[:, :1]
            lengths = (1 + (share * cells[:, 1:]).long().minimum(cells[:, 1:] - 1)) * present
            return draw_numbers(lengths, generator, zero=False), lengths
        digits = torch.empty((len(cells), most, width), dtype=torch.uint8, device=device)
        digits.random_(0, 10, generator=generator)
        place = torch.arange(width, dtype=torch.int32, device=device)
        digits *= place < cells[:, 1, None, None]
        present = torch.arange(most, device=device) < cells[:, :1]
        digits *= present[:, :, None]
        lengths = torch.where(digits > 0, place + 1, 1).amax(2).long()
        return digits, lengths * present

    def answer_room(self, lengths: Lengths) -> Integer[Tensor, " B"]:
        """Return the number of operands."""
        return (lengths > 0).sum(1)

    def largest_lengths(self, digits: int) -> Lengths:
        """Return the lengths of `digits` operands of `digits` digits."""
        return torch.full((1, digits), digits)

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Sort all problems at once."""
        absent = lengths == 0
        # The last key, absence, is the first to decide; equal numbers keep their order.
        keys = torch.cat([operands.permute(2, 0, 1), absent[None]]).cpu().numpy()
        order = torch.from_numpy(np.lexsort(keys)).to(lengths.device)
        order *= ~absent.sort(dim=1).values
        kind = torch.uint8 if order.shape[1] <= 256 else torch.int32  # must hold every index
        return self.make_problems(operands, lengths, order.to(kind))

    def solve_text(self, *operands: str) -> str:
        """Return the letters of the operands in ascending order, by Python's sort."""
        order = sorted(range(len(operands)), key=lambda index: int(operands[index]))
        return "".join(OPERAND_LETTERS[index] for index in order)
