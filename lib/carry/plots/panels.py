"""Panels, one for each row: columns and shares by length, and curves over training.

Columns have the colour of the region of a length: it is one of training, or between those of
training, or beyond them (`carry.results.add_length_regions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from carry.evaluation.intervals import share_interval
from carry.plots import kinds, style

# Title and colour of each region; of seaborn's palette for colour-blind readers.
REGIONS = {
    "in distribution": ("length of training", "#949494"),
    "interpolation": ("between them", "#DE8F05"),
    "extrapolation": ("beyond them", "#0173B2"),
    "out of distribution": ("longer", "#0173B2"),  # of rows that leave no length out
}
# Kinds of answers (`carry.analyses.learning`), from the top of a column to its bottom.
ANSWER_KINDS = {
    "longer": "#ECE133",
    "shorter": "#56B4E9",
    "middle lost": "#CC78BC",
    "stops early": "#0173B2",
    "wrong digits": "#DE8F05",
    "right": "#DDDDDD",
}
COLORS = {region: color for region, (_, color) in REGIONS.items()}
FILL = 0.6  # opacity of columns
PALE = 0.3  # of those of rows that have not learned


def draw_columns(
    table: pd.DataFrame, x: str = "digits", y: str = "accuracy", **settings: Any
) -> sns.FacetGrid | None:
    """Draw columns for means over seeds with their t interval (95%), and a dot for each seed.

    The columns x and y have whole numbers and shares, and `label` has panels; those that are not
    `learned` are pale. `settings` are those of `seaborn.catplot`.
    """
    if table.empty:
        return None
    by_region = {"x": x, "y": y, "hue": "region", "palette": COLORS, "hue_order": [*COLORS]}
    by_region |= {"native_scale": True, "dodge": False, "legend": False}
    wrap = min(4, table["label"].nunique())
    settings = {"height": 2.5, "aspect": 0.95, "col_wrap": wrap, **settings}
    grid = sns.catplot(
        table, kind="bar", col="label", errorbar=share_interval, alpha=FILL, width=0.75,
        saturation=1, sharex=False, err_kws={"color": "#222222", "linewidth": 1.4}, **by_region,
        **settings,
    )  # fmt: skip
    for label, axes in grid.axes_dict.items():
        part = table[table["label"] == label]
        sns.stripplot(
            part, ax=axes, size=4.2, edgecolor="white", linewidth=0.6, jitter=0.2, clip_on=False,
            zorder=4, **by_region,
        )  # fmt: skip
        for bar in axes.patches if "learned" in part and not part["learned"].all() else ():
            bar.set_alpha(PALE)
        _set_numbers(axes, part[x])
    grid.set(ylim=(0, 1.03), yticks=[0, 0.5, 1])
    kinds.format_percent(grid)
    grid.set_axis_labels(x, kinds.name_axis(table, y))
    _finish(grid, table)
    return grid


def draw_answer_kinds(table: pd.DataFrame) -> sns.FacetGrid | None:
    """Draw the shares (`accuracy`) of kinds of answers by `digits`, on top of each other.

    A strip above the panel of each `label` shows the `region`.
    """
    if table.empty:
        return None
    grid = sns.displot(
        table, x="digits", weights="accuracy", hue="kind", hue_order=[*ANSWER_KINDS],
        palette=ANSWER_KINDS, alpha=1, multiple="stack", discrete=True, shrink=0.85, linewidth=0.4,
        col="label", col_wrap=min(4, table["label"].nunique()), height=2.6, aspect=0.82,
        facet_kws={"sharex": False},
    )  # fmt: skip
    for label, axes in grid.axes_dict.items():
        part = table[table["label"] == label]
        for digits, region in part.groupby("digits")["region"].first().items():
            strip = {"ymin": 1.01, "ymax": 1.06, "color": COLORS[region], "alpha": FILL}
            axes.axvspan(digits - 0.5, digits + 0.5, clip_on=False, linewidth=0, **strip)
        _set_numbers(axes, part["digits"])
    grid.set(ylim=(0, 1), yticks=[0, 0.5, 1]).set_axis_labels("digits", "answers")
    kinds.format_percent(grid)
    _finish(grid, table)
    return grid


def draw_squares(
    table: pd.DataFrame, value: str, sides: tuple[str, str], **panels: Any
) -> sns.FacetGrid:
    """Draw a number from 0 to 1 by two columns, as squares in panels with axes of their own.

    Args:
        sides: the columns along x and along y.
        panels: of `seaborn.FacetGrid`: which columns the panels are, and their order.
    """

    def draw(data: pd.DataFrame, **_: Any) -> None:
        squares = data.pivot(index=sides[1], columns=sides[0], values=value)
        sns.heatmap(squares, vmin=0, vmax=1, cmap="viridis", cbar=False, square=True)

    grid = sns.FacetGrid(table, height=2.1, sharex=False, sharey=False, **panels)
    return grid.map_dataframe(draw)


def draw_curves(
    table: pd.DataFrame,
    x: str,
    y: str,
    hue: str,
    dash: str,
    dashes: Mapping[str, Any],
    col: str = "label",
    **settings: Any,
) -> sns.FacetGrid | None:
    """Draw a thin line for each seed, and a thick one for their median.

    The columns hue, dash and col have colours, dashes and panels; `dashes` has those of each value
    of `dash`. `settings` are those of `seaborn.relplot`.
    """
    if table.empty:
        return None
    values = sorted(table[hue].unique())
    palette = settings.pop("palette", "viridis_r")
    colors = dict(zip(values, sns.color_palette(palette, len(values)), strict=True))
    dashes = {value: on for value, on in dashes.items() if value in set(table[dash])}
    by_value = {"hue": hue, "palette": colors, "style": dash, "dashes": dashes,
                "style_order": [*dashes]}  # fmt: skip
    settings = {"height": 2.5, "aspect": 1.1, "col_wrap": min(3, table[col].nunique()), **settings}
    grid = sns.relplot(
        table, kind="line", x=x, y=y, col=col, units="seed", estimator=None, linewidth=0.6,
        alpha=0.5, legend="full", **by_value, **settings,
    )  # fmt: skip
    thick = {"estimator": "median", "errorbar": None, "linewidth": 2.2, "legend": False}
    grid.map_dataframe(sns.lineplot, x, y, **thick, **by_value)
    name_legend(grid, grid.legend.get_title().get_text())
    name_panels(grid, 32)
    return grid


def _set_numbers(axes: Axes, numbers: pd.Series) -> None:
    first, last = int(numbers.min()), int(numbers.max())
    step = 1 + (last - first) // 10
    axes.set(xlim=(first - 0.6, last + 0.6), xticks=range(first, last + 1, step))
    axes.grid(visible=False, axis="x")


def name_panels(grid: sns.FacetGrid, width: int, **settings: Any) -> None:
    """Write the value of its column above each panel, in lines of some letters."""
    for panel, axes in grid.axes_dict.items():
        axes.set_title(style.wrap_title(str(panel), width), fontsize="small", **settings)


def name_legend(grid: sns.FacetGrid, title: str = "") -> None:
    """Write a title above the legend of a grid, and draw its lines as thick as medians."""
    grid.legend.set_title(title)
    for handle in grid.legend.legend_handles:
        handle.set(linewidth=2.2, alpha=1)


def _finish(grid: sns.FacetGrid, table: pd.DataFrame) -> None:
    """Name the panels, and the regions above all."""
    name_panels(grid, 24, pad=10)
    handles = [
        Patch(color=color, alpha=FILL, linewidth=0, label=title)
        for region, (title, color) in REGIONS.items()
        if region in set(table["region"])
    ]
    grid.figure.set_layout_engine("constrained")
    if grid.legend is not None:  # that of a hue
        sns.move_legend(grid, "outside right center", title="")
    if len(handles) > 1:
        grid.figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
