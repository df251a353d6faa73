"""Addition of two operands or more (cho2025, section 4), by running sums from 0.

operands          057   048   096
running sums    0  57   105   201     each is the one before it and one operand

digits            057+048+096=000>750>501>102
level 1           432143214321234123412341234     the place; signs stand below the ones
level 2           111122223331111222233334444     which operand, and the sum that it is added to
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.problems import Problems
from carry.tasks import Stage, Task, draw_numbers


class MultiOperandAddition(Task):
    """Addition of several numbers; a cell (i, j) is j operands of i digits each.

    Training draws the count of operands evenly, up to `most_operands` if these are fewer, and
    lengths `independent`ly, or `equal` ones, or half of the problems this way and half that
    (`both`, the S(n, m) of cho2025, 4.2).

    `spare`: zeros before the highest digit that a sum could have (ours). At its highest place a sum
    of 5 numbers has no digit above 4, so that one of 7 has digits there that training never showed.

    `local` (ours): a `+` between operands stands at no place, only with the operand before it, so
    that wherever a sum ends it is near, and tells that there is more to add.

    >>> from carry.tasks import to_digits
    >>> task = MultiOperandAddition()
    >>> problems = task.solve(*to_digits([[57, 48, 96]]))
    >>> problems.answer[0].tolist(), int(problems.room)
    ([1, 0, 2], 3)
    >>> {name: step[0].tolist() for name, step in task.steps(problems).items()}
    {'column_sum': [21, 18, 0], 'carry_used': [0, 2, 2], 'carry_made': [2, 2, 0]}
    """

    sign: ClassVar[str] = "+"
    least: ClassVar[tuple[int, int]] = (1, 2)
    levels: ClassVar[int] = 2
    from_zero: ClassVar[bool | None] = True
    sampling: Literal["both", "independent", "equal"] = "both"
    spare: int = Field(default=0, ge=0)
    local: bool = False
    most_operands: int | None = Field(default=None, ge=2)

    def cells(self, count: int, digits: int, generator: torch.Generator) -> Integer[Tensor, "B 2"]:
        """Draw sizes (i, j): up to so many digits, and up to as many operands."""
        self.largest(digits)
        most = min(digits, self.most_operands or digits)
        high = torch.tensor([digits, most - 1], device=generator.device)
        share = torch.rand(count, 2, generator=generator, device=generator.device)
        return (share * high).long() + torch.tensor(self.least, device=generator.device)

    def operands(
        self, cells: Integer[Tensor, "B 2"], generator: torch.Generator
    ) -> tuple[Integer[Tensor, "B M N"], Integer[Tensor, "B M"]]:
        """Draw j numbers of i digits."""
        index = torch.arange(int(cells[:, 1].max()), device=cells.device)
        lengths = torch.where(index < cells[:, 1:], cells[:, :1], 0)
        return draw_numbers(lengths, generator), lengths

    def draw_in_cells(
        self, count: int, digits: int, generator: torch.Generator
    ) -> tuple[Integer[Tensor, "B 2"], Problems]:
        """Draw training problems; the cell of one with unequal lengths is that of its longest."""
        cells, device = self.cells(count, digits, generator), generator.device
        most = int(cells[:, 1].max())
        lengths = torch.randint(1, digits + 1, (count, most), generator=generator, device=device)
        alike = torch.rand(count, 1, generator=generator, device=device)
        threshold = {"both": 0.5, "independent": 0.0, "equal": 1.0}[self.sampling]
        lengths = torch.where(alike < threshold, cells[:, :1], lengths)
        lengths = lengths * (torch.arange(most, device=device) < cells[:, 1:])
        problems = self.labelled(self.solve(draw_numbers(lengths, generator), lengths), generator)
        return torch.stack([lengths.amax(1), cells[:, 1]], dim=1), problems

    def room(self, lengths: Integer[Tensor, "B M"]) -> Integer[Tensor, " B"]:
        """Return the digits of the longest, one for each power of ten in their count, and spare."""
        count = (lengths > 0).sum(1)
        powers = 10 ** torch.arange(7, device=lengths.device)
        return lengths.amax(1) + (count[:, None] >= powers).sum(1) + self.spare

    def longest_answer(self, digits: int) -> int:
        """Return the room of so many operands of so many digits."""
        return int(self.room(self.largest(digits)))

    def largest(self, digits: int) -> Integer[Tensor, "1 M"]:
        """Return the lengths of so many operands of so many digits.

        Raises:
            SettingsError: for less than two of them.
        """
        if digits < 2:
            raise SettingsError(
                f"digits: {digits} does not fit, sizes up to it leave {digits} operand; "
                "expected at least 2"
            )
        return torch.full((1, digits), digits)

    def padded(self, lengths: Integer[Tensor, "B M"]) -> Integer[Tensor, "B M"]:
        """Return the room of the answer for each of them (cho2025, 4.1)."""
        return torch.where(lengths > 0, self.room(lengths)[:, None], 0)

    def solve(
        self, operands: Integer[Tensor, "B M N"], lengths: Integer[Tensor, "B M"]
    ) -> Problems:
        """Add, all problems at once, one place after the other."""
        room = self.room(lengths)
        columns = _column_sums(operands, int(room.max()))
        answer = ((columns + _carry_used(columns)) % 10).to(torch.uint8)
        length = written_length(answer)
        return self.solved(operands, lengths, answer, length)

    def steps(self, problems: Problems) -> dict[str, Integer[Tensor, "B _"]]:
        """Return column sums and the carries used and made, by place, the ones first."""
        columns = _column_sums(problems.operands, problems.answer.shape[1])
        used = _carry_used(columns)
        return {"column_sum": columns, "carry_used": used, "carry_made": (columns + used) // 10}

    def oracle(self, *operands: str) -> str:
        """Return the sum of Python integers."""
        return str(sum(map(int, operands)))

    def stages(self, problems: Problems, from_zero: bool) -> list[Stage]:
        """Return the operands and their running sums."""
        there, sums = (
            problems.lengths > 0,
            running_sums(problems.operands, problems.answer.shape[1]),
        )
        count = there.shape[1]
        if not from_zero:
            sums = sums[:, 1:]
        first = 0 if from_zero else 1
        there_too = F.pad(there, (1, 0), value=True)[:, first:]
        room = problems.room[:, None]
        written = torch.where(there_too, written_length(sums), 0)
        lines = [((1, 1), (j, 0)) for j in range(count + 1)]
        asked = torch.where(there, room, 0), lines[:count]
        signs = [(None, (j, 0)) for j in range(count - 1)] if self.local else None
        return [
            Stage(self.sign, problems.operands, problems.lengths, *asked, signs),
            Stage(">", sums, written, torch.where(there_too, room, 0), lines[first:]),
        ]

    def oracle_stages(self, *operands: str, from_zero: bool) -> list[list[tuple[int, str]]]:
        """Return the running sums of Python integers."""
        sums = [str(sum(map(int, operands[:end]))) for end in range(len(operands) + 1)]
        room = max(map(len, operands)) + len(str(len(operands))) + self.spare
        return [[(room, of) for of in (sums if from_zero else sums[1:])]]


def running_sums(operands: Integer[Tensor, "B M N"], width: int) -> Integer[Tensor, "B S K"]:
    """Return the sums of the first 0, 1, 2, ... operands, as digits of so many places.

    >>> running_sums(torch.tensor([[[7, 5], [8, 4]]]), 3)[0].tolist()
    [[0, 0, 0], [7, 5, 0], [5, 0, 1]]
    """
    columns = F.pad(operands.int().cumsum(1), (0, width - operands.shape[2], 1, 0)).flatten(0, 1)
    digits = ((columns + _carry_used(columns)) % 10).to(torch.uint8)
    return digits.unflatten(0, (len(operands), -1))


def written_length(digits: Integer[Tensor, "*B K"]) -> Integer[Tensor, "*B"]:
    """Return how many digits are written without leading zeros: of 0, one.

    >>> written_length(torch.tensor([[5, 0, 1, 0], [0, 0, 0, 0]])).tolist()
    [3, 1]
    """
    place = torch.arange(1, digits.shape[-1] + 1, dtype=torch.int16, device=digits.device)
    return ((digits > 0) * place).amax(-1).clamp(min=1).long()


def _column_sums(operands: Integer[Tensor, "B M N"], width: int) -> Integer[Tensor, "B K"]:
    return F.pad(operands.sum(1, dtype=torch.int32), (0, width - operands.shape[2]))


def _carry_used(columns: Integer[Tensor, "B K"]) -> Integer[Tensor, "B K"]:
    by_place = columns.T.contiguous()
    used = torch.zeros_like(by_place)
    for place in range(1, len(by_place)):
        used[place] = (by_place[place - 1] + used[place - 1]) // 10
    return used.T
