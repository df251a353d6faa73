"""Addition of two numbers modulo another (fraknoi2024, section 4, after Nanda et al. 2023).

a        80
b        40
modulus  113
answer   7       120 - 113
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Bool, Integer
from pydantic import Field
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.problems import Problems
from carry.randomness import stream
from carry.tasks import Task, values

DRAWS = 64  # of a pair that training does not see: of 30% seen, one in 10^33 is left


class ModularAddition(Task):
    """Addition modulo `modulus` of numbers below it; training sees a `share` of all pairs.

    Which pairs these are is the same for all runs. Every one of them is drawn before any is again.
    Problems of given sizes, which are for evaluation, are of the other pairs.

    >>> from carry.tasks import to_digits
    >>> task = ModularAddition(modulus=113)
    >>> task.solve(*to_digits([[80, 40]])).answer[0].tolist()
    [7, 0, 0]
    """

    sign: ClassVar[str] = "+"
    modulus: int = Field(default=113, ge=2)
    share: float = Field(default=1.0, gt=0.0, le=1.0)

    @property
    def numbers(self) -> int:
        """How many numbers there are, from 0 on."""
        return self.modulus

    def cells(self, count: int, digits: int, generator: torch.Generator) -> Integer[Tensor, "B 2"]:
        """Draw pairs of training, and return how long their numbers are."""
        return self._lengths(self._drawn(count, digits, generator))

    def operands(
        self, cells: Integer[Tensor, "B 2"], generator: torch.Generator
    ) -> tuple[Integer[Tensor, "B M N"], Integer[Tensor, "B M"]]:
        """Draw numbers of given lengths evenly, of pairs that training does not see.

        Where there are none of these lengths, or `DRAWS` draws find none, of any pair.
        """
        lengths = cells.clamp(max=len(str(self.modulus - 1)))
        seen, numbers = self.seen().to(cells.device), self._of_lengths(lengths, generator)
        for _ in range(DRAWS):
            again = seen[numbers[:, 0] * self.modulus + numbers[:, 1]]
            if not again.any():
                break
            numbers = torch.where(again[:, None], self._of_lengths(lengths, generator), numbers)
        return self._digits(numbers), self._lengths(numbers)

    def _of_lengths(
        self, lengths: Integer[Tensor, "B 2"], generator: torch.Generator
    ) -> Integer[Tensor, "B 2"]:
        least = torch.where(lengths == 1, 0, 10 ** (lengths - 1))
        end = (10**lengths).clamp(max=self.modulus)
        share = torch.rand(lengths.shape, generator=generator, device=lengths.device)
        return least + (share.double() * (end - least)).long()

    def draw_in_cells(
        self, count: int, digits: int, generator: torch.Generator
    ) -> tuple[Integer[Tensor, "B 2"], Problems]:
        """Draw training problems of numbers up to so many digits."""
        numbers = self._drawn(count, digits, generator)
        lengths = self._lengths(numbers)
        problems = self.solve(self._digits(numbers), lengths)
        return lengths, self.labelled(problems, generator)

    def every(self) -> tuple[Integer[Tensor, "B 2"], Problems, list[str]]:
        """Return all pairs in order, with their cells and their sets: `trained` or `held out`."""
        pair = torch.arange(self.modulus**2)
        numbers = torch.stack([pair // self.modulus, pair % self.modulus], dim=1)
        lengths = self._lengths(numbers)
        names = ["trained" if seen else "held out" for seen in self.seen().tolist()]
        return lengths, self.solve(self._digits(numbers), lengths), names

    def seen(self) -> Bool[Tensor, " P"]:
        """Return which of all pairs, counted a modulus + b, training sees."""
        count = self.modulus**2
        order = torch.randperm(count, generator=stream(0, "pairs", self.modulus))
        seen = torch.zeros(count, dtype=torch.bool)
        seen[order[: max(1, int(self.share * count))]] = True
        return seen

    def room(self, lengths: Integer[Tensor, "B M"]) -> Integer[Tensor, " B"]:
        """Return the length of the longest number, or less for short operands."""
        return (lengths.amax(1) + 1).clamp(max=len(str(self.modulus - 1)))

    def longest_answer(self, digits: int) -> int:
        """Return the room of numbers of so many digits."""
        return min(digits + 1, len(str(self.modulus - 1)))

    def solve(
        self, operands: Integer[Tensor, "B M N"], lengths: Integer[Tensor, "B M"]
    ) -> Problems:
        """Add, and take the remainder.

        Raises:
            SettingsError: for a number that is not below the modulus.
        """
        numbers = values(operands)
        if numbers.numel() and int(numbers.max()) >= self.modulus:
            raise SettingsError(
                f"operands: {int(numbers.max())} does not fit modulus {self.modulus}; "
                "expected numbers below it"
            )
        answer = numbers.sum(1) % self.modulus
        return self.solved(operands, lengths, self._digits(answer), self._lengths(answer))

    def steps(self, problems: Problems) -> dict[str, Integer[Tensor, "B _"]]:
        """Return whether the sum reaches the modulus."""
        total = values(problems.operands).sum(1, keepdim=True)
        return {"wraps": (total >= self.modulus).to(torch.uint8)}

    def oracle(self, *operands: str) -> str:
        """Return the remainder of Python integers."""
        return str(sum(map(int, operands)) % self.modulus)

    def _drawn(self, count: int, digits: int, generator: torch.Generator) -> Integer[Tensor, "B 2"]:
        """Draw pairs of training of numbers up to so many digits."""
        pairs = self.seen().nonzero()[:, 0]
        numbers = torch.stack([pairs // self.modulus, pairs % self.modulus], dim=1)
        numbers = numbers[(self._lengths(numbers) <= digits).all(1)].to(generator.device)
        if not len(numbers):
            raise SettingsError(
                f"share: {self.share} leaves no pair of {digits} digits below {self.modulus}; "
                "expected more"
            )
        rounds = -(-count // len(numbers))
        device = generator.device
        orders = [
            torch.randperm(len(numbers), generator=generator, device=device) for _ in range(rounds)
        ]
        return numbers[torch.cat(orders)[:count]]

    def _digits(self, numbers: Integer[Tensor, "*B"]) -> Integer[Tensor, "*B N"]:
        place = torch.arange(len(str(self.modulus - 1)), device=numbers.device)
        return (numbers[..., None] // 10**place % 10).to(torch.uint8)

    def _lengths(self, numbers: Integer[Tensor, "*B"]) -> Integer[Tensor, "*B"]:
        powers = 10 ** torch.arange(1, len(str(self.modulus)), device=numbers.device)
        return 1 + (numbers[..., None] >= powers).sum(-1)
