"""How far each scheme goes: accuracy by length."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carry.plots import load, style

START = {"1": "ids start at 1, as in the papers", "middle": "ids start mid-table"}


@style.styled
def by_length(cells: pd.DataFrame, far: bool = False) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy on operands of equal length: thin lines are seeds, thick ones their median.

    A second panel shows the rows that a start in the middle of the id table changes.

    Args:
        cells: accuracy by cell.
        far: go on to the lengths beyond the grid.
    """
    columns = ["row", "start", "seed", "trained", "i", "n", "exact", "accuracy", "low", "high"]
    equal = cells["set"].isin(["equal", "far"] if far else ["equal"]) & (cells["i"] == cells["j"])
    table = cells[equal][columns].rename(columns={"i": "digits"})
    moved = _moved(table)
    table = table[(table["start"] == "1") | table["row"].isin(moved)].reset_index(drop=True)
    shown = ["1", "middle"] if moved else ["1"]
    figure, drawn = style.panels(len(shown), 2, (4.6, 3.6), sharey=True)
    for axes, start in zip(drawn, shown, strict=True):
        here = table[table["start"] == start]
        _shade(axes, here)
        for row in load.rows(here):
            style.seeds_and_median(axes, here[here["row"] == row], row, "digits", "accuracy")
        axes.set(title=START[start], xlabel="digits of both operands", ylim=(-0.03, 1.03))
        style.percent(axes.yaxis)
    drawn[0].set_ylabel(f"{style.problems(load.rows(table))} wholly right")
    style.legend(figure, load.rows(table), trained=load.lengths(table))
    return figure, table


def _moved(table: pd.DataFrame) -> list[str]:
    """Return the rows whose results change with the start."""
    wide = table.pivot_table(index=["row", "seed", "digits"], columns="start", values="exact")
    if not {"1", "middle"} <= set(wide):
        return []
    other = wide["middle"].notna() & (wide["middle"] != wide["1"])
    changed = other.groupby("row").any()
    return [row for row in load.rows(table) if changed.get(row, False)]


def _shade(axes: Axes, table: pd.DataFrame) -> None:
    """Shade the lengths of training; rows that were trained to fewer digits shade theirs again."""
    shortest = table["digits"].min()
    for trained in sorted(table["trained"].unique()):
        axes.axvspan(shortest, trained, color=style.SHADE, alpha=0.6, zorder=0, linewidth=0)
        axes.text(
            trained - 0.2, 0.03, f"to {trained}", color="#555555", fontsize="small", ha="right"
        )
    axes.set_xlim(shortest, table["digits"].max())
