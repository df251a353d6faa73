"""Experiments: the rows of the works, a file for each work; a file of your own is found as well."""

from __future__ import annotations

import importlib
from functools import cache

from carry.config.settings import SettingsError, list_modules
from carry.experiments.base import Row

# In the order of tables; other files with a list `ROWS` follow.
FILES = ("mcleish2024", "cho2025", "fraknoi2024", "ibrahimli2024", "every_length", "one_pass",
         "ablations")
PARTS = ("base", "run", "problems", "resolve")  # what experiments are made of


@cache
def load_rows() -> dict[str, Row]:
    """Return all rows by name, in the order of the experiment files.

    >>> load_rows()["addition_relative"].study
    'addition_schemes'

    Raises:
        SettingsError: for two rows of one name.
    """
    rows: dict[str, Row] = {}
    files = list_modules("carry.experiments")
    others = [file for file in files if file not in FILES + PARTS]
    for file in (*FILES, *others):
        for row in importlib.import_module(f"carry.experiments.{file}").ROWS:
            if row.name in rows:
                raise SettingsError(f"{file}: row {row.name!r} exists; expected a new name")
            rows[row.name] = row
    return rows
