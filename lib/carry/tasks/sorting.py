"""Sorting an array of non-negative integers: the answer names them in order (mcleish2024, A.3.2).

operand        0    1    2    3
number         57   8    120  57
rank           1    0    3    2     equal numbers keep their order
answer         1    0    3    2     the operand at each rank: the smallest first
decided at     1    -1   2    .     the highest place where a rank's number differs from the next
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.data.problems import Problems
from carry.tasks import NAMES, Sampling, Task, draw_cells

CHUNK = 18  # digits that fit into a 64-bit integer


class Sorting(Task):
    """Sorting; a cell (i, j) is i numbers of up to j digits, drawn uniformly below 10^j.

    >>> from carry.tasks import to_digits
    >>> problems = Sorting().solve(*to_digits([[57, 8, 120, 57]]))
    >>> problems.answer[0].tolist()
    [1, 0, 3, 2]
    >>> {name: step[0].tolist() for name, step in Sorting().steps(problems).items()}
    {'rank': [1, 0, 3, 2], 'decided_at': [1, -1, 2, -1]}
    """

    sign: ClassVar[str] = ","
    in_digits: ClassVar[bool] = False
    sampling: Sampling = "stratified"

    def cells(self, count: int, digits: int, generator: torch.Generator) -> Integer[Tensor, "B 2"]:
        """Draw array lengths and digits (i, j) of `count` training problems."""
        return draw_cells(self.sampling, count, digits, generator)

    def operands(
        self, cells: Integer[Tensor, "B 2"], generator: torch.Generator
    ) -> tuple[Integer[Tensor, "B M N"], Integer[Tensor, "B M"]]:
        """Draw i numbers below 10^j; a shorter one is written without leading zeros."""
        most, width = cells.amax(0).tolist()
        device = cells.device
        digits = torch.empty((len(cells), most, width), dtype=torch.uint8, device=device)
        digits.random_(0, 10, generator=generator)
        place = torch.arange(width, dtype=torch.int16, device=device)
        digits *= place < cells[:, 1, None, None]
        present = torch.arange(most, device=device) < cells[:, :1]
        digits *= present[:, :, None]
        lengths = torch.where(digits > 0, place + 1, 1).amax(2).long()
        return digits, lengths * present

    def room(self, lengths: Integer[Tensor, "B M"]) -> Integer[Tensor, " B"]:
        """Return how many numbers there are."""
        return (lengths > 0).sum(1)

    def longest_answer(self, digits: int) -> int:
        """Return the longest array of the cells."""
        return digits

    def largest(self, digits: int) -> Integer[Tensor, "1 M"]:
        """Return the lengths of so many operands of so many digits."""
        return torch.full((1, digits), digits)

    def solve(
        self, operands: Integer[Tensor, "B M N"], lengths: Integer[Tensor, "B M"]
    ) -> Problems:
        """Sort all arrays at once, by as many digits at a time as an integer holds."""
        present = lengths > 0
        order = _order(operands, present)
        room = present.sum(1)
        order *= torch.arange(order.shape[1], device=order.device) < room[:, None]
        return self.solved(operands, lengths, order.to(torch.uint8), room)

    def steps(self, problems: Problems) -> dict[str, Integer[Tensor, "B _"]]:
        """Return the rank of each operand, and what place decides between one rank and the next."""
        present = problems.lengths > 0
        order = _order(problems.operands, present)
        rows = order[:, :, None].expand(-1, -1, problems.operands.shape[2])
        ranked = problems.operands.gather(1, rows).int()
        place = torch.arange(1, ranked.shape[2] + 1, device=order.device)
        differs = (ranked[:, 1:] != ranked[:, :-1]) * place
        both = torch.arange(1, order.shape[1], device=order.device) < problems.room[:, None]
        decided = torch.where(both, differs.amax(2) - 1, -1)
        return {
            "rank": torch.where(present, order.argsort(1), -1),
            "decided_at": torch.nn.functional.pad(decided, (0, 1), value=-1),
        }

    def oracle(self, *operands: str) -> str:
        """Return the operands in order, the first called a, by Python's own sort."""
        return "".join(
            NAMES[at] for at in sorted(range(len(operands)), key=lambda at: int(operands[at]))
        )


def _order(
    operands: Integer[Tensor, "B M N"], present: Bool[Tensor, "B M"]
) -> Integer[Tensor, "B M"]:
    """Return the operand at each rank, those that are not there last."""
    order = torch.arange(operands.shape[1], device=operands.device).expand(len(operands), -1)
    for low in range(0, operands.shape[2], CHUNK):  # the least telling digits first
        key = torch.zeros(present.shape, dtype=torch.int64, device=operands.device)
        for place in reversed(range(low, min(low + CHUNK, operands.shape[2]))):
            key = key.mul_(10).add_(operands[:, :, place])
        key = torch.where(present, key, 10**CHUNK).gather(1, order)
        order = order.gather(1, key.argsort(dim=1, stable=True))
    return order
