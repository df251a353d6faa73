"""Fixed problem sets: drawn once from a named stream, kept as Parquet, one row per problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import torch
from pydantic import Field

from carry import params, paths, tasks
from carry.batch import Problems
from carry.randomness import stream
from carry.settings import Settings, SettingsError, nearest


class Far(Settings):
    """So many problems whose operands have so many digits, both."""

    digits: int = Field(ge=1)
    each: int = Field(ge=1)


class ProblemSet(Settings):
    """What a set holds: for evaluation a grid of lengths and longer equal ones, or random draws.

    `grid`: operand lengths (i, j) up to this, `each` problems in a cell; `equal`: how many more
    problems where i = j inside the grid; `far`: longer lengths, equal too.
    `draw` problems of the training distribution, up to `digits` digits.
    """

    task: dict[str, Any]
    grid: int = Field(default=0, ge=0)
    each: int = Field(default=0, ge=0)
    equal: int = Field(default=0, ge=0)
    far: list[Far] = []
    draw: int = Field(default=0, ge=0)
    digits: int = Field(default=0, ge=0)


def load(name: str, profile: str) -> ProblemSet:
    """Return the settings of a problem set at the scale of a profile."""
    known = params.load()["problems"]
    if name not in known:
        raise SettingsError(f"problems: {name!r} is not there, {nearest(name, known)}")
    own = params.load_profile(profile).get("problems", {}).get(name)
    return ProblemSet.parse(params.merge(known[name], own), f"problems.{name}")


def draw(name: str, given: ProblemSet) -> pd.DataFrame:
    """Draw the problems of a set: `set`, lengths `i` and `j`, and the numbers as text.

    >>> far = [{"digits": 50, "each": 4}]
    >>> given = {"task": {"name": "addition"}, "grid": 3, "each": 2, "far": far}
    >>> table = draw("mine", ProblemSet.parse(given, "problems.mine"))
    >>> table["set"].value_counts().to_dict(), table.columns.tolist()
    ({'grid': 18, 'far': 4}, ['set', 'i', 'j', 'a', 'b', 'answer'])
    """
    task = tasks.build(given.task, f"problems.{name}.task")
    wanted: list[tuple[str, int, int]] = []
    span = range(1, given.grid + 1)
    wanted += [("grid", i, j) for i in span for j in span for _ in range(given.each)]
    wanted += [("equal", i, i) for i in span for _ in range(given.equal)]
    wanted += [("far", far.digits, far.digits) for far in given.far for _ in range(far.each)]
    tables = []
    for kind in ("grid", "equal", "far"):  # apart, so that one does not move another's problems
        lengths = torch.tensor([[i, j] for of, i, j in wanted if of == kind])
        if len(lengths):
            tables.append(_table(kind, task.sample(lengths, stream(0, "problems", name, kind))))
    if given.draw:
        drawn = task.draw(given.draw, given.digits, stream(0, "problems", name, "draw"))
        tables.append(_table("draw", drawn))
    return pd.concat(tables, ignore_index=True)


def _table(kind: str, problems: Problems) -> pd.DataFrame:
    numbers = [*problems.operands.unbind(1), problems.answer]
    lengths = [*problems.lengths.unbind(1), problems.answer_length]
    texts = [_texts(*pair) for pair in zip(numbers, lengths, strict=True)]
    i, j = problems.lengths.T.tolist()
    columns = {"set": kind, "i": i, "j": j, "a": texts[0], "b": texts[1], "answer": texts[2]}
    return pd.DataFrame(columns)


def _texts(digits: torch.Tensor, length: torch.Tensor) -> list[str]:
    whole = (digits.flip(1) + ord("0")).to(torch.uint8).numpy().tobytes().decode()
    width = digits.shape[1]
    return [whole[(row + 1) * width - n : (row + 1) * width] for row, n in enumerate(length)]


def write(name: str, profile: str) -> Path:
    """Draw a problem set and keep it as Parquet."""
    path = paths.data(profile, "problems", f"{name}.parquet")
    with paths.atomically(path) as draft:
        draw(name, load(name, profile)).to_parquet(draft, index=False)
    return path


def read_table(profile: str, name: str) -> pd.DataFrame:
    """Return a problem set that the pipeline drew, as a table."""
    if profile == "notebook":  # a notebook by itself draws its few problems afresh
        return draw(name, load(name, profile))
    path = paths.data(profile, "problems", f"{name}.parquet")
    if not path.exists():
        raise SettingsError(
            f"problems.{name}: {paths.shown(path)} is not there; expected the problems stage of "
            f"profile {profile!r} to have run"
        )
    return pd.read_parquet(path)


def to_problems(table: pd.DataFrame, task: tasks.Task) -> Problems:
    """Return the rows of a table as problems, worked out again by the task."""
    return task.solve(*tasks.to_digits(table[["a", "b"]].to_numpy().tolist()))


def read(profile: str, name: str) -> Problems:
    """Return a problem set that the pipeline drew."""
    task = tasks.build(load(name, profile).task, f"problems.{name}.task")
    return to_problems(read_table(profile, name), task)
