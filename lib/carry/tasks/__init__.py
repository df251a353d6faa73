"""What is true: operands, answer, and the labelled steps between them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.batch import Problems
from carry.settings import Settings, SettingsError, choose


class Task(Settings):
    """A task; its settings are its fields, and its name is its file's.

    Steps serve three things from one source: a scratchpad is the steps written, a probe's target
    is the steps predicted, a sub-task's metric is the steps scored.
    """

    @abstractmethod
    def lengths(
        self, count: int, digits: int, generator: torch.Generator
    ) -> Integer[Tensor, "B M"]:
        """Draw operand lengths for `count` training problems of at most `digits` digits."""

    @abstractmethod
    def sample(self, lengths: Integer[Tensor, "B M"], generator: torch.Generator) -> Problems:
        """Draw problems whose operands have the given lengths."""

    @abstractmethod
    def solve(
        self, operands: Integer[Tensor, "B M N"], lengths: Integer[Tensor, "B M"]
    ) -> Problems:
        """Work out the answers, on the device that holds the operands."""

    @abstractmethod
    def steps(self, problems: Problems) -> dict[str, Integer[Tensor, "B K"]]:
        """Return the labelled steps, by place, the ones first."""

    @abstractmethod
    def oracle(self, *operands: int) -> int:
        """Return the answer, from Python's own integers: slow, and surely right."""

    def draw(self, count: int, digits: int, generator: torch.Generator) -> Problems:
        """Draw training problems of at most `digits` digits."""
        return self.sample(self.lengths(count, digits, generator), generator)


def build(settings: dict[str, Any], where: str = "task") -> Task:
    """Return the task that `settings` names.

    >>> build({"name": "addition"}).oracle(999, 1)
    1000
    """
    settings = dict(settings)
    if "name" not in settings:
        raise SettingsError(f"{where}.name: missing; expected the name of a task")
    kind = choose("carry.tasks", Task, settings.pop("name"), f"{where}.name")
    return kind.parse(settings, where)


def to_digits(
    numbers: list[list[int | str]],
) -> tuple[Integer[Tensor, "B M N"], Integer[Tensor, "B M"]]:
    """Turn Python integers, or their texts, into digits, the ones first, and lengths.

    >>> digits, lengths = to_digits([[653, 49]])
    >>> digits.tolist(), lengths.tolist()
    ([[[3, 5, 6], [9, 4, 0]]], [[3, 2]])
    """
    texts = [[str(number) for number in row] for row in numbers]
    lengths = torch.tensor([[len(text) for text in row] for row in texts])
    width = int(lengths.max())
    padded = [[text[::-1].ljust(width, "0") for text in row] for row in texts]
    flat = bytearray("".join("".join(row) for row in padded), "ascii")
    digits = torch.frombuffer(flat, dtype=torch.uint8) - ord("0")
    return digits.view(len(numbers), -1, width), lengths


def to_int(digits: Integer[Tensor, " N"], length: int | Tensor) -> int:
    """Turn one number's digits, the ones first, back into a Python integer.

    >>> to_int(torch.tensor([3, 5, 6, 0]), 3)
    653
    """
    return int("".join(map(str, digits[: int(length)].flip(0).tolist())))
