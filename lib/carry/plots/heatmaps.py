"""Accuracy for every pair of sizes, one panel a row."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from carry.plots import load, style

COLUMNS = 5
NUMBERS = ("digits of the first operand, i", "digits of the second operand, j")
KEYS = ["row", "start", "trained", "i", "j"]
# What a cell shows of its seeds: the column, what its bar says, and its colours.
SHOWN = {
    "mean": ("accuracy", "{} wholly right", "viridis"),
    "median": ("median", "{} wholly right", "viridis"),
    "spread": ("spread", "best seed less worst", "magma"),
}


@style.styled
def by_lengths(
    cells: pd.DataFrame,
    start: str | None = None,
    columns: int = COLUMNS,
    shown: Literal["mean", "median", "spread"] = "mean",
    sizes: tuple[str, str] = NUMBERS,
    titles: Mapping[str, str] | None = None,
    without: Mapping[str, str] | None = None,
) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by sizes (i, j), upwards and to the right, the sizes of training framed.

    Args:
        cells: accuracy by cell.
        start: "1" or "middle"; if not given, each row's better one in distribution.
        columns: how many panels stand side by side.
        shown: of the seeds; with the median each panel names its worst cell.
        sizes: what i and j are.
        titles: of rows that are not to be called by their names.
        without: panels at the end that have no row, by title; why they have none.
    """
    grid = cells[cells["set"] == "grid"]
    grid = load.at_start(grid, start or load.starts(cells))
    table = load.over_seeds(grid, KEYS)
    if shown != "mean":
        table = with_range(table, grid)
    rows = load.rows(table)
    lengths = load.lengths(table)
    once = shown != "mean" and len(set(lengths.values())) == 1
    names = {row: _title(table[table["row"] == row], shown, titles or {}, once) for row in rows}
    count, lines = len(rows) + len(without or {}), 1 + max(of.count("\n") for of in names.values())
    # Room for the bar and the labels beside a single panel, and for longer titles over few columns.
    width = max(1.9, 4 / count, 7.2 / columns)
    size = (width, 2.0 if shown == "mean" else 0.72 * width + 0.25 + 0.19 * lines)
    alike = len(set(load.tested(cells).values())) == 1  # else each has ticks of its own
    figure, drawn = style.panels(count, columns, size, sharex=alike, sharey=alike)
    figure.set_figheight(figure.get_figheight() + 0.4)  # for the label below all panels
    for number, (axes, row) in enumerate(zip(drawn, rows, strict=False)):
        picture = _panel(axes, table[table["row"] == row], shown)
        axes.set_title(names[row], fontsize="small")
        if alike:
            axes.tick_params(labelbottom=number + columns >= len(rows))  # nothing stands below
    for axes, (title, why) in zip(drawn[len(rows) :], (without or {}).items(), strict=True):
        _nothing(axes, title, why)
    if once:
        figure.suptitle(style.reached(rows[0], lengths[rows[0]]), fontsize="medium")
    figure.supxlabel(sizes[1], fontsize="medium")
    figure.supylabel(sizes[0], fontsize="medium")
    bar = figure.colorbar(picture, ax=drawn, shrink=0.75, aspect=30)
    bar.set_label(SHOWN[shown][1].format(style.problems(rows)))
    bar.outline.set_visible(False)
    style.percent(bar.ax.yaxis)
    return figure, table


def with_range(table: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Return a table of cells with the median of their seeds, the lowest, the highest, the spread.

    >>> two = pd.DataFrame({"row": "a", "start": "1", "trained": 5, "i": 1, "j": 2, "n": 10,
    ...                     "seed": range(3), "exact": [4, 9, 8], "accuracy": [0.4, 0.9, 0.8]})
    >>> with_range(load.over_seeds(two, KEYS), two)[["median", "lowest", "highest"]].values.tolist()
    [[0.8, 0.4, 0.9]]
    """
    of = {"median": "median", "lowest": "min", "highest": "max"}
    ranges = cells.groupby(KEYS)["accuracy"].agg(**of).reset_index()
    ranges["spread"] = ranges["highest"] - ranges["lowest"]
    return table.merge(ranges, on=KEYS, validate="one_to_one")


def _title(part: pd.DataFrame, shown: str, titles: Mapping[str, str], once: bool) -> str:
    """Return what a row is called, what it was trained to, and with the median its worst cell.

    `once`: what it was trained to is said for all panels together.
    """
    (row, length), *_ = load.lengths(part).items()
    lines = [textwrap.fill(titles.get(row) or style.look(row).label, 26)]
    if not once:
        reached = style.reached(row, length)
        lines += [reached if shown == "mean" else textwrap.fill(reached, 26)]
    if shown == "median":
        cell = part.sort_values(["median", "lowest", "highest"]).iloc[0]
        shares = [f"{100 * cell[name]:.0f}" for name in ("median", "lowest", "highest")]
        lines += [f"worst cell {shares[0]}% ({shares[1]} to {shares[2]})"]
    return "\n".join(lines)


def _panel(axes: Axes, part: pd.DataFrame, shown: str):
    column, _, colors = SHOWN[shown]
    square = part.pivot_table(index="i", columns="j", values=column).sort_index()
    (left, right), (low, high) = (
        (min(of) - 0.5, max(of) + 0.5) for of in (square.columns, square.index)
    )
    # An image is pixels inside the svg too, and one pixel a cell at that.
    picture = axes.imshow(
        square.to_numpy(dtype=float), origin="lower", extent=(left, right, low, high), vmin=0,
        vmax=1, cmap=colors, interpolation="none", aspect="equal",
    )  # fmt: skip
    trained = part["trained"].iloc[0] + 0.5
    frame = {"fill": False, "linewidth": 1.6, "clip_on": False}
    for color, dashes in (("white", "-"), ("#D00000", (0, (3, 2)))):  # seen on dark and on light
        width, height = trained - left, trained - low
        axes.add_patch(Rectangle((left, low), width, height, ec=color, ls=dashes, **frame))
    longest = max(square.index)
    step = 10 * round(longest / 30) or (5 if longest > 6 else 1)
    ticks = [tick for tick in range(0, longest + 1, step) if tick]
    axes.set(xticks=[tick for tick in ticks if left < tick], yticks=ticks)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=2)
    return picture


def _nothing(axes: Axes, title: str, why: str) -> None:
    """Say in a panel why it is empty."""
    axes.set_title(textwrap.fill(title, 26), fontsize="small")
    text = {"color": "#555555", "fontsize": "small", "ha": "center", "va": "center"}
    axes.text(0.5, 0.5, textwrap.fill(why, 24), transform=axes.transAxes, **text)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
