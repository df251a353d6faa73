"""Analyses of trained runs: weights and activations become result tables.

A run names its analyses under `analyses`: modules of this package. Each module declares

    TASK                    the name of the task that it analyses, or `ANY`
    COLUMNS                 the columns of each table, by the table's name and in their order;
                            `level_*` stands for any number of columns `level_1`, `level_2`, ...
    tables(run, report)     the tables by name; a table that a run lacks is left out; `report` is
                            called with the share of the work that is done

Analyses are jobs of their own, so that a new analysis scores nothing again.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from carry.config import paths
from carry.config.settings import SettingsError, list_modules, suggest_name
from carry.data import problem_sets
from carry.data.tables import concat_by_name, write_tables
from carry.evaluation import trained_models
from carry.evaluation.regions import refuse_band
from carry.experiments.run import Run
from carry.jobs import Job, run_jobs
from carry.models.identity import identify

Report = Callable[..., None]  # called with the share of an analysis that is done, and a note

ANY = "any task"
CONTRACT = ("TASK", "COLUMNS", "tables")


def ignore(share: float, note: str = "") -> None:
    """Ignore a report: the default of `tables`."""


def load_analyses(run: Run) -> list[ModuleType]:
    """Import the analyses of a run.

    >>> run = Run(name="mine", analyses=["subtasks"])
    >>> [module.__name__ for module in load_analyses(run)]
    ['carry.analyses.subtasks']

    Raises:
        SettingsError: for an unknown analysis, for one of another task, and for modules that break
            the contract or declare the same table.
    """
    names, task, place = list_modules("carry.analyses"), run.task["name"], f"analyses.{run.name}"
    modules, origins = [], dict[str, str]()
    for name in run.analyses:
        if name not in names:
            raise SettingsError(f"{place}: unknown analysis {name!r}, {suggest_name(name, names)}")
        module = importlib.import_module(f"carry.analyses.{name}")
        missing = [member for member in CONTRACT if not hasattr(module, member)]
        if missing:
            raise SettingsError(f"{place}: {module.__name__} has no {missing[0]}; expected "
                                f"{', '.join(CONTRACT)}")  # fmt: skip
        if module.TASK not in (task, ANY):
            raise SettingsError(
                f"{place}: {name!r} does not fit task {task!r}; expected {module.TASK!r}"
            )
        for table in module.COLUMNS:
            if origins.setdefault(table, name) != name:
                raise SettingsError(
                    f"{place}: table {table!r} of {name!r} is one of {origins[table]!r} too; "
                    "expected tables of different names"
                )
        modules.append(module)
    return modules


def analyse_runs(runs: Sequence[Run], label: str = "") -> dict[str, pd.DataFrame]:
    """Run the analyses of runs, in parallel; keep what is analysed already.

    Returns:
        The tables by name, of all runs that have them.

    Raises:
        SettingsError: see `list_analysis_jobs`; for an analysis that returns other columns than it
            declares, and for scores that `regions.refuse_band` refuses.
    """
    jobs = [(run, job) for run in runs for job in list_analysis_jobs(run)]
    places = run_jobs([job for _, job in jobs], label or runs[0].name)
    tables = concat_by_name(
        {
            path.stem: pd.read_parquet(path).assign(row=run.name, scale=run.scale)
            for path in sorted(place.glob("*.parquet"))
        }
        for (run, _), place in zip(jobs, places, strict=True)
    )
    refuse_band(tables, runs)
    return tables


def list_analysis_jobs(run: Run) -> list[Job]:
    """Return the jobs that analyse a run, one for each of its analyses.

    Raises:
        SettingsError: see `load_analyses`; for a run without the weights of a seed.
    """
    modules = [module.__name__ for module in load_analyses(run)]
    if not modules:
        return []
    find = (trained_models.find_weights, trained_models.find_snapshots)
    files = [find_file(run, seed) for seed in range(run.seeds) for find_file in find]
    hashes = [paths.hash_file(file) for file in files if file.exists()]
    scored = run.evaluation.model_dump(mode="json", exclude_defaults=True)
    questions = problem_sets.hash_questions(problem_sets.load_questions(run))
    inputs = json.dumps([identify(run), scored, questions, hashes], sort_keys=True)
    snapshots = run.training.steps // (run.training.snapshot_every or run.training.steps)
    return [
        Job(
            name=f"{run.name}, {module.rpartition('.')[2]}",
            kind="analyse",
            work=run_analysis,
            arguments=(run, module),
            inputs=inputs,
            modules=(module, *run.module_names()),
            cost=float(run.seeds * snapshots),
        )
        for module in modules
    ]


def run_analysis(report: Callable[..., None], folder: Path, run: Run, name: str) -> None:
    """Analyse a run with the module `name`, and write a file for each of its tables.

    Raises:
        SettingsError: for tables of other columns than the module declares.
    """
    module = importlib.import_module(name)
    tables = module.tables(run, report)
    check_columns(tables, module.COLUMNS, name)
    write_tables(tables, folder)


def check_columns(
    tables: Mapping[str, pd.DataFrame], declared: Mapping[str, Iterable[str]], module: str
) -> None:
    """Refuse tables whose names or columns are not those that a module declares.

    >>> check_columns({"counts": pd.DataFrame({"n": [1]})}, {"counts": ("n", "exact")}, "mine")
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: mine.COLUMNS['counts']: n, exact; but the table has n

    Raises:
        SettingsError: for the first such table.
    """
    for name, table in tables.items():
        if name not in declared:
            raise SettingsError(
                f"{module}.COLUMNS: table {name!r} is missing; expected all tables of the module"
            )
        columns = list(table.columns)
        if columns != expand_columns(declared[name], columns):
            raise SettingsError(f"{module}.COLUMNS[{name!r}]: {', '.join(declared[name])}; but "
                                f"the table has {', '.join(map(str, columns))}")  # fmt: skip


def expand_columns(declared: Iterable[str], columns: Iterable[str] = ()) -> list[str]:
    """Return declared columns, with each `name_*` replaced by the matching ones of `columns`.

    >>> expand_columns(["token", "level_*", "n"], ["token", "level_1", "level_2", "n"])
    ['token', 'level_1', 'level_2', 'n']
    """
    columns, expanded = list(columns), []
    for name in declared:
        if name.endswith("*"):
            expanded += [column for column in columns if column.startswith(name[:-1])]
        else:
            expanded.append(name)
    return expanded


def analyse_seeds(
    report: Report,
    analyse_seed: Callable[..., dict[str, pd.DataFrame]],
    run: Run,
    *arguments: Any,
) -> dict[str, pd.DataFrame]:
    """Return the tables of `analyse_seed(system, *arguments)` for the model of each seed, joined.

    Raises:
        SettingsError: for a run without the weights of a seed.
    """
    parts = []
    for seed in range(run.seeds):
        parts.append(analyse_seed(trained_models.load_seed(run, seed), *arguments))
        report((seed + 1) / run.seeds)
    return concat_by_name(parts)


def label_table(table: pd.DataFrame, labels: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table with the same value of each label in every line, as its first columns.

    >>> label_table(pd.DataFrame({"n": [1]}), {"row": "mine"}).columns.tolist()
    ['row', 'n']
    """
    return table.assign(**labels)[[*labels, *table.columns]]
