"""Data sets by operand length, of which no problem is in two parts (ibrahimli2024, 4.2.2).

Of each length some problems are for tests, some for validation, and others are trained on; none is
drawn twice. Problems are told apart by how they are written: 12 + 34 is not 34 + 12.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd
import torch
from jaxtyping import Integer
from torch import Tensor

from carry import tasks
from carry.config.run_settings import SUB_TASKS, DataSet
from carry.config.settings import SettingsError
from carry.data.problems import Problems, concatenate_problems
from carry.randomness import stream

# Of so many digits training takes no more problems than this (Lee et al. 2023).
MOST = {1: 100, 2: 900, 3: 9_000}

DIGITS = 18  # that an integer of 64 bits holds, whatever they are


def composition(count: int, lengths: Iterable[int]) -> dict[int, int]:
    """Return of how many problems of each length a training set of `count` problems is made.

    The shortest first, each length has an equal share of what is left, but no more than 100
    problems of one digit (which are all), 900 of two and 9,000 of three: the longer ones share the
    rest equally. Lee et al. (2023) and ibrahimli2024 (4.2.2) take these three numbers as they are.
    So does this, wherever they leave each longer length as many problems as the three-digit ones
    have; of fewer problems than that, as 10,000 to seven digits, they do not speak.

    >>> composition(10_000, [1, 2, 3])
    {1: 100, 2: 900, 3: 9000}
    >>> composition(100_000, [1, 2, 3, 4, 5, 6, 7, 9])[9]
    18000
    >>> composition(10_000, [1, 2, 3, 4, 5, 6, 7, 9])
    {1: 100, 2: 900, 3: 1500, 4: 1500, 5: 1500, 6: 1500, 7: 1500, 9: 1500}
    """
    found, lengths = {}, sorted(lengths)
    for index, length in enumerate(lengths):
        share = (count - sum(found.values())) // (len(lengths) - index)
        found[length] = min(share, MOST.get(length, share))
    return found


def task_of(name: str, of: DataSet) -> tasks.Task:
    """Return the task of a data set.

    Raises:
        SettingsError: for one that cannot say how many problems of a length there are.
    """
    task = tasks.build(of.task, f"problems.{name}.task")
    if task.count(1) is None:
        raise SettingsError(
            f"problems.{name}.lengths: how many problems of a length {of.task['name']!r} has is "
            "not known; expected a task on two numbers"
        )
    return task


def held_back(of: DataSet, task: tasks.Task, length: int) -> dict[str, int]:
    """Return how many problems of a length are for tests (`equal`) and for `validation`.

    They are fewer than asked for where training could leave no more.

    >>> of = DataSet(task={"name": "addition"}, lengths=[1, 2], test=1000, validation=100)
    >>> task = task_of("mine", of)
    >>> [held_back(of, task, length) for length in (1, 2)]
    [{'equal': 0, 'validation': 0}, {'equal': 1000, 'validation': 100}]
    """
    left = task.count(length) - (MOST.get(length, 0) if length in of.lengths else 0)
    test = min(of.test, left)
    return {"equal": test, "validation": min(of.validation, left - test)}


def check(name: str, of: DataSet, count: int, where: str) -> None:
    """Refuse to train on `count` problems of a data set that has not so many, or none to validate.

    Raises:
        SettingsError: with one line that begins with `where`.
    """
    task, wanted = task_of(name, of), composition(count, of.lengths)
    whole, kept = sum(wanted.values()), {n: held_back(of, task, n) for n in wanted}
    if whole < count:
        raise SettingsError(
            f"{where}: {count} problems are more than training takes of lengths {of.lengths}; "
            f"expected {whole} or fewer, or longer numbers"
        )
    for length, many in wanted.items():
        left = task.count(length) - sum(kept[length].values())
        if many > left:
            raise SettingsError(
                f"{where}: {many} of {count} problems would be of length {length}, where "
                f"{left} are neither test nor validation; expected fewer"
            )
    if not any(part["validation"] for part in kept.values()):
        raise SettingsError(
            f"problems.{name}.test: {of.test} leaves none for validation at lengths "
            f"{of.lengths}; expected fewer"
        )


def kept_apart(name: str, of: DataSet, length: int) -> dict[str, Problems]:
    """Draw the tests (`equal`) and the `validation` problems of one length, where there are some.

    They depend on the set's name and on the length, and on nothing that is trained.
    """
    task, found = task_of(name, of), {}
    known = torch.zeros(0, 2, length, dtype=torch.uint8)
    for kind, count in held_back(of, task, length).items():
        if count:
            generator = stream(0, "problems", name, kind, length)
            operands = different(task, length, count, generator, known)
            found[kind] = _labelled(task, operands, generator)
            known = torch.cat([known, operands])
    return found


def validation(name: str, of: DataSet) -> Problems:
    """Return the validation problems of all lengths that are trained."""
    parts = [kept_apart(name, of, length).get("validation") for length in sorted(of.lengths)]
    return concatenate_problems([part for part in parts if part is not None])


def learned(name: str, of: DataSet, count: int) -> Problems:
    """Draw `count` training problems, which are no tests and not for validation.

    They are the same for all runs that train on so many of this set.
    """
    task, parts = task_of(name, of), []
    for length, many in composition(count, of.lengths).items():
        if many:
            kept = [problems.operands for problems in kept_apart(name, of, length).values()]
            known = torch.cat([torch.zeros(0, 2, length, dtype=torch.uint8), *kept])
            generator = stream(0, "problems", name, "training", count, length)
            operands = different(task, length, many, generator, known)
            parts.append(_labelled(task, operands, generator))
    return concatenate_problems(parts)


def parts(name: str, of: DataSet, count: int) -> Integer[Tensor, " B"]:
    """Draw which sub-task each training problem is, by their shares: an index into `SUB_TASKS`.

    >>> shares = {"add": 0.5, "rev": 0.5}
    >>> of = DataSet(task={"name": "addition"}, lengths=[9], test=1, validation=1, mixture=shares)
    >>> parts("mine", of, 1000).unique().tolist()
    [0, 4]
    """
    shares = torch.tensor([of.mixture.get(prefix, 0.0) for prefix in SUB_TASKS])
    generator = stream(0, "problems", name, "parts", count)
    return shares.multinomial(count, replacement=True, generator=generator)


def different(
    task: tasks.Task,
    length: int,
    count: int,
    generator: torch.Generator,
    known: Integer[Tensor, "K M N"],
) -> Integer[Tensor, "B M N"]:
    """Draw the operands of `count` problems of one length, no two alike and none of them known.

    Whatever is alike is drawn again, so that all that could come are as likely. There have to be
    so many.

    >>> task, none = tasks.build({"name": "addition"}), torch.zeros(0, 2, 1, dtype=torch.uint8)
    >>> drawn = different(task, 1, 100, stream(0, "doctest"), none)
    >>> len({tuple(pair) for pair in drawn[:, :, 0].tolist()})
    100
    """
    found, there = known, task.count(length)
    while len(found) < len(known) + count:
        missing = len(known) + count - len(found)
        # As many draws as find them on average, and some more.
        draws = math.ceil(1.05 * missing * there / (there - len(found))) + 64
        cells = torch.full((draws, 2), length)
        found = torch.cat([found, task.operands(cells, generator)[0]])
        again = pd.DataFrame(packed(found).numpy()).duplicated().to_numpy()
        found = found[torch.from_numpy(~again)][: len(known) + count]
    return found[len(known) :]


def packed(operands: Integer[Tensor, "B M N"]) -> Integer[Tensor, "B W"]:
    """Return all digits of each problem as few integers, the same for the same operands alone.

    >>> packed(torch.tensor([[[3, 2, 1], [6, 5, 4]]])).tolist()
    [[321654]]
    """
    digits = operands.flatten(1)
    words = digits.new_zeros(len(digits), -(-digits.shape[1] // DIGITS), dtype=torch.int64)
    for place, digit in enumerate(digits.unbind(1)):
        words[:, place // DIGITS].mul_(10).add_(digit)
    return words


def _labelled(
    task: tasks.Task, operands: Integer[Tensor, "B M N"], generator: torch.Generator
) -> Problems:
    lengths = torch.full(operands.shape[:2], operands.shape[2])
    return task.labelled(task.solve(operands, lengths), generator)
