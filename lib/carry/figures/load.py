"""Read what evaluation has written, all rows of a profile in one table."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from carry import paths, run
from carry.evaluation.regions import REGIONS, with_region
from carry.settings import SettingsError


class Tables(NamedTuple):
    """The result tables of a profile: cells of lengths, places of digits, learning curves."""

    cells: pd.DataFrame
    places: pd.DataFrame
    curves: pd.DataFrame


def tables(profile: str) -> Tables:
    """Return the result tables of all rows of a profile.

    Raises:
        SettingsError: for the first file that is not there.
    """
    return Tables(*(read(profile, name) for name in Tables._fields))


def read(profile: str, name: str) -> pd.DataFrame:
    """Return one table (`cells`, `places` or `curves`) of all rows that a profile names.

    The rows come from the profile, since a row that is gone may have left its files behind.
    """
    parts = []
    for row in run.rows(profile):
        path = paths.reports(profile, "results", profile, row, f"{name}.parquet")
        if not path.exists():
            raise SettingsError(
                f"results.{row}: {paths.shown(path)} is not there; expected the evaluate stage "
                f"of profile {profile!r} to have run"
            )
        parts.append(pd.read_parquet(path))
    if not parts:
        raise SettingsError(f"rows: profile {profile!r} has none; expected at least one")
    return pd.concat(parts, ignore_index=True)


def rows(table: pd.DataFrame) -> list[str]:
    """Return the rows of a table in the order of the profile."""
    return list(table["row"].unique())


def starts(cells: pd.DataFrame) -> dict[str, str]:
    """Return for each row the start that serves it better in distribution, 1 where they tie.

    What lies beyond the training lengths has no say, or it would be chosen by what it measures.
    """
    cells = with_region(cells)
    known = cells[(cells["set"] == "grid") & (cells["region"] == REGIONS[0])]
    right = known.groupby(["row", "start"])["exact"].sum()
    chosen = {}
    for row in rows(cells):
        of = right.get(row, pd.Series(dtype=float))
        chosen[row] = "middle" if of.get("middle", -1) > of.get("1", -1) else "1"
    return chosen


def at_start(table: pd.DataFrame, start: str | dict[str, str]) -> pd.DataFrame:
    """Return what was measured from one start, or from each row's own (as `starts` gives them)."""
    wanted = table["row"].map(start) if isinstance(start, dict) else start
    return table[table["start"] == wanted]
