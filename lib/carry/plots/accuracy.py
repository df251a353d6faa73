"""Accuracy by length."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.plots import load, style

START_TITLES = {
    "1": "ids start at 1, as in the papers",
    "best": "at the best single id, on trained lengths",
    "all": "mean of probabilities over all starts",
}
PLAIN_COLOR, CHANGED_COLOR = "#777777", "#b2182b"  # without a change, and with it


@style.use_style
def draw_accuracy_by_length(cells: pd.DataFrame, far: bool = False) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy on operands of equal length: thin lines are seeds, thick lines medians.

    Medians of rows that have not learned their training lengths have hollow marks. Further panels
    show the rows whose accuracy changes with the start of ids.

    Args:
        cells: accuracy by cell.
        far: include the lengths beyond the grid.
    """
    columns = ["row", "start", "seed", "trained", "i", "n", "exact", "accuracy", "low", "high"]
    equal = cells["set"].isin(["equal", "far"] if far else ["equal"]) & (cells["i"] == cells["j"])
    table = cells[equal & cells["start"].isin(START_TITLES)][columns]
    table = table.rename(columns={"i": "digits"})
    changing = _find_rows_that_change(table)
    in_panel = (table["start"] == "1") | table["row"].isin(changing)
    table = table[in_panel].reset_index(drop=True)
    starts = [start for start in START_TITLES if start == "1" or start in set(table["start"])]
    unlearned = load.find_unlearned(cells)
    figure, panels = style.make_panels(len(starts), 3, (4.6, 3.6), sharey=True)
    for axes, start in zip(panels, starts, strict=True):
        part = table[table["start"] == start]
        _shade_training(axes, part)
        for row in load.list_rows(part):
            lines = part[part["row"] == row]
            style.draw_seeds_and_median(axes, lines, row, "digits", "accuracy", unlearned)
        axes.set(title=START_TITLES[start], xlabel="digits of both operands", ylim=(-0.03, 1.03))
        style.format_percent(axes.yaxis)
    panels[0].set_ylabel(f"correct {style.name_problems(load.list_rows(table))}")
    trained = load.find_training_lengths(table)
    style.draw_legend(figure, load.list_rows(table), trained=trained, unlearned=unlearned)
    return figure, table


@style.use_style
def draw_accuracy_with_change(
    cells: pd.DataFrame, pairs: Mapping[str, str], name: str
) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy on operands of equal length, a panel for each row with and without a change.

    Thin lines are seeds, thick lines medians, with hollow marks if the model has not learned its
    training lengths. All ids start at 1, as in the papers.

    Args:
        cells: accuracy by cell.
        pairs: the changed row of each row.
        name: of the change, for the legend.
    """
    rows = [row for row in pairs if {row, pairs[row]} <= set(cells["row"])]
    kept = cells["row"].isin([*rows, *(pairs[row] for row in rows)]) & (cells["start"] == "1")
    table = cells[kept & (cells["set"] == "equal") & (cells["i"] == cells["j"])]
    table = table.rename(columns={"i": "digits"})[
        ["row", "start", "seed", "trained", "digits", "n", "exact", "accuracy", "low", "high"]
    ].reset_index(drop=True)
    unlearned = load.find_unlearned(cells, "1")
    figure, panels = style.make_panels(len(rows), 3, (3.2, 2.8), sharey=True)
    for axes, row in zip(panels, rows, strict=True):
        of_row = table[table["row"].isin([row, pairs[row]])]
        _shade_training(axes, of_row)
        for changed, color in ((row, PLAIN_COLOR), (pairs[row], CHANGED_COLOR)):
            lines, look = of_row[of_row["row"] == changed], {"color": color, "linestyle": "-"}
            names = ("digits", "accuracy")
            style.draw_seeds_and_median(axes, lines, changed, *names, unlearned, **look)
        axes.set(title=style.describe_row(row, unlearned), ylim=(-0.03, 1.03))
        axes.set_xlabel("digits of both operands")
        style.format_percent(axes.yaxis)
    panels[0].set_ylabel(f"correct {style.name_problems(rows)}")
    lines = [Line2D([], [], color=color, lw=2.0) for color in (PLAIN_COLOR, CHANGED_COLOR)]
    figure.legend(lines, ["without", name], loc="outside right center", alignment="left")
    return figure, table


def _find_rows_that_change(table: pd.DataFrame) -> list[str]:
    """Return the rows whose results depend on the start of ids."""
    wide = table.pivot_table(index=["row", "seed", "digits"], columns="start", values="accuracy")
    others = [start for start in wide if start != "1"]
    if "1" not in wide or not others:
        return []
    differs = wide[others].notna() & wide[others].ne(wide["1"], axis=0)
    changes = differs.any(axis=1).groupby("row").any()
    return [row for row in load.list_rows(table) if changes.get(row, False)]


def _shade_training(axes: Axes, table: pd.DataFrame) -> None:
    """Shade the lengths of training; shorter trainings shade theirs twice."""
    shortest = table["digits"].min()
    for trained in sorted(table["trained"].unique()):
        axes.axvspan(shortest, trained, color=style.TRAINED_COLOR, alpha=0.6, zorder=0, linewidth=0)
        text = {"color": "#555555", "fontsize": "small", "ha": "right"}
        axes.text(trained - 0.2, 0.03, f"to {trained}", **text)
    axes.set_xlim(shortest, table["digits"].max())
