"""Figures of result tables: their style, kinds of figures, and what notebooks share.

The analysis of a figure is in its notebook. Here is what several notebooks need: `open_notebook`,
lines, bars, dots and heatmaps of tidy tables, drawings of ids and architectures, colours and
labels of rows, and saving.
"""

from carry.plots.kinds import (
    average_steps,
    choose_colors,
    draw_bars,
    draw_dots,
    draw_heatmaps,
    draw_lines,
    follow_steps,
    format_percent,
    merge_rows,
)
from carry.plots.notebook import open_notebook

__all__ = [
    "average_steps",
    "choose_colors",
    "draw_bars",
    "draw_dots",
    "draw_heatmaps",
    "draw_lines",
    "follow_steps",
    "format_percent",
    "merge_rows",
    "open_notebook",
]
