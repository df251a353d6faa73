"""Experiments: the rows of the works, a file for each work; your own file is found as well.

`rows` in params.yaml has rows, too (`carry.experiments.own`).
"""

from __future__ import annotations

import importlib
from functools import cache

from carry.config import params
from carry.config.settings import SettingsError, list_modules
from carry.experiments.base import Row
from carry.experiments.own import make_own_rows

# In the order of tables; other files with a list `ROWS` follow.
FILES = ("mcleish2024", "cho2025", "fraknoi2024", "ibrahimli2024", "every_length", "one_pass",
         "ablations")
PARTS = ("base", "run", "problems", "resolve", "own")  # what experiments are made of


def load_rows() -> dict[str, Row]:
    """Return all rows by name, in the order of the experiment files; then those of params.yaml.

    >>> load_rows()["addition_relative"].study
    'addition_schemes'

    Raises:
        SettingsError: for two rows of one name, and an entry of params.yaml that makes no row.
    """
    rows = _load_files()
    return rows | make_own_rows(params.load_params().rows, rows)


@cache
def _load_files() -> dict[str, Row]:
    """Return the rows of the experiment files."""
    rows: dict[str, Row] = {}
    files = list_modules("carry.experiments")
    others = [file for file in files if file not in FILES + PARTS]
    for file in (*FILES, *others):
        for row in importlib.import_module(f"carry.experiments.{file}").ROWS:
            if row.name in rows:
                raise SettingsError(f"{file}: row {row.name!r} exists; expected a new name")
            rows[row.name] = row
    return rows
