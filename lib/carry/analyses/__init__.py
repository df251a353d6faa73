"""Weights and what happens inside become tidy tables.

What a row is analysed by is in a profile's `analyses`: the name of a module here, or a list of
them, whose `tables(row, profile)` returns tables by name, and whose `TASK` is the one that it
knows, or `ANY`. The tables are kept apart from scores, so that another look at some weights scores
nothing again.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pandas as pd

from carry.config import paths, profiles, run_settings
from carry.config.settings import SettingsError, list_modules, suggest_name

ANY = "any task"


def names(row: str, profile: str) -> list[str]:
    """Return the modules that a profile names for a row.

    >>> names("noisy_majority_d32_a16", "notebook")
    ['heads']
    """
    named = profiles.load_profile(profile)["analyses"]
    if row not in named:
        raise SettingsError(f"analyses: {row!r} is not there, {suggest_name(row, named)}")
    return [named[row]] if isinstance(named[row], str) else list(named[row])


def chosen(row: str, profile: str) -> list[ModuleType]:
    """Return the modules by which a profile has a row analysed.

    >>> [module.__name__ for module in chosen("noisy_majority_d32_a16", "notebook")]
    ['carry.analyses.heads']

    Raises:
        SettingsError: if the profile does not name the row, or names what is not there, or knows
            another task.
    """
    known, task = (
        list_modules("carry.analyses"),
        run_settings.load_run(row, profile).task.get("name"),
    )
    found = []
    for name in names(row, profile):
        where = f"analyses.{row}: {name!r}"
        if name not in known:
            raise SettingsError(f"{where} is not there, {suggest_name(name, known)}")
        module = importlib.import_module(f"carry.analyses.{name}")
        wanted = getattr(module, "TASK", None)  # some analyse what a notebook makes, and no row
        if wanted not in (task, ANY):
            raise SettingsError(f"{where} does not fit task {task!r}; expected one of {wanted!r}")
        found.append(module)
    return found


def analyse(row: str, profile: str) -> tuple[Path, dict[str, pd.DataFrame]]:
    """Look into a trained row as its profile says; keep the tables, and return them.

    Raises:
        SettingsError: if the profile does not name the row, or there are no weights.
    """
    found: dict[str, pd.DataFrame] = {}
    for module in chosen(row, profile):
        found |= module.tables(row, profile)
    folder = paths.reports_path(profile, "results", profile, paths.ANALYSES, row)
    for name, table in found.items():
        with paths.write_atomically(folder / f"{name}.parquet") as draft:
            table.to_parquet(draft, index=False)
    return folder, found
