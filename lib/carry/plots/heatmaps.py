"""Heatmaps of accuracy for every pair of sizes, one panel for each row."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from carry.plots import load, style

COLUMNS = 5
NUMBERS = ("digits of the first operand, i", "digits of the second operand, j")
KEYS = ["row", "start", "trained", "i", "j"]
# Statistics over seeds: the column of the table, the label of the colour bar, and the colours.
STATISTICS = {
    "mean": ("accuracy", "correct {}", "viridis"),
    "median": ("median", "correct {}", "viridis"),
    "spread": ("spread", "best seed minus worst", "magma"),
}


@style.use_style
def draw_accuracy_heatmaps(
    cells: pd.DataFrame,
    start: str | None = None,
    columns: int = COLUMNS,
    statistic: Literal["mean", "median", "spread"] = "mean",
    sizes: tuple[str, str] = NUMBERS,
    titles: Mapping[str, str] | None = None,
    empty: Mapping[str, str] | None = None,
) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by sizes i (upwards) and j (to the right); a frame has the training sizes.

    Titles of rows that have not learned these sizes are grey, and say so.

    Args:
        cells: accuracy by cell.
        start: "1", "best" or "all", for rows that have it; by default that of
            `load.choose_starts`.
        columns: number of panels in a line.
        statistic: over seeds; with the median each panel names its worst cell.
        sizes: axis labels of i and j.
        titles: labels of rows in this figure, if other than their usual labels.
        empty: titles of panels without a row, at the end, each with its reason.
    """
    start, grid = start or load.choose_starts(cells), cells[cells["set"] == "grid"]
    grid, unlearned = load.select_start(grid, start), load.find_unlearned(cells, start)
    table = load.average_seeds(grid, KEYS)
    if statistic != "mean":
        table = add_seed_range(table, grid)
    rows = load.list_rows(table)
    lengths = load.find_training_lengths(table)
    one_length = statistic != "mean" and len(set(lengths.values())) == 1
    labels = {row: style.describe_row(row, unlearned, (titles or {}).get(row, "")) for row in rows}
    names = {
        row: _make_title(table[table["row"] == row], statistic, labels[row], one_length)
        for row in rows
    }
    empty = empty or {}
    count, lines = len(rows) + len(empty), 1 + max(name.count("\n") for name in names.values())
    # Room for the colour bar and the labels of a single panel, and for long titles.
    width = max(1.9, 4 / count, 7.2 / columns)
    size = (width, 2.0 if statistic == "mean" else 0.72 * width + 0.25 + 0.19 * lines)
    one_grid = len(set(load.find_grid_sizes(cells).values())) == 1  # else ticks for each panel
    figure, panels = style.make_panels(count, columns, size, sharex=one_grid, sharey=one_grid)
    figure.set_figheight(figure.get_figheight() + 0.4)  # for the label below all panels
    for number, (axes, row) in enumerate(zip(panels, rows, strict=False)):
        picture = _draw_panel(axes, table[table["row"] == row], statistic)
        axes.set_title(names[row], fontsize="small")
        if row in unlearned:
            axes.title.set(color="#8A8A8A", fontstyle="italic")
        if one_grid:
            axes.tick_params(labelbottom=number + columns >= len(rows))  # the lowest panels
    for axes, (title, reason) in zip(panels[len(rows) :], empty.items(), strict=True):
        _draw_empty_panel(axes, title, reason)
    if one_length:
        figure.suptitle(
            style.describe_training_length(rows[0], lengths[rows[0]]), fontsize="medium"
        )
    figure.supxlabel(sizes[1], fontsize="medium")
    figure.supylabel(sizes[0], fontsize="medium")
    bar = figure.colorbar(picture, ax=panels, shrink=0.75, aspect=30)
    label = STATISTICS[statistic][1].format(style.name_problems(rows))
    bar.set_label(label + load.describe_starts(table["start"].unique()))
    bar.outline.set_visible(False)
    style.format_percent(bar.ax.yaxis)
    return figure, table


def add_seed_range(table: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Add median, lowest, highest and spread of the seeds to a table of cells.

    >>> two = pd.DataFrame({"row": "a", "start": "1", "trained": 5, "i": 1, "j": 2, "n": 10,
    ...                     "seed": range(3), "exact": [4, 9, 8], "accuracy": [0.4, 0.9, 0.8]})
    >>> ranges = add_seed_range(load.average_seeds(two, KEYS), two)
    >>> ranges[["median", "lowest", "highest"]].values.tolist()
    [[0.8, 0.4, 0.9]]
    """
    ranges = cells.groupby(KEYS)["accuracy"].agg(median="median", lowest="min", highest="max")
    ranges = ranges.reset_index()
    ranges["spread"] = ranges["highest"] - ranges["lowest"]
    return table.merge(ranges, on=KEYS, validate="one_to_one")


def _make_title(part: pd.DataFrame, statistic: str, label: str, one_length: bool) -> str:
    """Return a panel's title: the label, the training length, and with the median the worst cell.

    `one_length`: the figure's title has the training length of all panels.
    """
    (row, length), *_ = load.find_training_lengths(part).items()
    lines = [textwrap.fill(label, 26)]
    if not one_length:
        trained = style.describe_training_length(row, length)
        lines += [trained if statistic == "mean" else textwrap.fill(trained, 26)]
    if statistic == "median":
        cell = part.sort_values(["median", "lowest", "highest"]).iloc[0]
        shares = [f"{100 * cell[name]:.0f}" for name in ("median", "lowest", "highest")]
        lines += [f"worst cell {shares[0]}% ({shares[1]} to {shares[2]})"]
    return "\n".join(lines)


def _draw_panel(axes: Axes, part: pd.DataFrame, statistic: str) -> AxesImage:
    """Draw the cells of one row and a frame around the training sizes; return the image."""
    column, _, colors = STATISTICS[statistic]
    square = part.pivot_table(index="i", columns="j", values=column).sort_index()
    (left, right), (low, high) = (
        (min(sizes) - 0.5, max(sizes) + 0.5) for sizes in (square.columns, square.index)
    )
    # An image has one pixel for each cell in the svg too.
    picture = axes.imshow(
        square.to_numpy(dtype=float),
        origin="lower",
        extent=(left, right, low, high),
        vmin=0,
        vmax=1,
        cmap=colors,
        interpolation="none",
        aspect="equal",
    )
    trained = part["trained"].iloc[0] + 0.5
    frame = {"fill": False, "linewidth": 1.6, "clip_on": False}
    for color, dashes in (("white", "-"), ("#D00000", (0, (3, 2)))):  # visible on dark and on light
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


def _draw_empty_panel(axes: Axes, title: str, reason: str) -> None:
    """Write the reason for an empty panel into it."""
    axes.set_title(textwrap.fill(title, 26), fontsize="small")
    text = {"color": "#555555", "fontsize": "small", "ha": "center", "va": "center"}
    axes.text(0.5, 0.5, textwrap.fill(reason, 24), transform=axes.transAxes, **text)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
