"""Tables in Parquet files, one for each table of a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd
import pyarrow

from carry.config import paths
from carry.config.settings import SettingsError

# A start of ids that earlier evaluations had besides the others: an id for each model, chosen on
# held-out problems. It was no better than start 1, so nothing evaluates or reads it any more.
FORMER_START = "best"


def read_parquet(path: Path, where: str, remedy: str) -> pd.DataFrame:
    """Read a table that the pipeline has written, without the lines of `FORMER_START`.

    Args:
        where: the first words of an error, as `problems.addition`.
        remedy: how the file is made again, as "it to be drawn again".

    Raises:
        SettingsError: for a file that is missing, truncated or otherwise damaged.
    """
    if not path.is_file():
        state = "is missing"
    else:
        try:
            return _leave_out_former_start(pd.read_parquet(path))
        except (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
            state = f"cannot be read ({type(error).__name__})"
    raise SettingsError(f"{where}: {paths.display_path(path)} {state}; expected {remedy}")


def _leave_out_former_start(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table without the lines of `FORMER_START`, of rows that have another start.

    Earlier tables by recurrence had one start only. They keep it until they are made again.
    """
    former = table.get("start", pd.Series(dtype=object)) == FORMER_START
    if not former.any():
        return table
    return table[~(former & table["row"].isin(table.loc[~former, "row"]))]


def write_tables(tables: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """Write each table as `NAME.parquet`, and remove the tables of earlier settings."""
    for path in folder.glob("*.parquet"):
        if path.stem not in tables:
            path.unlink()
    for name, table in tables.items():
        write_table(table, folder / f"{name}.parquet")


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as a Parquet file; its categories become text.

    Without the notes of pandas and Arrow and the statistics of columns, which are 5,000 bytes of a
    small table, columns have the same types when they are read.
    """
    with paths.write_atomically(path) as draft:
        table.to_parquet(
            draft,
            index=False,
            compression="zstd",
            compression_level=12,
            store_schema=False,
            write_statistics=False,
        )


def concat_by_name(parts: Iterable[Mapping[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """Concatenate tables of the same name; a part may lack a table.

    >>> parts = [{"a": pd.DataFrame({"n": [1]})}, {"a": pd.DataFrame({"n": [2]})}]
    >>> concat_by_name(parts)["a"]["n"].tolist()
    [1, 2]
    """
    by_name: dict[str, list[pd.DataFrame]] = {}
    for tables in parts:
        for name, table in tables.items():
            by_name.setdefault(name, []).append(table)
    return {name: pd.concat(tables, ignore_index=True) for name, tables in by_name.items()}
