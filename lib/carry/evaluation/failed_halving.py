"""Models that training should have halved to one head, but did not (fraknoi2024, 5.5)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from carry.experiments.run import Run


def zero_failed_models(
    cells: pd.DataFrame, curves: pd.DataFrame, runs: Mapping[str, Run]
) -> pd.DataFrame:
    """Return cells with zero correct answers for each failed model, as the thesis counts it.

    Args:
        cells: accuracy by lengths.
        curves: learning curves; their `heads` are the numbers of remaining heads, missing where
            training does not halve them.
        runs: the settings of rows; only those with `halving` were to be halved.
    """
    heads = curves.dropna(subset="heads").groupby(["row", "seed"])["heads"].last()
    failed = {
        (row, seed)
        for row, seed in heads[heads > 1].index
        if row in runs and runs[row].training.halving
    }
    is_failed = pd.MultiIndex.from_frame(cells[["row", "seed"]]).isin(failed)
    return cells.assign(
        **{name: cells[name].mask(is_failed, 0) for name in ("exact", "first_right")}
    )
