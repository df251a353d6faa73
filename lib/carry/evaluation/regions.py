"""Which cells lie in distribution, out of it, and far out (mcleish2024, section 3)."""

from __future__ import annotations

import numpy as np
import pandas as pd

REGIONS = ("in distribution", "out of distribution", "far")


def with_region(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the table with a column `region`, from its columns `set`, `i`, `j` and `trained`.

    In distribution both operands are as short as in training; out of distribution at least one is
    longer, within the grid; far are the equal lengths beyond it.

    >>> cells = pd.DataFrame({"set": ["grid", "grid", "far"], "i": [3, 3, 90], "j": [9, 11, 90]})
    >>> with_region(cells.assign(trained=10))["region"].tolist()
    ['in distribution', 'out of distribution', 'far']
    """
    inside = cells[["i", "j"]].max(axis=1) <= cells["trained"]
    region = np.where(cells["set"] == "far", "far", np.where(inside, *REGIONS[:2]))
    return cells.assign(region=region)
