"""Learning curves: loss, and held-out exact match in distribution, by training step."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from carry.plots import load, style

PANELS = {"loss": "training loss", "exact": "held-out problems wholly right"}


@style.styled
def by_step(curves: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw loss and held-out score by step; a median ends where the first seed has stopped."""
    table = curves[["row", "seed", "step", *PANELS]].reset_index(drop=True)
    figure, drawn = style.panels(2, 2, (4.6, 3.6))
    for axes, (column, title) in zip(drawn, PANELS.items(), strict=True):
        for row in load.rows(table):
            part = table[table["row"] == row].dropna(subset=[column])
            style.seeds_and_median(axes, part, row, "step", column)
        axes.set(title=title, xlabel="training step")
    drawn[0].set_yscale("log")
    drawn[1].set_ylim(-0.03, 1.03)
    style.percent(drawn[1].yaxis)
    style.legend(figure, load.rows(table))
    return figure, table
