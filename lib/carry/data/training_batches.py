"""Training batches: a fresh stream or a fixed data set, in pools sorted by length."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config.run_settings import SUB_TASKS
from carry.data import data_sets, problem_sets
from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.formats import noisy
from carry.models.system import System
from carry.randomness import stream


class TrainingSet(NamedTuple):
    """A fixed data set, and of a mixture which sub-task each problem is (`carry.config.run_settings.SUB_TASKS`)."""

    problems: Problems
    parts: Integer[Tensor, " B"] | None = None


def draw_training_set(system: System) -> TrainingSet | None:
    """Return the fixed data set that a run trains on, the same for all its seeds, if it has one."""
    of, training = system.run.data_set, system.run.training
    if of is None:
        table = training_set_table(system)
        return None if table is None else TrainingSet(problem_sets.to_problems(table, system.task))
    given = training.problem_set, of, training.examples
    return TrainingSet(data_sets.learned(*given), data_sets.parts(*given) if of.mixture else None)


def training_set_table(system: System) -> pd.DataFrame | None:
    """Return the same as a table, with the sub-task of each problem as `part` if there are some."""
    training = system.run.training
    if training.examples is None:
        return None
    if system.run.data_set is not None:
        problems, parts = draw_training_set(system)
        table = problem_sets.to_table("training", problems.lengths, problems, system.task)
        return table if parts is None else table.assign(part=[SUB_TASKS[of] for of in parts])
    given = problem_sets.ProblemSet(
        task=system.run.task, draw=training.examples, digits=training.digits
    )
    return problem_sets.draw_problem_set(f"training {system.run.name}", given)


def summarise_training_set(system: System) -> dict[str, Any]:
    """Return what a data set holds in numbers, and a hash by which to know it again."""
    problems, parts = draw_training_set(system)
    name, lengths = system.run.training.problem_set, problems.lengths[:, 0].bincount().tolist()
    found = {"set": name, "problems": len(problems)}
    found["lengths"] = {length: many for length, many in enumerate(lengths) if many}
    digest = hashlib.sha256(problems.operands.numpy())
    if parts is not None:
        counts = parts.bincount(minlength=len(SUB_TASKS)).tolist()
        found["parts"] = dict(zip(SUB_TASKS, counts, strict=True))
        digest.update(parts.numpy())
    return {**found, "sha256": digest.hexdigest()}


def draw_held_out(system: System) -> Problems:
    """Return in-distribution problems that no seed trains on, the same for all.

    They are fresh ones, which nothing keeps out of training but chance; or, of a data set, some of
    those for validation of trained lengths, or all if these are fewer than are asked for. They are
    written as the run's format says, whatever training mixes.
    """
    run, generator = system.run, stream(0, "held out")
    count = run.training.score_problems
    if run.data_set is None:
        return system.task.draw(count, run.training.digits, generator)
    problems = data_sets.validation(run.training.problem_set, run.data_set)
    return problems[torch.randperm(len(problems), generator=generator)[:count]]


class TrainingBatches:
    """An endless stream of batches that can be stopped and taken up again.

    Problems are drawn a pool at a time, sorted by length and cut into batches of like length
    (which leaves little padding), and the batches are shuffled.
    """

    def __init__(self, system: System, generator: torch.Generator) -> None:
        self.system, self.training = system, system.run.training
        self.generator = generator
        given, device = draw_training_set(system), generator.device
        self.fixed = None if given is None else given.problems.to(device)
        self.parts = None if given is None or given.parts is None else given.parts.to(device)
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
        form = self.system.format
        if self.fixed is None:
            batch = form.write(self.system.task.draw(count, self.training.digits, self.generator))
        else:
            limit = len(self.fixed)
            rows = torch.randint(limit, (count,), generator=self.generator, device=device)
            if self.parts is None:
                batch = form.write(self.fixed[rows])
            else:
                batch = form.write_parts(self.fixed[rows], self.parts[rows])
        if self.training.random_padding:
            batch = noisy(batch, self.training.random_padding, self.generator)
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
