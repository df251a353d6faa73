"""Addition of two or more operands (cho2025, section 4); its scratchpad has the running sums.

operands          057   048   096
running sums    0  57   105   201     each is the previous sum plus one operand

digits            057+048+096=000>750>501>102
level 1           432143214321234123412341234     the place; a sign is one below place 0
level 2           111122223331111222233334444     the order in the question, and in the response

Sums can begin with the first operand instead:

digits            057+048+096=750>501>102
level 2           11112222333111122223333
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.problems import Problems, count_written_digits, resolve_carries
from carry.tasks import Cells, Lengths, Operands, ScratchpadStage, Steps, Task, draw_numbers

COUNT_DIGITS = 18  # digits of the largest number of operands, which fits 64 bits


class MultiOperandAddition(Task):
    """Addition of several numbers; a cell (i, j) is j operands of i digits each.

    Training draws the number of operands uniformly, at most `most_operands`, and lengths that are
    independent in half of the problems and equal in the others (S(n, m) of cho2025, 4.2).

    `room`: the padded length of all numbers of a problem, `longest_sum`, the length of the largest
    possible sum of as many operands of the longest length (cho2025, 4.1), or its `bound` n + 1 +
    floor(log10 m) for m operands of n digits (App. D), which is one digit longer at m = 10.

    `spare`: zeros above the highest digit that a sum can have (ours). In training, the highest
    place of a sum of 5 numbers has no digit above 4; a sum of 7 numbers needs larger digits there.

    `local` (ours): a `+` between operands has no place and is coupled only with the operand before
    it. The end of every sum is then near a token that tells whether more operands follow.

    >>> from carry.tasks import to_digits
    >>> task = MultiOperandAddition()
    >>> problems = task.solve(*to_digits([[57, 48, 96]]))
    >>> problems.answer[0].tolist(), int(problems.room)
    ([1, 0, 2], 3)
    >>> {name: step[0].tolist() for name, step in task.compute_steps(problems).items()}
    {'column_sum': [21, 18, 0], 'carry_used': [0, 2, 2], 'carry_made': [2, 2, 0]}
    """

    noun = "sums"
    unit = "{0} operands of {0} digits"
    sign = "+"
    smallest_cell = (1, 2)
    scratchpad_levels = 2

    room: Literal["longest_sum", "bound"] = "longest_sum"
    spare: int = Field(default=0, ge=0, le=1000)
    local: bool = False
    most_operands: int | None = Field(default=None, ge=2)

    def draw_operands(self, cells: Cells, generator: torch.Generator) -> tuple[Operands, Lengths]:
        """Draw j numbers of i digits for each cell (i, j)."""
        index = torch.arange(int(cells[:, 1].max()), device=cells.device)
        lengths = torch.where(index < cells[:, 1:], cells[:, :1], 0)
        return draw_numbers(lengths, generator), lengths

    def draw(self, count: int, digits: int, generator: torch.Generator) -> Problems:
        """Draw training problems of at most `digits` digits and as many operands."""
        self.largest_lengths(digits)
        device, most = generator.device, min(digits, self.most_operands or digits)
        high = torch.tensor([digits, most - 1], device=device)
        share = torch.rand(count, 2, generator=generator, device=device)
        longest, operands = ((share * high).long() + torch.tensor([1, 2], device=device)).T
        most = int(operands.max())
        lengths = torch.randint(1, digits + 1, (count, most), generator=generator, device=device)
        coin = torch.rand(count, 1, generator=generator, device=device)
        lengths = torch.where(coin < 0.5, longest[:, None], lengths)
        lengths = lengths * (torch.arange(most, device=device) < operands[:, None])
        problems = self.solve(draw_numbers(lengths, generator), lengths)
        return self.with_labels(problems, generator)

    def answer_room(self, lengths: Lengths) -> Integer[Tensor, " B"]:
        """Return the length of the largest sum, or its bound, plus `spare`.

        >>> lengths = torch.tensor([[2] * 9 + [0], [2] * 10])
        >>> [MultiOperandAddition(room=room).answer_room(lengths).tolist()
        ...  for room in ("longest_sum", "bound")]
        [[3, 3], [3, 4]]
        """
        count, longest = (lengths > 0).sum(1), lengths.amax(1)
        powers = 10 ** torch.arange(COUNT_DIGITS, device=lengths.device)
        digits = (count[:, None] >= powers).sum(1)
        room = longest + digits + self.spare
        if self.room == "bound":
            return room
        # m (10^n - 1) lacks a digit if it is below 10^(n + d - 1), where m has d digits; any n from
        # d on is alike, and would overflow.
        excess = (count - powers[(digits - 1).clamp(min=0)]).clamp(min=0)
        return room - (excess * 10 ** torch.minimum(longest, digits) < count).long()

    def largest_lengths(self, digits: int) -> Lengths:
        """Return the lengths of `digits` operands of `digits` digits.

        Raises:
            SettingsError: for fewer than two operands.
        """
        if digits < 2:
            raise SettingsError(
                f"digits: {digits} does not fit, sizes up to it leave {digits} operand; "
                "expected at least 2"
            )
        return torch.full((1, digits), digits)

    def padded_lengths(self, lengths: Lengths) -> Lengths:
        """Return the room of the answer for each operand (cho2025, 4.1)."""
        return torch.where(lengths > 0, self.answer_room(lengths)[:, None], 0)

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Add all problems at once, place after place."""
        room = self.answer_room(lengths)
        answer, _ = resolve_carries(_column_sums(operands, int(room.max())))
        return self.make_problems(operands, lengths, answer, count_written_digits(answer))

    def compute_steps(self, problems: Problems) -> Steps:
        """Return column sums and the carries used and made, by place."""
        columns = _column_sums(problems.operands, problems.answer.shape[1])
        _, carries = resolve_carries(columns)
        return {
            "column_sum": columns,
            "carry_used": carries[:, :-1],
            "carry_made": carries[:, 1:],
        }

    def solve_text(self, *operands: str) -> str:
        """Return the sum of Python integers."""
        return str(sum(map(int, operands)))

    def scratchpad_stages(self, problems: Problems, from_zero: bool) -> list[ScratchpadStage]:
        """Return the operands and their running sums."""
        present, room = problems.lengths > 0, problems.room[:, None]
        count, first = present.shape[1], 0 if from_zero else 1
        sums = _running_sums(problems.operands, problems.answer.shape[1])[:, first:]
        summed = F.pad(present, (1, 0), value=True)[:, first:]
        sum_lengths = torch.where(summed, count_written_digits(sums), 0)
        # Numbers of the same order share level 2, whether or not the first sum is 0.
        couplings = [((1, 1), (index, 0)) for index in range(count + 1)]
        signs = [(None, (index, 0)) for index in range(count - 1)] if self.local else None
        operands, lengths = problems.operands, problems.lengths
        operand_room = torch.where(present, room, 0)
        sum_room = torch.where(summed, room, 0)
        return [
            ScratchpadStage(self.sign, operands, lengths, operand_room, couplings[:count], signs),
            ScratchpadStage(">", sums, sum_lengths, sum_room, couplings[: sums.shape[1]]),
        ]


def _running_sums(operands: Operands, width: int) -> Integer[Tensor, "B S K"]:
    """Return the sums of the first 0, 1, 2, ... operands as `width` digits by place."""
    columns = F.pad(operands.int().cumsum(1), (0, width - operands.shape[2], 1, 0)).flatten(0, 1)
    digits, _ = resolve_carries(columns)
    return digits.unflatten(0, (len(operands), -1))


def _column_sums(operands: Operands, width: int) -> Integer[Tensor, "B K"]:
    return F.pad(operands.sum(1, dtype=torch.int32), (0, width - operands.shape[2]))
