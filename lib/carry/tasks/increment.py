"""The number after or before a natural number.

place              2 1 0
n                  2 9 9
carry used         1 1 .     a digit changes if all lower ones were 9 (before: 0)
after              3 0 0

An answer before is padded to the length of the number (`pad: answer`), since no step can see which
zeros lead it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.problems import Problems, count_written_digits, resolve_carries
from carry.tasks import Cells, Lengths, Operands, Steps, StringTask, draw_numbers


class Increment(StringTask):
    """A number plus 1, or with `down` minus 1; a cell (i, i) is its length.

    Half of the digits drawn are 9 (`down`: 0), because carries are rare in uniform numbers.

    >>> from carry.tasks import to_digits
    >>> for down in (False, True):
    ...     print(Increment(down=down).solve(*to_digits([[300]])).answer[0].tolist())
    [1, 0, 3, 0]
    [9, 9, 2]
    """

    noun = "numbers"
    keeps_leading_zeros = False

    down: bool = False

    def draw_operands(self, cells: Cells, generator: torch.Generator) -> tuple[Operands, Lengths]:
        """Draw numbers of these lengths; half of their digits carry."""
        lengths = cells[:, :1]
        digits = draw_numbers(lengths, generator)
        place = torch.arange(digits.shape[2], device=digits.device)
        coin = torch.rand(digits.shape, generator=generator, device=digits.device) < 0.5
        carries = coin & (place < lengths[:, :, None] - int(self.down))  # no leading zero
        digits = torch.where(carries, 0 if self.down else 9, digits)
        if self.down:
            digits[:, 0, 0] += (digits[:, 0] == 0).all(1)  # nothing is before 0
        return digits, lengths

    def answer_room(self, lengths: Lengths) -> Integer[Tensor, " B"]:
        """Return the length of the number, and a place for a carry."""
        return lengths[:, 0] + int(not self.down)

    def check_question(self, operands: Sequence[str]) -> None:
        """Refuse the number before 0."""
        if self.down and operands[0] == "0":
            raise SettingsError(
                "operands.0: no natural number is before 0; expected a number from 1"
            )

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Add or subtract 1 from all problems at once."""
        answer, _ = self._change(operands)
        return self.make_problems(operands, lengths, answer, count_written_digits(answer))

    def compute_steps(self, problems: Problems) -> Steps:
        """Return the carry into each place; the lowest has none."""
        return {} if self.down else {"carry_used": self._change(problems.operands)[1][:, :-1]}

    def solve_text(self, *operands: str) -> str:
        """Return the number after or before a Python integer."""
        return str(int(operands[0]) + (-1 if self.down else 1))

    def _change(self, operands: Operands) -> tuple[Integer[Tensor, "B K"], Integer[Tensor, "B V"]]:
        """Return the digits of the answers and the carries."""
        width = 0 if self.down else 1
        columns = torch.nn.functional.pad(operands[:, 0].char(), (0, width))
        columns[:, 0] += -1 if self.down else 1
        return resolve_carries(columns)
