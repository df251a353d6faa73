"""Schemes on one footing: accuracy by learning rate, all else alike."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from carry.evaluation.intervals import pool_cells
from carry.evaluation.regions import REGIONS, add_region
from carry.plots import load, style


@style.styled
def by_rate(cells: pd.DataFrame, families: dict[str, str]) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by learning rate: all seeds with Wilson's interval (95%), seeds as dots.

    Each row starts where it does better in distribution.

    Args:
        cells: accuracy by cell, with the learning `rate` of each row.
        families: for each row the one whose look it has, which is the same at other rates.
    """
    cells = add_region(load.at_start(cells, load.starts(cells)))
    cells = cells[cells["set"] == "grid"].assign(family=lambda of: of["row"].map(families))
    parts = [cells.assign(seed=cells["seed"].astype(str)), cells.assign(seed="all")]
    table = pool_cells(pd.concat(parts), ["region", "family", "row", "rate", "trained", "seed"])
    places, names = REGIONS[:2], list(dict.fromkeys(cells["family"]))
    figure, drawn = style.panels(len(places), 2, (3.4, 3.2), sharey=True)
    for axes, place in zip(drawn, places, strict=True):
        for number, name in enumerate(names):
            part = table[(table["region"] == place) & (table["family"] == name)]
            aside = 1.04 ** (number - (len(names) - 1) / 2)  # so that equal values stay apart
            style.all_and_seeds(axes, part.assign(at=part["rate"] * aside), name)
        rates = sorted(table["rate"].unique())
        axes.set(title=place, ylim=(-0.03, 1.03), xscale="log", xlabel="learning rate")
        axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
        axes.set_xticks([], minor=True)
        style.percent(axes.yaxis)
    drawn[0].set_ylabel("sums wholly right")
    style.legend(figure, names)
    return figure, table
