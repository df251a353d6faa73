"""Accuracy for every pair of operand lengths, one panel a row."""

from __future__ import annotations

import textwrap

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from carry.figures import load, style

COLUMNS = 5


@style.styled
def by_lengths(
    cells: pd.DataFrame, start: str | None = None, columns: int = COLUMNS
) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by operand lengths (i, j), the mean over seeds, training lengths framed.

    Args:
        cells: accuracy by cell.
        start: "1" or "middle"; if not given, each row's better one in distribution.
        columns: how many panels stand side by side.
    """
    grid = cells[cells["set"] == "grid"]
    grid = load.at_start(grid, start or load.starts(cells))
    keys = ["row", "start", "trained", "i", "j"]
    table = load.over_seeds(grid, keys)
    rows = load.rows(table)
    size = (max(1.9, 4 / len(rows)), 2.0)  # room for the bar and the labels beside a single panel
    alike = len(set(load.tested(cells).values())) == 1  # else each has ticks of its own
    figure, drawn = style.panels(len(rows), columns, size, sharex=alike, sharey=alike)
    figure.set_figheight(figure.get_figheight() + 0.4)  # for the label below all panels
    for number, (axes, row) in enumerate(zip(drawn, rows, strict=True)):
        part = table[table["row"] == row]
        picture = _panel(axes, part)
        label = textwrap.fill(style.look(row).label, 26)
        length = style.reached(row, load.lengths(part)[row])
        axes.set_title(f"{label}\n{length}", fontsize="small")
        if alike:
            axes.tick_params(labelbottom=number + columns >= len(rows))  # nothing stands below
    figure.supxlabel("digits of the second operand, j", fontsize="medium")
    figure.supylabel("digits of the first operand, i", fontsize="medium")
    bar = figure.colorbar(picture, ax=drawn, shrink=0.75, aspect=30)
    bar.set_label(f"{style.problems(rows)} wholly right")
    bar.outline.set_visible(False)
    style.percent(bar.ax.yaxis)
    return figure, table


def _panel(axes: Axes, part: pd.DataFrame):
    square = part.pivot_table(index="i", columns="j", values="accuracy").sort_index()
    lengths, longest = square.index, max(square.index)
    edges = (min(lengths) - 0.5, longest + 0.5)
    # An image is pixels inside the svg too, and one pixel a cell at that.
    picture = axes.imshow(
        square.to_numpy(dtype=float), origin="lower", extent=(*edges, *edges), vmin=0, vmax=1,
        cmap="viridis", interpolation="none", aspect="equal",
    )  # fmt: skip
    trained = part["trained"].iloc[0] + 0.5 - edges[0]
    frame = {"fill": False, "linewidth": 1.6, "clip_on": False}
    for color, dashes in (("white", "-"), ("#D00000", (0, (3, 2)))):  # seen on dark and on light
        corner = (edges[0], edges[0])
        axes.add_patch(Rectangle(corner, trained, trained, ec=color, ls=dashes, **frame))
    step = 10 * round(longest / 30) or (5 if longest > 6 else 1)
    ticks = [tick for tick in range(0, longest + 1, step) if tick]
    axes.set(xticks=ticks, yticks=ticks)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=2)
    return picture
