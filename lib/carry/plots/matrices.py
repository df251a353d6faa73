"""Matrices: a value by two columns of a tidy table, with numbers in the cells where they fit."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from carry.plots import style

WRITTEN = 150  # cells of a matrix; numbers fit in up to this many
MISSING = "#E0E0E0"


def draw_matrices(
    table: pd.DataFrame,
    x: str,
    y: str,
    value: str,
    title: str,
    cmap: str = "viridis",
    number: str = "{:.0f}",
    **settings: Any,
) -> sns.FacetGrid | None:
    """Draw a share by two columns, as a matrix in each panel; numbers are in percent.

    Columns and lines are in the order of the table. Cells without a value are grey.

    Args:
        table: with one line for each cell of a panel.
        x, y, value: the columns to the right and downwards, and the column of the colours.
        title: the label of the colour bar.
        cmap: the colours.
        number: the format of the number in a cell; empty: no numbers.
        settings: for `seaborn.FacetGrid`: col, row, col_wrap, height, aspect, ...
    """
    if table.empty:
        return None
    grid = sns.FacetGrid(table, sharex=False, sharey=False, **settings)
    for (line, column, _), part in grid.facet_data():
        if len(part):
            axes = grid.facet_axis(line, column)
            square = part.pivot(index=y, columns=x, values=value)
            square = square.reindex(index=part[y].unique(), columns=part[x].unique())
            image = _draw_matrix(axes, square.astype(float), cmap, number)
    names = [f"{{{name}_name}}" for name in ("col", "row") if name in settings]
    grid.set_titles("\n".join(names)).set_axis_labels(x, y)
    grid.figure.set_layout_engine("constrained")
    style.add_color_bar(grid, image, title, shrink=0.75)
    return grid


def _draw_matrix(axes: Axes, square: pd.DataFrame, cmap: str, number: str) -> AxesImage:
    """Draw the cells of one panel, dark numbers on light cells; return the image."""
    colors = matplotlib.colormaps[cmap].with_extremes(bad=MISSING)
    ends = {"vmin": 0, "vmax": 1}
    image = axes.imshow(square, cmap=colors, aspect="auto", interpolation="none", **ends)
    axes.set_xticks(range(square.shape[1]), square.columns)
    axes.set_yticks(range(square.shape[0]), square.index)
    style.strip_axes(axes)
    axes.tick_params(length=0, labelsize="small")
    axes.tick_params("x", labelsize="small" if square.shape[1] <= 15 else "x-small")
    for (line, column), share in np.ndenumerate(square.to_numpy()):
        if number and square.size <= WRITTEN and not np.isnan(share):
            dark = np.dot(colors(share)[:3], [0.3, 0.59, 0.11]) < 0.5
            text = number.format(round(100 * share) or 0)
            style_ = {"ha": "center", "va": "center", "fontsize": 6.5}
            axes.text(column, line, text, color="white" if dark else "#222222", **style_)
    return image
