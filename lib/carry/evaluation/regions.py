"""Regions of cells: in distribution, out of distribution, and far out (mcleish2024, section 3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd

from carry.evaluation.intervals import wilson_interval
from carry.experiments.run import Run

REGIONS = ("in distribution", "out of distribution", "far")
LEARNED = 0.95  # least accuracy at its worst trained size of a model that has learned


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


def score_worst_trained_size(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy of each model at its worst trained size, and whether it has learned all.

    A size is the larger of i and j. Those of a row are its cells in distribution: of the trained
    problems, if it has such a set (`trained`), else of the grid, else of equal lengths. Held-out
    problems of a row that trains on a fixed set of problems say what it generalizes to, so they do
    not count. The worst size is the one whose 95% interval ends lowest, since small sizes have few
    problems. A model is said to have `learned` unless this interval is below `LEARNED`.

    Args:
        cells: with the columns `row`, `start`, `seed`, `set`, `region`, `i`, `j`, `n` and `exact`.

    >>> cells = pd.DataFrame({"row": "a", "start": "1", "seed": [0, 0, 1], "set": "grid", "n": 50,
    ...                       "region": [REGIONS[0], REGIONS[1], REGIONS[0]], "i": [1, 9, 1],
    ...                       "j": 2, "exact": [50, 0, 40]})
    >>> score_worst_trained_size(cells)[["seed", "size", "accuracy", "learned"]].values.tolist()
    [[0, 2, 1.0, True], [1, 2, 0.8, False]]
    """
    trained = cells[(cells["region"] == REGIONS[0]) & (cells["set"] != "held out")]
    order = trained["set"].map({"trained": 0, "grid": 1}).fillna(2)
    trained = trained[order == order.groupby(trained["row"]).transform("min")]
    keys = ["row", "start", "seed"]
    sizes = trained.assign(size=trained[["i", "j"]].max(axis=1))
    sizes = sizes.groupby([*keys, "size"], sort=False)[["exact", "n"]].sum().reset_index()
    high = wilson_interval(sizes["exact"], sizes["n"])[1]
    sizes = sizes.assign(accuracy=sizes["exact"] / sizes["n"], learned=high >= LEARNED)
    worst = pd.Series(high, sizes.index).groupby([sizes[key] for key in keys], sort=False).idxmin()
    return sizes.loc[worst].reset_index(drop=True)


def zero_failed_models(
    cells: pd.DataFrame, curves: pd.DataFrame, runs: Mapping[str, Run]
) -> pd.DataFrame:
    """Return cells without a correct answer of models that training failed to halve to one head.

    The thesis counts them so (fraknoi2024, 5.5).

    Args:
        cells: accuracy by lengths.
        curves: learning curves, with the number of remaining `heads` where training halves them.
        runs: the settings of rows; only those with `halving` were to be halved.
    """
    heads = curves.dropna(subset="heads").groupby(["row", "seed"])["heads"].last()
    halved = [row for row, run in runs.items() if run.training.halving]
    failed = heads[(heads > 1) & heads.index.isin(halved, level="row")].index
    is_failed = pd.MultiIndex.from_frame(cells[["row", "seed"]]).isin(failed)
    return cells.assign(
        **{name: cells[name].mask(is_failed, 0) for name in ("exact", "first_right")}
    )
