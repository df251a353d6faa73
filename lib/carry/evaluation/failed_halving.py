"""Models that were to be halved to one head, and were not (fraknoi2024, 5.5)."""

from __future__ import annotations

import pandas as pd

from carry.config import run_settings


def without_failed(cells: pd.DataFrame, curves: pd.DataFrame | None, profile: str) -> pd.DataFrame:
    """Return cells where such a model has nothing right, as the thesis counts it.

    Args:
        curves: learning curves, whose `heads` say how many were left.
    """
    if curves is None or "heads" not in curves:
        return cells
    left = curves.dropna(subset="heads").groupby(["row", "seed"])["heads"].last()
    failed = {
        pair
        for pair in left[left > 1].index
        if run_settings.load_run(pair[0], profile).training.halving
    }
    lost = pd.MultiIndex.from_frame(cells[["row", "seed"]]).isin(failed)
    right = {name: cells[name].mask(lost, 0) for name in ("exact", "first_right")}
    return cells.assign(**right)
