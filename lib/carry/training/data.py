"""Training batches: a fresh stream or a fixed data set, in pools sorted by length."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import torch

from carry import problem_sets
from carry.batch import Batch
from carry.formats import noisy
from carry.models.system import System


def fixed_problems(system: System) -> pd.DataFrame | None:
    """Return the fixed data set that a run trains on, the same for all its seeds, if it has one."""
    training = system.run.training
    if training.fixed is None:
        return None
    given = problem_sets.ProblemSet(
        task=system.run.task, draw=training.fixed, digits=training.digits
    )
    return problem_sets.draw(f"training {system.run.name}", given)


class Batches:
    """An endless stream of batches that can be stopped and taken up again.

    Problems are drawn a pool at a time, sorted by length and cut into batches of like length
    (which leaves little padding), and the batches are shuffled.
    """

    def __init__(self, system: System, generator: torch.Generator) -> None:
        self.system, self.training = system, system.run.training
        self.generator = generator
        table = fixed_problems(system)
        self.fixed = (
            None
            if table is None
            else problem_sets.to_problems(table, system.task).to(generator.device)
        )
        self._pool: list[Batch] = []
        self._drawn_from = generator.get_state()
        self._taken = 0

    def next(self, size: int) -> Batch:
        """Return the next batch; a new pool takes the batch size of its first batch."""
        if self._taken == len(self._pool):
            self._drawn_from = self.generator.get_state()
            self._pool, self._taken = list(self._draw(size)), 0
        self._taken += 1
        return self._pool[self._taken - 1]

    def _draw(self, size: int) -> Iterator[Batch]:
        count, device = size * self.training.pool, self.generator.device
        if self.fixed is None:
            problems = self.system.task.draw(count, self.training.digits, self.generator)
        else:
            limit = len(self.fixed)
            rows = torch.randint(limit, (count,), generator=self.generator, device=device)
            problems = self.fixed[rows]
        batch = self.system.format.write(problems)
        if self.training.noise:
            batch = noisy(batch, self.training.noise, self.generator)
        order = batch.length.argsort(stable=True)
        chunks = torch.randperm(self.training.pool, generator=self.generator, device=device)
        for chunk in chunks.tolist():
            yield batch[order[chunk * size : (chunk + 1) * size]].trim()

    def state(self) -> dict[str, torch.Tensor]:
        """Return what is needed to go on from here."""
        size = len(self._pool[0]) if self._pool else 0
        return {
            "pool_drawn_from": self._drawn_from.clone(),
            "pool_taken": torch.tensor([self._taken, size]),
        }

    def resume(self, state: dict[str, torch.Tensor]) -> None:
        """Go on from a state: draw its pool again, and skip what had been taken."""
        taken, size = state["pool_taken"].tolist()
        self.generator.set_state(state["pool_drawn_from"])
        self._drawn_from = self.generator.get_state()
        self._pool, self._taken = (list(self._draw(size)) if size else []), taken
