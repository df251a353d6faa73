"""Analyses of trained rows: weights and activations become result tables.

A profile names the analyses of a row under `analyses`: one module of this package, or a list of
them. Each module declares

    TASK                    the name of the task that it analyses, or `ANY`
    COLUMNS                 the columns of each table, by the table's name and in their order;
                            `level_*` stands for any number of columns `level_1`, `level_2`, ...
    tables(row, profile, report)
                            the tables by name; a table that a row lacks is left out; `report` is
                            called with the share of the work that is done

Tables of analyses have a folder of their own, so that a new analysis scores nothing again.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from carry.config import paths, profiles, run_settings
from carry.config.settings import SettingsError, list_modules, suggest_name
from carry.data import problem_sets
from carry.data.tables import concat_by_name, write_tables
from carry.evaluation import trained_models
from carry.evaluation.regions import refuse_band
from carry.jobs import Job, run_jobs

Report = Callable[..., None]  # called with the share of an analysis that is done, and a note

ANY = "any task"
CONTRACT = ("TASK", "COLUMNS", "tables")


def ignore(share: float, note: str = "") -> None:
    """Ignore a report: the default of `tables`."""


def list_analyses(row: str, profile: str) -> list[str]:
    """Return the names of the analyses that a profile lists for a row.

    >>> list_analyses("noisy_majority_d32_a16", "notebook")
    ['heads']
    """
    by_row = profiles.load_profile(profile)["analyses"]
    if row not in by_row:
        raise SettingsError(f"analyses: unknown row {row!r}, {suggest_name(row, by_row)}")
    return [by_row[row]] if isinstance(by_row[row], str) else list(by_row[row])


def load_analyses(row: str, profile: str) -> list[ModuleType]:
    """Import the analyses that a profile lists for a row.

    >>> [module.__name__ for module in load_analyses("noisy_majority_d32_a16", "notebook")]
    ['carry.analyses.heads']

    Raises:
        SettingsError: for an unknown row or analysis, and for an analysis of another task.
    """
    names, task = list_modules("carry.analyses"), run_settings.load_run(row, profile).task["name"]
    modules = []
    for name in list_analyses(row, profile):
        place = f"analyses.{row}"
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
        modules.append(module)
    return modules


def analyse_study(study: str, profile: str) -> tuple[Path, dict[str, pd.DataFrame]]:
    """Run the analyses of the rows of a study, in parallel; write and return their tables.

    Returns:
        The folder, and the tables by name, of all rows that have them.

    Raises:
        SettingsError: for a study without analyses, for a row without weights, or for an analysis
            that returns other columns than it declares.
    """
    by_row = profiles.load_profile(profile)["analyses"]
    rows = [row for row in run_settings.list_rows(profile, study) if row in by_row]
    if not rows:
        raise SettingsError(f"analyses.{study}: no rows; expected at least one")
    jobs = [job for row in rows for job in list_analysis_jobs(row, profile)]
    places = run_jobs(jobs, paths.jobs_folder(profile, "analyse"), study)
    parts = {
        job.name: {path.stem: pd.read_parquet(path) for path in sorted(place.glob("*.parquet"))}
        for job, place in zip(jobs, places, strict=True)
    }
    for row in rows:
        _check_names({name: part for name, part in parts.items() if name.startswith(f"{row}/")})
    tables, folder = concat_by_name(parts.values()), paths.analyses_folder(profile, study)
    refuse_band(tables, run_settings.load_runs(rows, profile))
    write_tables(tables, folder)
    return folder, tables


def list_analysis_jobs(row: str, profile: str) -> list[Job]:
    """Return the jobs that analyse a row, one for each analysis that the profile lists for it.

    Raises:
        SettingsError: see `load_analyses`; for a row without weights.
    """
    run = run_settings.load_run(row, profile)
    modules = [module.__name__ for module in load_analyses(row, profile)]
    trained_models.find_weights_file(profile, row, 0)
    folder = trained_models.get_weights_folder(profile, row)
    files = {path.name: paths.hash_file(path) for path in sorted(folder.glob("*.safetensors"))}
    questions = problem_sets.hash_questions(problem_sets.read_questions(run))
    inputs = json.dumps([run.model_dump(mode="json"), files, questions])
    snapshots = run.training.steps // (run.training.snapshot_every or run.training.steps)
    return [
        Job(
            name=f"{row}/{module.rpartition('.')[2]}",
            work=run_analysis,
            arguments=(row, profile, module),
            inputs=inputs,
            modules=(module, *run.module_names()),
            cost=float(run.seeds * snapshots),
        )
        for module in modules
    ]


def run_analysis(
    report: Callable[..., None], folder: Path, row: str, profile: str, name: str
) -> None:
    """Run the analysis in the module `name` on a row, and write a file for each of its tables.

    Raises:
        SettingsError: for tables of other columns than the module declares.
    """
    module = importlib.import_module(name)
    tables = module.tables(row, profile, report)
    check_columns(tables, module.COLUMNS, name)
    write_tables(tables, folder)


def _check_names(parts: Mapping[str, Mapping[str, pd.DataFrame]]) -> None:
    """Refuse tables of one name from two analyses of a row."""
    origins: dict[str, str] = {}
    for name, tables in parts.items():
        for table in tables:
            if origins.setdefault(table, name) != name:
                raise SettingsError(
                    f"analyses.{name}: table {table!r} is one of {origins[table]} too; expected "
                    "tables of different names"
                )


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
    row: str,
    profile: str,
    *arguments: Any,
) -> dict[str, pd.DataFrame]:
    """Run `analyse_seed(row, profile, seed, *arguments)` for each seed; join the tables."""
    seeds, parts = run_settings.load_run(row, profile).seeds, []
    for seed in range(seeds):
        parts.append(analyse_seed(row, profile, seed, *arguments))
        report((seed + 1) / seeds)
    return concat_by_name(parts)


def label_table(table: pd.DataFrame, labels: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table with the same value of each label in every line, as its first columns.

    >>> label_table(pd.DataFrame({"n": [1]}), {"row": "mine"}).columns.tolist()
    ['row', 'n']
    """
    return table.assign(**labels)[[*labels, *table.columns]]
