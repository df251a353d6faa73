"""Data sets by operand length, without a problem in two parts (ibrahimli2024, 4.2.2).

Of each length, test problems, validation problems and training problems are drawn without
repetition. Problems are compared as they are written: 12 + 34 differs from 34 + 12.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Integer
from torch import Tensor

from carry import tasks
from carry.config.settings import SettingsError
from carry.data.problems import Problems, concatenate_rows
from carry.experiments.run import SUB_TASKS, DataSet
from carry.randomness import stream
from carry.tasks.addition import Addition

# Training takes at most this number of problems of a length (Lee et al. 2023).
MAX_TRAINING_PROBLEMS = {1: 100, 2: 900, 3: 9_000}


def count_by_length(count: int, lengths: Iterable[int]) -> dict[int, int]:
    """Divide a training set of `count` problems among its lengths.

    From the shortest length on, each length gets an equal share of the remaining problems, but at
    most 100 problems of one digit (all of them), 900 of two and 9,000 of three. Lee et al. (2023)
    and ibrahimli2024 (4.2.2) always use these three numbers. They do not define smaller sets, as
    10,000 problems of up to seven digits, where the three numbers leave the longer lengths fewer
    problems than three digits get.

    >>> count_by_length(10_000, [1, 2, 3])
    {1: 100, 2: 900, 3: 9000}
    >>> count_by_length(100_000, [1, 2, 3, 4, 5, 6, 7, 9])[9]
    18000
    >>> count_by_length(10_000, [1, 2, 3, 4, 5, 6, 7, 9])
    {1: 100, 2: 900, 3: 1500, 4: 1500, 5: 1500, 6: 1500, 7: 1500, 9: 1500}
    """
    counts, lengths = {}, sorted(lengths)
    for index, length in enumerate(lengths):
        share = (count - sum(counts.values())) // (len(lengths) - index)
        counts[length] = min(share, MAX_TRAINING_PROBLEMS.get(length, share))
    return counts


def count_held_out(data_set: DataSet, task: Addition, length: int) -> dict[str, int]:
    """Count the problems of a length for tests (`equal`) and for `validation`.

    The counts are smaller than the settings where training needs the remaining problems.

    >>> settings = DataSet(task={"name": "addition"}, lengths=[1, 2], test=1000, validation=100)
    >>> task = tasks.build_task(settings.task)
    >>> [count_held_out(settings, task, length) for length in (1, 2)]
    [{'equal': 0, 'validation': 0}, {'equal': 1000, 'validation': 100}]
    """
    reserved = MAX_TRAINING_PROBLEMS.get(length, 0) if length in data_set.lengths else 0
    available = max(0, task.count_problems(length) - reserved)
    test = min(data_set.test, available)
    return {"equal": test, "validation": min(data_set.validation, available - test)}


def check_example_count(data_set: DataSet, count: int, where: str) -> None:
    """Refuse another task, fewer than `count` training problems, and none for validation."""
    task, counts = tasks.build_task(data_set.task), count_by_length(count, data_set.lengths)
    if not isinstance(task, Addition):
        raise SettingsError(
            f"{where}: a data set of {data_set.task['name']!r} has no lengths; expected 'addition'"
        )
    total = sum(counts.values())
    if total < count:
        raise SettingsError(
            f"{where}: {count} problems are too many for lengths {data_set.lengths}; "
            f"expected at most {total}, or longer numbers"
        )
    held_out = {length: count_held_out(data_set, task, length) for length in counts}
    for length, needed in counts.items():
        available = task.count_problems(length) - sum(held_out[length].values())
        if needed > available:
            raise SettingsError(
                f"{where}: {needed} of {count} problems would be of length {length}, where "
                f"{available} are neither test nor validation; expected fewer"
            )
    if not any(parts["validation"] for parts in held_out.values()):
        raise SettingsError(
            f"{where}: test {data_set.test} leaves none for validation at lengths "
            f"{data_set.lengths}; expected fewer"
        )


def draw_held_out_problems(name: str, data_set: DataSet, length: int) -> dict[str, Problems]:
    """Draw the test problems (`equal`) and the `validation` problems of a length, if it has any.

    They depend on the name of the data set and on the length only, never on training.
    """
    task, drawn = tasks.build_task(data_set.task), {}
    excluded = torch.zeros(0, 2, length, dtype=torch.uint8)
    for kind, count in count_held_out(data_set, task, length).items():
        if count:
            generator = stream(0, "problems", name, kind, length)
            operands = draw_distinct_operands(task, length, count, generator, excluded)
            drawn[kind] = _solve(task, operands, generator)
            excluded = torch.cat([excluded, operands])
    return drawn


def draw_validation_problems(name: str, data_set: DataSet) -> Problems:
    """Draw the validation problems of all trained lengths."""
    lengths = sorted(data_set.lengths)
    parts = [draw_held_out_problems(name, data_set, n).get("validation") for n in lengths]
    return concatenate_rows([part for part in parts if part is not None])


def draw_training_problems(name: str, data_set: DataSet, count: int) -> Problems:
    """Draw `count` training problems, none of them a test or validation problem.

    All runs that train on `count` problems of this data set get the same problems.
    """
    task, parts = tasks.build_task(data_set.task), []
    for length, needed in count_by_length(count, data_set.lengths).items():
        if needed:
            held_out = draw_held_out_problems(name, data_set, length).values()
            excluded = [problems.operands for problems in held_out]
            excluded = torch.cat([torch.zeros(0, 2, length, dtype=torch.uint8), *excluded])
            generator = stream(0, "problems", name, "training", count, length)
            operands = draw_distinct_operands(task, length, needed, generator, excluded)
            parts.append(_solve(task, operands, generator))
    return concatenate_rows(parts)


def draw_sub_tasks(name: str, data_set: DataSet, count: int) -> Integer[Tensor, " B"]:
    """Draw the sub-task of each training problem by the shares of the mixture.

    Returns:
        indices into `SUB_TASKS`.

    >>> shares = {"add": 0.5, "rev": 0.5}
    >>> addition = {"name": "addition"}
    >>> settings = DataSet(task=addition, lengths=[9], test=1, validation=1, mixture=shares)
    >>> draw_sub_tasks("mine", settings, 1000).unique().tolist()
    [0, 4]
    """
    shares = torch.tensor([data_set.mixture.get(prefix, 0.0) for prefix in SUB_TASKS])
    generator = stream(0, "problems", name, "parts", count)
    return shares.multinomial(count, replacement=True, generator=generator)


def draw_distinct_operands(
    task: Addition,
    length: int,
    count: int,
    generator: torch.Generator,
    excluded: Integer[Tensor, "K M N"],
) -> Integer[Tensor, "B M N"]:
    """Draw the operands of `count` distinct problems of a length, without the excluded ones.

    Repetitions are drawn again, so that all remaining problems are equally likely. The task must
    have `count` problems besides the excluded ones.

    >>> addition = tasks.build_task({"name": "addition"})
    >>> nothing = torch.zeros(0, 2, 1, dtype=torch.uint8)
    >>> drawn = draw_distinct_operands(addition, 1, 100, stream(0, "doctest"), nothing)
    >>> len({tuple(pair) for pair in drawn[:, :, 0].tolist()})
    100
    """
    distinct, available, wanted = excluded, task.count_problems(length), len(excluded) + count
    while len(distinct) < wanted:
        missing = wanted - len(distinct)
        # The expected number of draws that finds the missing problems, and a margin.
        draws = math.ceil(1.05 * missing * available / (available - len(distinct))) + 64
        cells = torch.full((draws, 2), length)
        distinct = torch.cat([distinct, task.draw_operands(cells, generator)[0]])
        rows = distinct.flatten(1).numpy()
        _, first = np.unique(rows.view(f"V{rows.shape[1]}"), return_index=True)
        distinct = distinct[torch.from_numpy(np.sort(first))][:wanted]
    return distinct[len(excluded) :]


def _solve(
    task: tasks.Task, operands: Integer[Tensor, "B M N"], generator: torch.Generator
) -> Problems:
    """Solve problems of one length, and draw their labels."""
    lengths = torch.full(operands.shape[:2], operands.shape[2])
    return task.with_labels(task.solve(operands, lengths), generator)
