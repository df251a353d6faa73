"""Fixed problem sets: drawn once from a named stream, kept as Parquet, one row per problem."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pydantic
import torch
from pydantic import Field

from carry import tasks
from carry.config import paths, profiles, run_settings
from carry.config.run_settings import (
    MOST_DIGITS,
    MOST_PROBLEMS,
    DataSet,
    ProblemCount,
    Run,
    Size,
)
from carry.config.settings import Settings, SettingsError, suggest_name
from carry.data import data_sets
from carry.data.problems import Problems
from carry.data.tables import read_parquet
from carry.randomness import stream

# Settings of tasks that decide which problems exist and which answers are right.
DEFINING = ("radix", "modulus", "operations", "down")


class FarCell(Settings):
    """A cell beyond the grid with `each` problems: `digits` for both sizes, or `i` and `j`."""

    digits: Size | None = None
    i: Size | None = None
    j: Size | None = None
    each: ProblemCount

    @pydantic.model_validator(mode="after")
    def _check_sizes(self) -> FarCell:
        present = [size is not None for size in (self.digits, self.i, self.j)]
        if present not in ([True, False, False], [False, True, True]):
            raise ValueError(
                f"digits {self.digits}, i {self.i}, j {self.j} do not fit; "
                "expected digits, or else i and j"
            )
        return self

    def cell(self) -> tuple[int, int]:
        """Return the sizes (i, j)."""
        return (self.digits, self.digits) if self.digits else (self.i, self.j)


class LengthRange(Settings):
    """Equal sizes, drawn uniformly from `least` to `most` for `count` problems."""

    least: Size
    most: Size
    count: ProblemCount

    @pydantic.model_validator(mode="after")
    def _check_order(self) -> LengthRange:
        if self.most < self.least:
            raise ValueError(f"most {self.most} does not fit, expected at least {self.least}")
        return self


class ProblemSet(DataSet):
    """The settings of a problem set: an evaluation grid, random draws, or a data set.

    `grid`: cells (i, j) with both sizes up to this, `each` problems in a cell; `equal`: number of
    further problems for each size i = j, up to `longest` (default: the grid); `far`: cells beyond
    these; `ranges`: problems of several sizes, in sets of these names; `every`: all problems of a
    task with few problems. `draw` problems of the training distribution, of sizes up to `digits`.

    A data set has trained `lengths` instead, and its problems are held out of training; the lengths
    `beyond` are tested only.
    """

    beyond: list[Size] = []
    grid: int = Field(default=0, ge=0, le=MOST_DIGITS)
    each: int = Field(default=0, ge=0, le=MOST_PROBLEMS)
    equal: int = Field(default=0, ge=0, le=MOST_PROBLEMS)
    longest: Size | None = None
    far: list[FarCell] = []
    ranges: dict[str, LengthRange] = {}
    every: bool = False
    draw: int = Field(default=0, ge=0, le=MOST_PROBLEMS)
    digits: int = Field(default=0, ge=0, le=MOST_DIGITS)

    @pydantic.model_validator(mode="after")
    def _check_lengths(self) -> ProblemSet:
        """Refuse problems that training could draw next to problems that it never draws."""
        repeated = sorted({*self.lengths} & {*self.beyond})
        if repeated:
            raise ValueError(f"beyond: {repeated} are trained, expected other lengths")
        if self.beyond and not self.lengths:
            raise ValueError("beyond does not fit a set without lengths, expected lengths")
        for kind in ("grid", "equal", "far", "ranges", "every", "draw"):
            if self.lengths and getattr(self, kind):
                raise ValueError(f"{kind} does not fit a set with lengths, expected test alone")
        drawn = self.grid**2 * self.each + (self.longest or self.grid) * self.equal + self.draw
        drawn += sum(cell.each for cell in self.far) + sum(r.count for r in self.ranges.values())
        if drawn > MOST_PROBLEMS:
            raise ValueError(f"{drawn} problems are too many; expected at most {MOST_PROBLEMS}")
        return self


def load_problem_set(name: str, profile: str) -> ProblemSet:
    """Return the settings of a problem set at the scale of a profile."""
    return ProblemSet.parse(profiles.load_problem_set(name, profile), f"problems.{name}")


def draw_problem_set(name: str, settings: ProblemSet) -> pd.DataFrame:
    """Draw the problems of a set: `set`, cell (`i`, `j`), `operands`, `label` and `answer`.

    Numbers are texts; `operands` is one text with spaces between the operands.

    >>> far = [{"digits": 50, "each": 4}]
    >>> settings = {"task": {"name": "addition"}, "grid": 3, "each": 2, "far": far}
    >>> table = draw_problem_set("mine", ProblemSet.parse(settings, "problems.mine"))
    >>> table["set"].value_counts().to_dict(), table.columns.tolist()
    ({'grid': 18, 'far': 4}, ['set', 'i', 'j', 'operands', 'label', 'answer'])
    """
    task = tasks.build_task(settings.task, f"problems.{name}.task")
    smallest, longest = task.smallest_cell, settings.longest or settings.grid
    grid = itertools.product(*(range(size, settings.grid + 1) for size in smallest))
    for index, far in enumerate(settings.far):
        task.check_cell(far.cell(), f"problems.{name}.far.{index}")
    equal = range(max(smallest), longest + 1)
    cells_by_set = {
        "grid": [cell for cell in grid for _ in range(settings.each)],
        "equal": [(size, size) for size in equal for _ in range(settings.equal)],
        "far": [far.cell() for far in settings.far for _ in range(far.each)],
    }
    tables = []
    for kind, cells in cells_by_set.items():  # a stream each, so that no set changes another
        if cells:
            problems = task.draw_for_cells(torch.tensor(cells), stream(0, "problems", name, kind))
            tables.append(to_table(kind, torch.tensor(cells), problems, task))
    for kind, sizes in settings.ranges.items():
        generator = stream(0, "problems", name, kind)
        size = torch.randint(sizes.least, sizes.most + 1, (sizes.count, 1), generator=generator)
        cells = size.expand(-1, 2)
        tables.append(to_table(kind, cells, task.draw_for_cells(cells, generator), task))
    if settings.every:
        cells, problems, kinds = task.enumerate_problems()
        tables.append(to_table("every", cells, problems, task).assign(set=kinds))
    if settings.draw:
        generator = stream(0, "problems", name, "draw")
        cells, problems = task.draw_with_cells(settings.draw, settings.digits, generator)
        tables.append(to_table("draw", cells, problems, task))
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


def write_problem_set(name: str, profile: str) -> Path:
    """Draw a problem set and write it as Parquet."""
    path = paths.data_path(profile, "problems", f"{name}.parquet")
    with paths.write_atomically(path) as draft:
        draw_problem_set(name, load_problem_set(name, profile)).to_parquet(draft, index=False)
    return path


def read_table(profile: str, name: str) -> pd.DataFrame:
    """Return a problem set that the pipeline drew, as a table.

    Raises:
        SettingsError: for a file that is missing or damaged.
    """
    if profile == "notebook":  # a notebook that runs alone draws its few problems again
        return draw_problem_set(name, load_problem_set(name, profile))
    path = paths.data_path(profile, "problems", f"{name}.parquet")
    remedy = f"the problems stage of profile {profile!r} to run: dvc repro -f problems"
    return read_parquet(path, f"problems.{name}", remedy)


def to_problems(table: pd.DataFrame, task: tasks.Task) -> Problems:
    """Return the rows of a table as problems, solved again by the task."""
    solved = task.solve(*tasks.to_digits([row.split() for row in table["operands"]], task.base))
    return replace(solved, label=torch.tensor(table["label"].to_numpy()))


def get_problem_set_name(run: Run) -> str:
    """Return the name of the problem set that scores a run.

    >>> from carry.config.run_settings import make_run
    >>> get_problem_set_name(make_run({"task": {"name": "sorting"}}))
    'sorting'
    """
    return run.evaluation.problem_set or run.training.problem_set or str(run.task.get("name"))


def check_problem_set(run: Run, profile: str) -> None:
    """Refuse a run whose problem set is unknown or belongs to another task."""
    name = get_problem_set_name(run)
    where = f"runs.{run.name}.evaluation.problem_set"
    if name not in profiles.load_params()["problems"]:
        hint = suggest_name(name, profiles.load_params()["problems"])
        raise SettingsError(f"{where}: {name!r} is unknown, {hint}")
    given = load_problem_set(name, profile).task
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

    >>> from carry.config.run_settings import make_run
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
    if profiles.load_params()["problems"].get(get_problem_set_name(run), {}).get("lengths"):
        other &= table["set"] != "validation"
    chosen = grid | equal | far | other
    if evaluation.band:
        chosen &= ~size.isin(run.validation_band())
    return table[chosen]


def write_questions(profile: str) -> dict[str, int]:
    """Write for each row of a profile the problems that score it; return their numbers by row.

    The evaluation of a row depends on its own file, so a change of another row does not repeat it.
    """
    runs = {row: run_settings.load_run(row, profile) for row in run_settings.list_rows(profile)}
    names = {get_problem_set_name(run) for run in runs.values()}
    tables = {name: read_table(profile, name) for name in names}
    counts = {}
    for row, run in runs.items():
        questions = select_questions(run, tables[get_problem_set_name(run)])
        with paths.write_atomically(find_questions_file(run)) as draft:
            questions.to_parquet(draft, index=False)
        counts[row] = len(questions)
    return counts


def find_questions_file(run: Run) -> Path:
    """Return the file with the problems that score a run."""
    study = profiles.find_study(run.name)
    return paths.data_path(run.profile, "questions", study, f"{run.name}.parquet")


def read_questions(run: Run) -> pd.DataFrame:
    """Return the problems that score a run.

    Raises:
        SettingsError: for a file that is missing or damaged.
    """
    if run.profile == "notebook":  # a notebook that runs alone draws its few problems again
        return select_questions(run, read_table(run.profile, get_problem_set_name(run)))
    remedy = f"the problems stage of profile {run.profile!r} to run: dvc repro -f problems"
    return read_parquet(find_questions_file(run), f"questions.{run.name}", remedy)


def hash_questions(questions: pd.DataFrame) -> str:
    """Return a hash of the problems of a table.

    >>> hash_questions(pd.DataFrame({"i": [1]})) == hash_questions(pd.DataFrame({"i": [2]}))
    False
    """
    rows = pd.util.hash_pandas_object(questions, index=False).to_numpy().tobytes()
    return hashlib.sha256(rows).hexdigest()
