"""Weights and what happens inside become tidy tables.

What a row is analysed by is in a profile's `analyses`: the name of a module here, whose
`tables(row, profile)` returns tables by name, and whose `TASK` is the one that it knows. The tables
are kept apart from scores, so that another look at some weights scores nothing again.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pandas as pd

from carry import params, paths, run
from carry.settings import SettingsError, nearest, parts


def chosen(row: str, profile: str) -> ModuleType:
    """Return the module by which a profile has a row analysed.

    >>> chosen("noisy_majority_d32_a16", "notebook").__name__
    'carry.analysis.heads'

    Raises:
        SettingsError: if the profile does not name the row, or names what is not there, or knows
            another task.
    """
    named, known = params.load_profile(profile)["analyses"], parts("carry.analysis")
    if row not in named:
        raise SettingsError(f"analyses: {row!r} is not there, {nearest(row, named)}")
    where, task = f"analyses.{row}: {named[row]!r}", run.load(row, profile).task.get("name")
    if named[row] not in known:
        raise SettingsError(f"{where} is not there, {nearest(named[row], known)}")
    module = importlib.import_module(f"carry.analysis.{named[row]}")
    wanted = getattr(module, "TASK", None)  # some analyse what a notebook makes, and no row
    if wanted != task:
        raise SettingsError(f"{where} does not fit task {task!r}; expected one of {wanted!r}")
    return module


def analyse(row: str, profile: str) -> tuple[Path, dict[str, pd.DataFrame]]:
    """Look into a trained row as its profile says; keep the tables, and return them.

    Raises:
        SettingsError: if the profile does not name the row, or there are no weights.
    """
    found = chosen(row, profile).tables(row, profile)
    folder = paths.reports(profile, "results", profile, paths.ANALYSES, row)
    for name, table in found.items():
        with paths.atomically(folder / f"{name}.parquet") as draft:
            table.to_parquet(draft, index=False)
    return folder, found
