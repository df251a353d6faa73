"""Accuracy by learning rate."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from carry.evaluation.regions import REGIONS, add_region
from carry.plots import load, style


@style.use_style
def draw_accuracy_by_learning_rate(
    cells: pd.DataFrame, families: dict[str, str]
) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by learning rate: means over seeds with intervals, seeds as dots.

    All rows have one start of ids (`load.choose_starts`).

    Args:
        cells: accuracy by cell, with the learning `rate` of each row.
        families: the row whose style each row has; rows of one family differ in their rate.
    """
    starts = load.choose_starts(cells)
    unlearned = load.find_unlearned(cells, starts)
    cells = add_region(load.select_start(cells, starts))
    cells = cells[cells["set"] == "grid"]
    cells = cells.assign(family=cells["row"].map(families))
    table = load.score_seeds(cells, ["region", "family", "row", "rate", "trained"])
    regions, rows = REGIONS[:2], list(dict.fromkeys(cells["family"]))
    figure, panels = style.make_panels(len(regions), 2, (3.4, 3.2), sharey=True)
    for axes, region in zip(panels, regions, strict=True):
        for number, row in enumerate(rows):
            part = table[(table["region"] == region) & (table["family"] == row)]
            factor = 1.04 ** (number - (len(rows) - 1) / 2)  # moves equal values apart
            style.draw_mean_and_seeds(axes, part.assign(at=part["rate"] * factor), row, unlearned)
        rates = sorted(table["rate"].unique())
        axes.set(title=region, ylim=(-0.03, 1.03), xscale="log", xlabel="learning rate")
        axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
        axes.set_xticks([], minor=True)
        style.format_percent(axes.yaxis)
    from_start = load.describe_starts(starts.values())
    panels[0].set_ylabel(f"correct {style.name_problems(rows)}{from_start}")
    style.draw_legend(figure, rows)
    return figure, table
