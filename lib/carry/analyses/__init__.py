"""Analyses of trained rows: weights and activations become result tables.

A profile names the analyses of a row under `analyses`: one module of this package, or a list of
them. Each module declares

    TASK                    the name of the task that it analyses, or `ANY`
    COLUMNS                 the columns of each table, by the table's name and in their order;
                            `level_*` stands for any number of columns `level_1`, `level_2`, ...
    tables(row, profile)    the tables by name; a table that a row lacks is left out

Tables of analyses have a folder of their own, so that a new analysis scores nothing again.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from carry import processes, progress
from carry.config import paths, profiles, run_settings
from carry.config.settings import SettingsError, list_modules, suggest_name

ANY = "any task"
CONTRACT = ("TASK", "COLUMNS", "tables")


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


def analyse_row(row: str, profile: str) -> tuple[Path, dict[str, pd.DataFrame]]:
    """Run the analyses of a trained row; write their tables, and return the folder and the tables.

    Raises:
        SettingsError: if the profile lists no analysis for the row, if the row has no weights, or
            if an analysis returns other columns than it declares.
    """
    tables: dict[str, pd.DataFrame] = {}
    for module in load_analyses(row, profile):
        new = module.tables(row, profile)
        check_columns(new, module.COLUMNS, module.__name__)
        repeated = sorted({*tables} & {*new})
        if repeated:
            raise SettingsError(
                f"analyses.{row}: {module.__name__} returns table {repeated[0]!r}, as an earlier "
                "analysis does; expected tables of different names"
            )
        tables |= new
    folder = paths.reports_path(profile, "results", profile, paths.ANALYSES, row)
    for name, table in tables.items():
        with paths.write_atomically(folder / f"{name}.parquet") as draft:
            table.to_parquet(draft, index=False)
    return folder, tables


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
    analyse_seed: Callable[..., dict[str, pd.DataFrame]],
    row: str,
    profile: str,
    *arguments: Any,
    updates: int = 1,
) -> dict[str, pd.DataFrame]:
    """Run `analyse_seed(report, row, profile, seed, *arguments)` for each seed; join the tables.

    Args:
        updates: how many steps of the progress bar each seed reports.
    """
    seeds = run_settings.load_run(row, profile).seeds
    jobs = [(row, profile, seed, *arguments) for seed in range(seeds)]
    with progress.progress_bar(len(jobs) * updates, row, unit="seed") as bar:
        return join_tables(processes.run_jobs(analyse_seed, jobs, bar.update))


def join_tables(parts: Iterable[Mapping[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """Concatenate tables of the same name; a part may lack a table.

    >>> parts = [{"a": pd.DataFrame({"n": [1]})}, {"a": pd.DataFrame({"n": [2]})}]
    >>> join_tables(parts)["a"]["n"].tolist()
    [1, 2]
    """
    by_name: dict[str, list[pd.DataFrame]] = {}
    for tables in parts:
        for name, table in tables.items():
            by_name.setdefault(name, []).append(table)
    return {name: pd.concat(tables, ignore_index=True) for name, tables in by_name.items()}


def label_table(table: pd.DataFrame, labels: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table with the same value of each label in every line, as its first columns.

    >>> label_table(pd.DataFrame({"n": [1]}), {"row": "mine"}).columns.tolist()
    ['row', 'n']
    """
    return table.assign(**labels)[[*labels, *table.columns]]
