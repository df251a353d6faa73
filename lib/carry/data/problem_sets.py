"""Fixed problem sets: drawn once from a named stream, kept as Parquet, one row per problem."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from dataclasses import replace
from typing import Any

import pandas as pd
import torch

from carry import tasks
from carry.config import paths
from carry.config.settings import SettingsError
from carry.data import data_sets
from carry.data.problems import Problems
from carry.data.tables import read_parquet
from carry.experiments.problems import ProblemSet, find_problem_set
from carry.experiments.run import Run
from carry.randomness import stream

# Settings of tasks that decide which problems exist and which answers are right.
DEFINING = ("radix", "modulus", "operations", "down")


def draw_problem_set(name: str, settings: ProblemSet) -> pd.DataFrame:
    """Draw the problems of a set: `set`, cell (`i`, `j`), `operands`, `label` and `answer`.

    Numbers are texts; `operands` is one text with spaces between the operands.

    >>> settings = {"task": {"name": "addition"}, "grid": 3, "each": 2, "far": [[50, 50, 4]]}
    >>> table = draw_problem_set("mine", ProblemSet.parse(settings, "problems.mine"))
    >>> table["set"].value_counts().to_dict(), table.columns.tolist()
    ({'grid': 18, 'far': 4}, ['set', 'i', 'j', 'operands', 'label', 'answer'])
    """
    task = tasks.build_task(settings.task, f"problems.{name}.task")
    smallest, longest = task.smallest_cell, settings.longest or settings.grid
    grid = itertools.product(*(range(size, settings.grid + 1) for size in smallest))
    for index, (i, j, _) in enumerate(settings.far):
        task.check_cell((i, j), f"problems.{name}.far.{index}")
    equal = range(max(smallest), longest + 1)
    cells_by_set = {
        "grid": [cell for cell in grid for _ in range(settings.each)],
        "equal": [(size, size) for size in equal for _ in range(settings.equal)],
        "far": [(i, j) for i, j, each in settings.far for _ in range(each)],
    }
    tables, purpose = [], ("problems", settings.stream or name)
    for kind, cells in cells_by_set.items():  # a stream each, so that no set changes another
        if cells:
            problems = task.draw_for_cells(torch.tensor(cells), stream(0, *purpose, kind))
            tables.append(to_table(kind, torch.tensor(cells), problems, task))
    for kind, (least, most, count) in settings.ranges.items():
        generator = stream(0, *purpose, kind)
        size = torch.randint(least, most + 1, (count, 1), generator=generator)
        cells = size.expand(-1, 2)
        tables.append(to_table(kind, cells, task.draw_for_cells(cells, generator), task))
    if settings.every:
        cells, problems, kinds = task.enumerate_problems()
        tables.append(to_table("every", cells, problems, task).assign(set=kinds))
    for length in sorted({*settings.lengths, *settings.beyond}):
        held_out = data_sets.draw_held_out_problems(name, settings, length)
        for kind, problems in held_out.items():
            tables.append(to_table(kind, problems.lengths, problems, task))
    return pd.concat(tables, ignore_index=True)


def to_table(kind: str, cells: torch.Tensor, problems: Problems, task: tasks.Task) -> pd.DataFrame:
    """Return problems and their cells as the rows of a set, with numbers as texts."""
    numbers = zip(problems.operands.unbind(1), problems.lengths.unbind(1), strict=True)
    columns = [_to_texts(digits, lengths) for digits, lengths in numbers]
    operands = [" ".join(row).rstrip() for row in zip(*columns, strict=True)]
    if task.answer_is_number:
        answer = _to_texts(problems.answer, problems.answer_length)
    else:
        rows = zip(problems.answer.tolist(), problems.answer_length.tolist(), strict=True)
        answer = [task.write_answer(row[:length]) for row, length in rows]
    i, j = cells.T.tolist()
    values = {"i": i, "j": j, "operands": operands, "label": problems.label, "answer": answer}
    return pd.DataFrame({"set": kind, **values})


def _to_texts(digits: torch.Tensor, lengths: torch.Tensor) -> list[str]:
    """Return numbers as texts, most significant digit first."""
    codes = torch.frombuffer(bytearray(tasks.DIGIT_SYMBOLS, "ascii"), dtype=torch.uint8)
    text = codes[digits.flip(1).long()].numpy().tobytes().decode("ascii")
    ends = [(row + 1) * digits.shape[1] for row in range(len(digits))]
    return [text[end - n : end] for end, n in zip(ends, lengths.tolist(), strict=True)]


def load_problem_set(name: str, scale: str = "laptop") -> pd.DataFrame:
    """Return a problem set as a table; it is drawn once.

    Raises:
        SettingsError: for an unknown name.
    """
    settings = find_problem_set(name, scale)
    key = hashlib.sha256(settings.model_dump_json(exclude_defaults=True).encode()).hexdigest()[:8]
    path = paths.PROBLEMS / f"{name}_{key}.parquet"
    with contextlib.suppress(SettingsError):  # missing or damaged
        return read_parquet(path, f"problems.{name}", "it to be drawn again")
    table = draw_problem_set(name, settings)
    with paths.write_atomically(path) as draft:
        table.to_parquet(draft, index=False)
    return table


def to_problems(table: pd.DataFrame, task: tasks.Task) -> Problems:
    """Return the rows of a table as problems, solved again by the task."""
    solved = task.solve(*tasks.to_digits([row.split() for row in table["operands"]], task.base))
    return replace(solved, label=torch.tensor(table["label"].to_numpy()))


def get_problem_set_name(run: Run) -> str:
    """Return the name of the problem set that scores a run.

    >>> from carry.experiments.resolve import make_run
    >>> get_problem_set_name(make_run({"task": {"name": "sorting"}}))
    'sorting'
    """
    return run.evaluation.problem_set or run.training.problem_set or str(run.task.get("name"))


def check_problem_set(run: Run) -> None:
    """Refuse a run whose problem set is unknown or belongs to another task."""
    name = get_problem_set_name(run)
    where = f"runs.{run.name}.evaluation.problem_set"
    given = find_problem_set(name, run.scale, where).task
    if _describe_task(given) != _describe_task(run.task):
        raise SettingsError(
            f"{where}: {name!r} has problems of {_describe_task(given)}, "
            f"expected problems of {_describe_task(run.task)}"
        )


def _describe_task(settings: dict[str, Any]) -> str:
    """Return the name of a task, and its settings that decide which answers are right."""
    task = tasks.build_task(settings)
    values = [f" with {key} {getattr(task, key)!r}" for key in DEFINING if hasattr(task, key)]
    return repr(settings["name"]) + "".join(values)


def select_questions(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a problem set that score a run.

    Of a data set these are the tests, without the validation problems, which training reads. The
    validation band is left out for a run whose settings were chosen on it.

    >>> from carry.experiments.resolve import make_run
    >>> run = make_run({"task": {"name": "addition"}, "evaluation": {"digits": 2, "far": [50]}})
    >>> table = pd.DataFrame({"set": ["grid", "grid", "far", "far"], "i": [2, 3, 50, 99]})
    >>> select_questions(run, table.assign(j=table["i"]))["i"].tolist()
    [2, 50]
    """
    evaluation, size = run.evaluation, table[["i", "j"]].max(axis=1)
    grid = (table["set"] == "grid") & (size <= evaluation.digits)
    equal = (table["set"] == "equal") & (size <= (evaluation.longest or evaluation.digits))
    cells = pd.MultiIndex.from_frame(table[["i", "j"]])
    far = (table["set"] == "far") & cells.isin(evaluation.far_cells())
    other = ~table["set"].isin(["grid", "equal", "far"])  # every row of these sets is asked
    if find_problem_set(get_problem_set_name(run), run.scale).lengths:  # a data set
        other &= table["set"] != "validation"
    chosen = grid | equal | far | other
    if evaluation.band:
        chosen &= ~size.isin(run.validation_band())
    return table[chosen]


def load_questions(run: Run) -> pd.DataFrame:
    """Return the problems that score a run."""
    return select_questions(run, load_problem_set(get_problem_set_name(run), run.scale))


def hash_questions(questions: pd.DataFrame) -> str:
    """Return a hash of the problems of a table.

    >>> hash_questions(pd.DataFrame({"i": [1]})) == hash_questions(pd.DataFrame({"i": [2]}))
    False
    """
    rows = pd.util.hash_pandas_object(questions, index=False).to_numpy().tobytes()
    return hashlib.sha256(rows).hexdigest()
