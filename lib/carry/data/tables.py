"""Tables in Parquet files: a file that cannot be read is refused with one line."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow

from carry.config import paths
from carry.config.settings import SettingsError


def read_parquet(path: Path, where: str, remedy: str) -> pd.DataFrame:
    """Read a table that the pipeline has written.

    Args:
        where: the first words of an error, as `problems.addition`.
        remedy: how the file is made again, as "the problems stage of profile 'cpu' to run again".

    Raises:
        SettingsError: for a file that is missing, truncated or otherwise damaged.
    """
    if not path.is_file():
        state = "is missing"
    else:
        try:
            return pd.read_parquet(path)
        except (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
            state = f"cannot be read ({type(error).__name__})"
    raise SettingsError(f"{where}: {paths.display_path(path)} {state}; expected {remedy}")
