"""Fixed problem sets: drawn once from a named stream, kept as Parquet, one row per problem."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pydantic
import torch
from pydantic import Field

from carry import tasks
from carry.config import paths, profiles, run_settings
from carry.config.run_settings import DataSet, Run, Size
from carry.config.settings import Settings, SettingsError, suggest_name
from carry.data import data_sets
from carry.data.problems import Problems
from carry.randomness import stream


class Far(Settings):
    """So many problems of one cell: `digits` for both its sizes, or `i` and `j`."""

    digits: int | None = Field(default=None, ge=1)
    i: int | None = Field(default=None, ge=1)
    j: int | None = Field(default=None, ge=1)
    each: int = Field(ge=1)

    @pydantic.model_validator(mode="after")
    def _one_cell(self) -> Far:
        given = [size is not None for size in (self.digits, self.i, self.j)]
        if given not in ([True, False, False], [False, True, True]):
            raise ValueError(
                f"digits {self.digits}, i {self.i}, j {self.j} do not fit; "
                "expected digits, or else i and j"
            )
        return self

    def cell(self) -> tuple[int, int]:
        """Return the sizes (i, j)."""
        return (self.digits, self.digits) if self.digits else (self.i, self.j)


class Range(Settings):
    """So many problems of equal sizes, drawn evenly from `least` to `most`."""

    least: int = Field(ge=1)
    most: int = Field(ge=1)
    count: int = Field(ge=1)

    @pydantic.model_validator(mode="after")
    def _in_order(self) -> Range:
        if self.most < self.least:
            raise ValueError(f"most {self.most} does not fit, expected at least {self.least}")
        return self


class ProblemSet(DataSet):
    """What a set holds: for evaluation a grid of cells and larger ones, or random draws.

    `grid`: cells (i, j) with both sizes up to this, `each` problems in a cell; `equal`: how many
    more problems where i = j, up to `longest` (default: the grid's); `far`: cells beyond these;
    `ranges`: problems of several sizes, in sets of these names; `every`: all that there are, where
    they are few. `draw` problems of the training distribution, of sizes up to `digits`.

    Or what is kept apart from training, if the set has `lengths` that are trained; some `beyond`
    are only tested.
    """

    beyond: list[Size] = []
    grid: int = Field(default=0, ge=0)
    each: int = Field(default=0, ge=0)
    equal: int = Field(default=0, ge=0)
    longest: int | None = Field(default=None, ge=1)
    far: list[Far] = []
    ranges: dict[str, Range] = {}
    every: bool = False
    draw: int = Field(default=0, ge=0)
    digits: int = Field(default=0, ge=0)

    @pydantic.model_validator(mode="after")
    def _nothing_else(self) -> ProblemSet:
        """Refuse what might be trained beside what never is."""
        both = sorted({*self.lengths} & {*self.beyond})
        if both:
            raise ValueError(f"beyond: {both} are trained, expected other lengths")
        if self.beyond and not self.lengths:
            raise ValueError("beyond does not fit a set without lengths, expected lengths")
        for kind in ("grid", "equal", "far", "ranges", "every", "draw"):
            if self.lengths and getattr(self, kind):
                raise ValueError(f"{kind} does not fit a set with lengths, expected test alone")
        return self


def load_problem_set(name: str, profile: str) -> ProblemSet:
    """Return the settings of a problem set at the scale of a profile."""
    return ProblemSet.parse(profiles.load_problem_set(name, profile), f"problems.{name}")


def draw_problem_set(name: str, given: ProblemSet) -> pd.DataFrame:
    """Draw the problems of a set: `set`, cell (`i`, `j`), `operands`, `label` and `answer`.

    Numbers are texts, operands one text with a space between them.

    >>> far = [{"digits": 50, "each": 4}]
    >>> given = {"task": {"name": "addition"}, "grid": 3, "each": 2, "far": far}
    >>> table = draw_problem_set("mine", ProblemSet.parse(given, "problems.mine"))
    >>> table["set"].value_counts().to_dict(), table.columns.tolist()
    ({'grid': 18, 'far': 4}, ['set', 'i', 'j', 'operands', 'label', 'answer'])
    """
    task = tasks.build(given.task, f"problems.{name}.task")
    least, longest = task.least, given.longest or given.grid
    sizes = itertools.product(*(range(size, given.grid + 1) for size in least))
    for index, far in enumerate(given.far):
        task.check_cell(far.cell(), f"problems.{name}.far.{index}")
    wanted = {
        "grid": [cell for cell in sizes for _ in range(given.each)],
        "equal": [(i, i) for i in range(max(least), longest + 1) for _ in range(given.equal)],
        "far": [far.cell() for far in given.far for _ in range(far.each)],
    }
    tables = []
    for kind, cells in wanted.items():  # apart, so that one does not move another's problems
        if cells:
            drawn = task.sample(torch.tensor(cells), stream(0, "problems", name, kind))
            tables.append(to_table(kind, torch.tensor(cells), drawn, task))
    for kind, of in given.ranges.items():
        generator = stream(0, "problems", name, kind)
        size = torch.randint(of.least, of.most + 1, (of.count, 1), generator=generator)
        cells = size.expand(-1, 2)
        tables.append(to_table(kind, cells, task.sample(cells, generator), task))
    if given.every:
        cells, problems, kinds = task.every()
        tables.append(to_table("every", cells, problems, task).assign(set=kinds))
    if given.draw:
        generator = stream(0, "problems", name, "draw")
        cells, drawn = task.draw_in_cells(given.draw, given.digits, generator)
        tables.append(to_table("draw", cells, drawn, task))
    for length in sorted({*given.lengths, *given.beyond}):
        for kind, drawn in data_sets.kept_apart(name, given, length).items():
            tables.append(to_table(kind, drawn.lengths, drawn, task))
    return pd.concat(tables, ignore_index=True)


def to_table(kind: str, cells: torch.Tensor, problems: Problems, task: tasks.Task) -> pd.DataFrame:
    """Return problems of given cells as the rows of a set, with numbers as texts."""
    pairs = zip(problems.operands.unbind(1), problems.lengths.unbind(1), strict=True)
    operands = [" ".join(row).rstrip() for row in zip(*(_texts(*p) for p in pairs), strict=True)]
    if task.in_digits:
        answer = _texts(problems.answer, problems.answer_length)
    else:
        rows = zip(problems.answer.tolist(), problems.answer_length.tolist(), strict=True)
        answer = ["".join(tasks.NAMES[at] for at in row[:length]) for row, length in rows]
    i, j = cells.T.tolist()
    columns = {"i": i, "j": j, "operands": operands, "label": problems.label, "answer": answer}
    return pd.DataFrame({"set": kind, **columns})


def _texts(digits: torch.Tensor, length: torch.Tensor) -> list[str]:
    whole = (digits.flip(1) + ord("0")).to(torch.uint8).numpy().tobytes().decode()
    width, lengths = digits.shape[1], length.tolist()
    return [whole[(row + 1) * width - n : (row + 1) * width] for row, n in enumerate(lengths)]


def write_problem_set(name: str, profile: str) -> Path:
    """Draw a problem set and keep it as Parquet."""
    path = paths.data_path(profile, "problems", f"{name}.parquet")
    with paths.write_atomically(path) as draft:
        draw_problem_set(name, load_problem_set(name, profile)).to_parquet(draft, index=False)
    return path


def read_table(profile: str, name: str) -> pd.DataFrame:
    """Return a problem set that the pipeline drew, as a table."""
    if profile == "notebook":  # a notebook by itself draws its few problems afresh
        return draw_problem_set(name, load_problem_set(name, profile))
    path = paths.data_path(profile, "problems", f"{name}.parquet")
    if not path.exists():
        raise SettingsError(
            f"problems.{name}: {paths.display_path(path)} is not there; expected the problems stage of "
            f"profile {profile!r} to have run"
        )
    return pd.read_parquet(path)


def to_problems(table: pd.DataFrame, task: tasks.Task) -> Problems:
    """Return the rows of a table as problems, worked out again by the task."""
    solved = task.solve(*tasks.to_digits([row.split() for row in table["operands"]]))
    return replace(solved, label=torch.tensor(table["label"].to_numpy()))


def read_problem_set(profile: str, name: str) -> Problems:
    """Return a problem set that the pipeline drew."""
    task = tasks.build(load_problem_set(name, profile).task, f"problems.{name}.task")
    return to_problems(read_table(profile, name), task)


def name_for(of: Run) -> str:
    """Return the name of the problem set that a run is scored on.

    >>> from carry.config.run_settings import make_run
    >>> name_for(make_run({"task": {"name": "sorting"}}))
    'sorting'
    """
    return of.evaluation.problem_set or of.training.problem_set or str(of.task.get("name"))


def check_problem_set(of: Run, profile: str) -> None:
    """Refuse a run whose problem set is not there, or is one of another task."""
    name = name_for(of)
    if name not in profiles.load_params()["problems"]:
        hint = suggest_name(name, profiles.load_params()["problems"])
        raise SettingsError(f"runs.{of.name}.evaluation.problem_set: {name!r} is not there, {hint}")
    task = load_problem_set(name, profile).task.get("name")
    if task != of.task.get("name"):
        raise SettingsError(
            f"runs.{of.name}.evaluation.problem_set: {name!r} has problems of {task!r}, "
            f"expected some of {of.task.get('name')!r}"
        )


def questions(of: Run, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a problem set on which a run is scored.

    Of a data set these are its tests alone: it has no training problems, and those for validation
    are left out.

    >>> from carry.config.run_settings import make_run
    >>> of = make_run({"task": {"name": "addition"}, "evaluation": {"digits": 2, "far": [50]}})
    >>> table = pd.DataFrame({"set": ["grid", "grid", "far", "far"], "i": [2, 3, 50, 99]})
    >>> questions(of, table.assign(j=table["i"]))["i"].tolist()
    [2, 50]
    """
    asked, size = of.evaluation, table[["i", "j"]].max(axis=1)
    grid = (table["set"] == "grid") & (size <= asked.digits)
    equal = (table["set"] == "equal") & (size <= (asked.longest or asked.digits))
    cells = pd.MultiIndex.from_frame(table[["i", "j"]])
    far = (table["set"] == "far") & cells.isin(asked.far_cells())
    named = ~table["set"].isin(["grid", "equal", "far"])  # these are asked whole
    if profiles.load_params()["problems"].get(name_for(of), {}).get("lengths"):
        named &= table["set"] != "validation"  # which training looks at
    return table[grid | equal | far | named]


def write_questions(profile: str) -> Path:
    """Keep for each row of a profile the problems that it is scored on, and return their folder.

    A row depends on its own, so that what others are asked besides makes none be scored again.
    """
    rows = {row: run_settings.load_run(row, profile) for row in run_settings.list_rows(profile)}
    tables = {name: read_table(profile, name) for name in {*map(name_for, rows.values())}}
    for row, of in rows.items():
        with paths.write_atomically(
            paths.data_path(profile, "questions", f"{row}.parquet")
        ) as draft:
            questions(of, tables[name_for(of)]).to_parquet(draft, index=False)
    return paths.data_path(profile, "questions")


def read_questions(of: Run) -> pd.DataFrame:
    """Return the problems that a run is scored on.

    Raises:
        SettingsError: if the pipeline has not written them yet.
    """
    if of.profile == "notebook":  # a notebook by itself draws its few problems afresh
        return questions(of, read_table(of.profile, name_for(of)))
    path = paths.data_path(of.profile, "questions", f"{of.name}.parquet")
    if not path.exists():
        raise SettingsError(
            f"questions.{of.name}: {paths.display_path(path)} is not there; expected the questions stage "
            f"of profile {of.profile!r} to have run"
        )
    return pd.read_parquet(path)
