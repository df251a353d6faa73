"""Each number as one token: `^ a b = c $` (fraknoi2024, section 4)."""

from __future__ import annotations

from jaxtyping import Integer
from torch import Tensor

from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.formats import ALPHABET, FIRST_LETTER, Format
from carry.formats.binary import read_value, write_values
from carry.tasks.modular_addition import ModularAddition


class OneHot(Format):
    """Number n is the token `FIRST_LETTER` + n.

    >>> from carry.formats import build_format
    >>> from carry.tasks import build_task, to_digits
    >>> task = build_task({"name": "modular_addition", "modulus": 10})
    >>> problems = task.solve(*to_digits([[3, 9]]))
    >>> build_format({"name": "one_hot"}, task).write(problems).tokens[0].tolist()
    [12, 26, 32, 11, 25, 13]
    """

    task_type = ModularAddition

    def incompatibility(self) -> str | None:
        """Refuse more numbers than symbols."""
        count, symbols = self.task.modulus, len(ALPHABET) - FIRST_LETTER
        if count > symbols:
            return f"'one_hot' has {symbols} symbols and the task {count} numbers; expected fewer"
        return None

    def vocabulary_size(self) -> int:
        """Return the signs and the numbers."""
        return FIRST_LETTER + self.task.modulus

    def write(self, problems: Problems) -> Batch:
        """Write problems as tokens and marks; every number is at place 0."""
        return write_values(problems, lambda value: FIRST_LETTER + value, sign=None)

    def read(self, response: Integer[Tensor, "B A"]) -> Integer[Tensor, "B N"]:
        """Return the digits of the number, least significant first, followed by EOS."""
        value = response[:, :1] - FIRST_LETTER
        return read_value(value.clamp(min=0), value >= 0, self.task.modulus - 1)
