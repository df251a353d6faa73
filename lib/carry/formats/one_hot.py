"""Each number a symbol of its own: `^ a b = c $` (fraknoi2024, section 4)."""

from __future__ import annotations

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import NO_PLACE, Batch
from carry.data.problems import Problems
from carry.formats import BOS, EOS, EQUALS, FIRST_LETTER, Extent, Format
from carry.tasks import values


class OneHot(Format):
    """Numbers from 0 to `numbers` - 1 of the task, as the symbols behind the signs.

    >>> from carry.formats import build, text
    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "modular_addition", "modulus": 10})
    >>> problems = task.solve(*to_digits([[3, 9]]))
    >>> build({"name": "one_hot"}, task).write(problems).tokens[0].tolist()
    [12, 26, 32, 11, 25, 13]
    """

    @property
    def whole(self) -> bool:
        """Each number is one symbol."""
        return True

    def incompatibility(self) -> str | None:
        """Refuse tasks on numbers without end."""
        if self.task.numbers is None:
            name = type(self.task).__name__
            return f"'one_hot' has a symbol for each number, and {name} has no largest one"
        return None

    def symbols(self) -> int:
        """Return the signs and the numbers."""
        return FIRST_LETTER + self.task.numbers

    def extent(self, digits: int) -> Extent:
        """Return numbers of one token each."""
        operands = self.task.largest(digits).shape[1]
        return Extent(1, operands + 4)

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; every number stands at place 0 of its own."""
        count, operands = problems.operands.shape[:2]
        device = problems.operands.device
        numbers = [*problems.operands.unbind(1), problems.answer]
        symbols = [FIRST_LETTER + values(digits) for digits in numbers]
        signs = [torch.full_like(symbols[0], sign) for sign in (BOS, EQUALS, EOS)]
        row = [signs[0], *symbols[:-1], signs[1], symbols[-1], signs[2]]
        part = torch.tensor([0, *range(1, operands + 1), 0, operands + 1, 0], dtype=torch.int32)
        part = part.to(device).expand(count, -1)
        place = torch.where(part > 0, 0, NO_PLACE).int()
        length = torch.full((count,), len(row), device=device)
        levels = part.new_empty(count, len(row), 0)
        return Batch(torch.stack(row, dim=1).int(), part, place, levels, length - 2, length)

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B N"]:
        """Return the digits of the number, the ones first; behind their end stands EOS."""
        value = (response[:, :1] - FIRST_LETTER).clamp(min=0)
        place = torch.arange(len(str(self.task.numbers - 1)), device=response.device)
        digits = value // 10**place % 10
        length = 1 + (value >= 10 ** place[1:]).sum(1, keepdim=True)
        wrong = response[:, :1] < FIRST_LETTER
        return torch.where((place < length) & ~wrong, digits, EOS)
