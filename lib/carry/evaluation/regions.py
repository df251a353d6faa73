"""Regions of cells: in distribution, out of distribution, and far out (mcleish2024, section 3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd

REGIONS = ("in distribution", "out of distribution", "far")


def add_region(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the table with a column `region`, from its columns `set`, `i`, `j` and `trained`.

    In distribution both operands are at most as long as in training; out of distribution at least
    one is longer, within the grid; far cells are beyond the grid.

    >>> cells = pd.DataFrame({"set": ["grid", "grid", "far"], "i": [3, 3, 90], "j": [9, 11, 90]})
    >>> add_region(cells.assign(trained=10))["region"].tolist()
    ['in distribution', 'out of distribution', 'far']
    """
    inside = cells[["i", "j"]].max(axis=1) <= cells["trained"]
    region = np.where(cells["set"] == "far", "far", np.where(inside, *REGIONS[:2]))
    return cells.assign(region=region)


def add_unseen_regions(cells: pd.DataFrame, lengths: Mapping[str, Collection[int]]) -> pd.DataFrame:
    """Return the table with other regions for rows that are trained on some lengths only.

    An untrained length is "interpolation" below the longest trained length, and "extrapolation"
    above it (ibrahimli2024, 4.2.2).

    Args:
        cells: with the columns `region`, `row`, `i` and `trained`.
        lengths: the trained lengths of each of these rows.

    >>> cells = pd.DataFrame({"row": "gap", "region": "", "i": [4, 5, 6, 7], "trained": 6})
    >>> add_unseen_regions(cells, {"gap": [1, 2, 3, 4, 6]})["region"].tolist()
    ['in distribution', 'interpolation', 'in distribution', 'extrapolation']
    """
    region = cells["region"].copy()
    for row, trained in lengths.items():
        part = cells[cells["row"] == row]
        unseen = np.where(part["i"] < part["trained"], "interpolation", "extrapolation")
        region[part.index] = np.where(part["i"].isin(trained), REGIONS[0], unseen)
    return cells.assign(region=region)
