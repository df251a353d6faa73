"""Learning curves: training loss and held-out exact match by training step."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from carry.plots import load, style

PANELS = {"loss": "training loss", "exact": "correct held-out problems"}


@style.use_style
def draw_learning_curves(curves: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw loss and held-out exact match by step; a median ends where the first seed stops."""
    table = curves[["row", "seed", "step", *PANELS]].reset_index(drop=True)
    figure, panels = style.make_panels(2, 2, (4.6, 3.6))
    for axes, (column, title) in zip(panels, PANELS.items(), strict=True):
        for row in load.list_rows(table):
            part = table[table["row"] == row].dropna(subset=[column])
            style.draw_seeds_and_median(axes, part, row, "step", column)
        axes.set(title=title, xlabel="training step")
    panels[0].set_yscale("log")
    panels[1].set_ylim(-0.03, 1.03)
    style.format_percent(panels[1].yaxis)
    style.draw_legend(figure, load.list_rows(table))
    return figure, table
