"""Figures of result tables: their style, kinds of figures, and what notebooks share.

The analysis of a figure is in its notebook. Here is what several notebooks need: `open_notebook`,
lines, bars, dots and heatmaps of tidy tables, drawings of ids and architectures, colours and
labels of rows, and saving.
"""

from carry.plots.kinds import (
    add_legend,
    choose_colors,
    choose_dashes,
    draw_bars,
    draw_dots,
    draw_heatmaps,
    draw_lines,
    find_medians,
    format_percent,
    merge_rows,
    shade_training,
)
from carry.plots.notebook import Notebook, open_notebook

__all__ = [
    "Notebook",
    "add_legend",
    "choose_colors",
    "choose_dashes",
    "draw_bars",
    "draw_dots",
    "draw_heatmaps",
    "draw_lines",
    "find_medians",
    "format_percent",
    "merge_rows",
    "open_notebook",
    "shade_training",
]
