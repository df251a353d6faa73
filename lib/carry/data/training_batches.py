"""Training batches: a fresh stream or a fixed data set, in pools sorted by length."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.data import data_sets
from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.experiments.run import Run
from carry.formats import Format, insert_random_padding
from carry.randomness import stream
from carry.tasks import Task

MAX_CELLS = 10**7  # that are drawn at once


def draw_training_set(run: Run, task: Task) -> tuple[Problems | None, Integer[Tensor, " B"] | None]:
    """Draw the fixed data set of a run, the same for all seeds; None for a fresh stream.

    Returns:
        the problems, and their sub-tasks as indices into `SUB_TASKS`; None without a mixture.
    """
    data_set, training = run.data_set, run.training
    if training.examples is None:
        return None, None
    if data_set is None:
        generator = stream(0, "problems", run.example_stream(), "draw")
        return task.draw(training.examples, training.digits, generator), None
    name, count = training.problem_set, training.examples
    problems = data_sets.draw_training_problems(name, data_set, count)
    mixed = bool(data_set.mixture)
    return problems, data_sets.draw_sub_tasks(name, data_set, count) if mixed else None


def draw_held_out(
    run: Run, task: Task, purpose: str = "held out", count: int | None = None
) -> Problems:
    """Draw in-distribution problems that measure training, the same for all seeds.

    Without a data set they are fresh problems, which training repeats by chance only. With a data
    set they are its validation problems of trained lengths, at most `count` of them (default:
    `score_problems`). The run's format writes them, whatever training mixes. `purpose` names their
    random stream.
    """
    training, generator = run.training, stream(0, purpose)
    count, digits = count or training.score_problems, training.digits
    if run.data_set is not None:
        problems = data_sets.draw_validation_problems(training.problem_set, run.data_set)
        return problems[torch.randperm(len(problems), generator=generator)[:count]]
    if getattr(task, "sampling", None) == "stratified" and count < digits**2:
        # A stratified draw of fewer problems than cells covers adjacent cells. A draw with every
        # cell once is in random order, so its first cells are an even sample.
        if digits**2 <= MAX_CELLS:
            cells = task.draw_training_cells(digits**2, digits, generator)[:count]
        else:  # a sample with replacement of so many cells hardly repeats any
            cells = torch.randint(1, digits + 1, (count, 2), generator=generator)
        return task.draw_for_cells(cells, generator)
    return task.draw(count, digits, generator)


class TrainingBatches:
    """An endless stream of batches that can stop and resume.

    A pool of problems is drawn, sorted by length and cut into batches of similar length (which
    need little padding); the batches are shuffled.
    """

    def __init__(self, run: Run, task: Task, format: Format, generator: torch.Generator) -> None:
        self.task, self.format, self.training = task, format, run.training
        self.generator = generator
        parts = draw_training_set(run, task)
        self.problems, self.sub_tasks = (
            None if part is None else part.to(generator.device) for part in parts
        )
        self._pool: list[Batch] = []
        self._state_before_pool = generator.get_state()
        self._next_index = 0

    def next(self, size: int) -> Batch:
        """Return the next batch; `size` counts when a new pool is drawn."""
        if self._next_index == len(self._pool):
            self._state_before_pool = self.generator.get_state()
            self._pool, self._next_index = list(self._draw_pool(size)), 0
        self._next_index += 1
        return self._pool[self._next_index - 1]

    def _draw_pool(self, size: int) -> Iterator[Batch]:
        batch = self._write_problems(size * self.training.pool)
        if self.training.random_padding:
            batch = insert_random_padding(batch, self.training.random_padding, self.generator)
        order = batch.length.argsort(stable=True)
        device = self.generator.device
        chunks = torch.randperm(self.training.pool, generator=self.generator, device=device)
        for chunk in chunks.tolist():
            yield batch[order[chunk * size : (chunk + 1) * size]].trim()

    def _write_problems(self, count: int) -> Batch:
        """Draw and write `count` problems, fresh or from the fixed data set."""
        if self.problems is None:
            return self.format.write(self.task.draw(count, self.training.digits, self.generator))
        rows = torch.randint(
            len(self.problems), (count,), generator=self.generator, device=self.generator.device
        )
        if self.sub_tasks is None:
            return self.format.write(self.problems[rows])
        return self.format.write_sub_tasks(self.problems[rows], self.sub_tasks[rows])

    def state(self) -> dict[str, torch.Tensor]:
        """Return the tensors that `resume` needs."""
        size = len(self._pool[0]) if self._pool else 0
        return {
            "pool_drawn_from": self._state_before_pool.clone(),
            "pool_taken": torch.tensor([self._next_index, size]),
        }

    def resume(self, state: dict[str, torch.Tensor]) -> None:
        """Continue from a state: draw its pool again, and skip the batches before."""
        index, size = state["pool_taken"].tolist()
        self.generator.set_state(state["pool_drawn_from"])
        self._state_before_pool = self.generator.get_state()
        self._pool, self._next_index = (list(self._draw_pool(size)) if size else []), index
