"""Bitwise OR of two binary vectors, one with a single one, the other zeros (mcleish2024, A.2, A.5).

place          0 1 2 3 4
a              0 0 1 . .
b              0 0 0 0 0
overlap        1 1 1 0 0     both vectors have this place
answer         0 0 1 0 0     as long as the longer vector

Nothing is carried: all there is to learn is to find the equal place, and where to end.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.problems import Problems
from carry.tasks import Task, draw_cells


class BitwiseOr(Task):
    """Bitwise OR; a cell is the lengths of both vectors, and the shorter one has the one.

    Of vectors that are equally long either has it. `sampling`: every problem alike
    (`exhaustive`, as in the paper), or every cell (`stratified`).

    >>> from carry.tasks import to_digits
    >>> problems = BitwiseOr().solve(*to_digits([["100", "00000"]]))  # place 0 stands last here
    >>> problems.answer[0].tolist()
    [0, 0, 1, 0, 0]
    """

    sign: ClassVar[str] = "|"
    leading_zeros: ClassVar[bool] = True
    sampling: Literal["exhaustive", "stratified"] = "exhaustive"

    def cells(self, count: int, digits: int, generator: torch.Generator) -> Integer[Tensor, "B 2"]:
        """Draw the lengths (i, j) of `count` training problems."""
        if self.sampling == "stratified":
            return draw_cells("stratified", count, digits, generator)
        length = torch.arange(1, digits + 1, device=generator.device)
        problems = torch.minimum(length[:, None], length).float()  # of each cell
        problems.diagonal().mul_(2)
        cell = problems.flatten().multinomial(count, replacement=True, generator=generator)
        return torch.stack([cell // digits, cell % digits], dim=1) + 1

    def operands(
        self, cells: Integer[Tensor, "B 2"], generator: torch.Generator
    ) -> tuple[Integer[Tensor, "B M N"], Integer[Tensor, "B M"]]:
        """Draw the place of the one, and whose it is where both vectors could have it."""
        count, device = len(cells), cells.device
        share, coin = torch.rand(2, count, generator=generator, device=device)
        owner = torch.where(cells[:, 0] == cells[:, 1], coin < 0.5, cells[:, 0] > cells[:, 1])
        place = (share * cells.amin(1)).long()
        shape = (count, 2, int(cells.max()))
        vectors = torch.zeros(shape, dtype=torch.uint8, device=device)
        vectors[torch.arange(count, device=device), owner.long(), place] = 1
        return vectors, cells

    def room(self, lengths: Integer[Tensor, "B M"]) -> Integer[Tensor, " B"]:
        """Return the length of the longer vector."""
        return lengths.amax(1)

    def longest_answer(self, digits: int) -> int:
        """Return the same length."""
        return digits

    def solve(
        self, operands: Integer[Tensor, "B M N"], lengths: Integer[Tensor, "B M"]
    ) -> Problems:
        """Take the larger bit of each place.

        Raises:
            SettingsError: for a vector that is not binary.
        """
        if operands.numel() and int(operands.max()) > 1:
            raise SettingsError(
                f"operands: {int(operands.max())} is no bit; expected vectors of 0 and 1"
            )
        return self.solved(operands, lengths, operands.amax(1), lengths.amax(1))

    def steps(self, problems: Problems) -> dict[str, Integer[Tensor, "B _"]]:
        """Return the places that both vectors have."""
        place = torch.arange(problems.operands.shape[2], device=problems.lengths.device)
        overlap = place < problems.lengths.amin(1, keepdim=True)
        return {"overlap": overlap.to(torch.uint8)}

    def oracle(self, *operands: str) -> str:
        """Return the OR of Python integers, as long as the longer text."""
        a, b = operands
        return f"{int(a, 2) | int(b, 2):0{max(len(a), len(b))}b}"
