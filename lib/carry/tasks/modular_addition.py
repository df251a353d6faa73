"""Addition of two numbers modulo a third (fraknoi2024, section 4, after Nanda et al. 2023).

a        80
b        40
modulus  113
answer   7       120 - 113
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Integer
from pydantic import Field
from torch import Tensor

from carry.config.settings import SettingsError, describe
from carry.data.problems import Problems, count_written_digits
from carry.randomness import stream
from carry.tasks import Cells, Lengths, Operands, Task, digits_to_values

# Tries to draw a pair that training does not see; at share 0.3 one pair in 10^33 needs more.
MAX_REDRAWS = 64
MAX_MODULUS = 4096  # tables of all pairs have modulus^2 entries


class ModularAddition(Task):
    """Addition of numbers below `modulus`; training sees a `share` of all pairs.

    The pairs seen in training are the same in all runs, and each pair is drawn once before any is
    drawn again. `draw_for_cells`, which evaluation uses, draws the other pairs.

    >>> from carry.tasks import to_digits
    >>> task = ModularAddition(modulus=113)
    >>> task.solve(*to_digits([[80, 40]])).answer[0].tolist()
    [7, 0, 0]
    """

    noun = "sums"
    unit = "numbers of {0} digits"
    sign = "+"
    operand_count = 2

    modulus: int = Field(default=113, ge=2, le=MAX_MODULUS)
    share: float = Field(default=1.0, gt=0.0, le=1.0)

    def draw_operands(self, cells: Cells, generator: torch.Generator) -> tuple[Operands, Lengths]:
        """Draw numbers of these lengths uniformly, from pairs that training does not see.

        A cell without such a pair, or with none in `MAX_REDRAWS` tries, gets a training pair.
        """
        lengths = cells.clamp(max=len(str(self.modulus - 1)))
        trained = self.trained_pairs().to(cells.device)
        numbers = self._draw_numbers(lengths, generator)
        for _ in range(MAX_REDRAWS):
            again = trained[numbers[:, 0] * self.modulus + numbers[:, 1]]
            if not again.any():
                break
            numbers = torch.where(again[:, None], self._draw_numbers(lengths, generator), numbers)
        return self._digits(numbers), self._lengths(numbers)

    def _draw_numbers(self, lengths: Cells, generator: torch.Generator) -> Integer[Tensor, "B 2"]:
        least = torch.where(lengths == 1, 0, 10 ** (lengths - 1))
        end = (10**lengths).clamp(max=self.modulus)
        share = torch.rand(lengths.shape, generator=generator, device=lengths.device)
        return least + (share.double() * (end - least)).long()

    def draw(self, count: int, digits: int, generator: torch.Generator) -> Problems:
        """Draw training problems of numbers of at most `digits` digits."""
        numbers, device = self._list_pairs()[self.trained_pairs()], generator.device
        numbers = numbers[(self._lengths(numbers) <= digits).all(1)].to(device)
        if not len(numbers):
            raise SettingsError(
                f"share: {self.share} leaves no pair of {digits} digits below {self.modulus}; "
                "expected more"
            )
        rounds = -(-count // len(numbers))
        orders = [
            torch.randperm(len(numbers), generator=generator, device=device) for _ in range(rounds)
        ]
        numbers = numbers[torch.cat(orders)[:count]]
        problems = self.solve(self._digits(numbers), self._lengths(numbers))
        return self.with_labels(problems, generator)

    def enumerate_problems(self) -> tuple[Cells, Problems, list[str]]:
        """Return all pairs in order: their cells, the problems, and `trained` or `held out`."""
        numbers = self._list_pairs()
        lengths = self._lengths(numbers)
        sets = ["trained" if trained else "held out" for trained in self.trained_pairs().tolist()]
        return lengths, self.solve(self._digits(numbers), lengths), sets

    def trained_pairs(self) -> Bool[Tensor, " P"]:
        """Return whether training sees each pair (a, b), at index a * modulus + b."""
        count = self.modulus**2
        order = torch.randperm(count, generator=stream(0, "pairs", self.modulus))
        trained = torch.zeros(count, dtype=torch.bool)
        trained[order[: max(1, int(self.share * count))]] = True
        return trained

    def answer_room(self, lengths: Lengths) -> Integer[Tensor, " B"]:
        """Return the longer length plus one, at most the length of the modulus - 1."""
        return (lengths.amax(1) + 1).clamp(max=len(str(self.modulus - 1)))

    def check_question(self, operands: Sequence[str]) -> None:
        """Refuse a number that is not below the modulus."""
        modulus = str(self.modulus)
        for text in operands:
            if (len(text), text) >= (len(modulus), modulus):
                raise SettingsError(
                    f"operands: {describe(text)} does not fit modulus {modulus}; "
                    "expected numbers below it"
                )

    def solve(self, operands: Operands, lengths: Lengths) -> Problems:
        """Add, and return the remainder."""
        answer = digits_to_values(operands).sum(1) % self.modulus
        return self.make_problems(operands, lengths, self._digits(answer), self._lengths(answer))

    def solve_text(self, *operands: str) -> str:
        """Return the remainder of Python integers."""
        return str(sum(map(int, operands)) % self.modulus)

    def _list_pairs(self) -> Integer[Tensor, "P 2"]:
        number = torch.arange(self.modulus)
        return torch.cartesian_prod(number, number)

    def _digits(self, numbers: Integer[Tensor, "*B"]) -> Integer[Tensor, "*B N"]:
        place = torch.arange(len(str(self.modulus - 1)), device=numbers.device)
        return (numbers[..., None] // 10**place % 10).to(torch.uint8)

    def _lengths(self, numbers: Integer[Tensor, "*B"]) -> Integer[Tensor, "*B"]:
        return count_written_digits(self._digits(numbers))
