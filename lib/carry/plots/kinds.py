"""Figures by kind: lines, bars, dots and heatmaps of tidy tables, with the seeds in sight.

Each function takes a tidy table with the columns `row` and `label` (`carry.results.add_labels`), in
which every line is a seed, and returns a grid of seaborn. A label has the colour and dashes of its
row; rows that have not learned their trained lengths are pale. An empty table gives None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from carry.evaluation.intervals import share_interval
from carry.plots import style

SIZES = ("digits of the first operand, i", "digits of the second operand, j")
WIDEST = 10.0  # inches of a figure
PALE = 0.45  # share of the colour that rows keep which have not learned


def choose_colors(table: pd.DataFrame) -> dict[str, str]:
    """Return the colour of each label, as a palette for seaborn.

    >>> choose_colors(pd.DataFrame({"row": ["addition_nope"], "label": ["NoPE"]}))
    {'NoPE': '#000000'}
    """
    colors = {}
    for line in table.drop_duplicates("label").itertuples():
        color = style.choose_style(line.row).color
        learned = getattr(line, "learned", True)
        colors[line.label] = color if learned else _make_pale(color)
    return colors


def _name_axis(table: pd.DataFrame, column: str) -> str:
    """Return the label of an axis; accuracy is called by the problems that it counts."""
    if column != "accuracy":
        return column
    return f"correct {style.name_problems(list(table['row'].unique()))}"


def choose_dashes(table: pd.DataFrame) -> dict[str, Any]:
    """Return the dashes of each label, for seaborn's `dashes`."""
    rows = table.drop_duplicates("label")
    dashes = {line.label: style.choose_style(line.row).dashes for line in rows.itertuples()}
    return {label: "" if lengths == style.SOLID else lengths for label, lengths in dashes.items()}


def _make_pale(color: str) -> str:
    return to_hex(1 - PALE * (1 - np.array(to_rgb(color))))


def draw_lines(
    table: pd.DataFrame,
    x: str,
    y: str = "accuracy",
    col: str | None = None,
    shade: bool = False,
    percent: bool = True,
    dashes: Mapping[str, Any] | None = None,
    **settings: Any,
) -> sns.FacetGrid | None:
    """Draw a thin line for each seed, and a thick median where all seeds have a value.

    Args:
        table: with the columns `row`, `label`, `seed`, `x` and `y`.
        x, y, col: the columns on both axes and of the panels.
        shade: shade the trained lengths, of the column `trained`.
        percent: write y as percentages, from 0 to 100%.
        dashes: dashes of labels, where those of their rows would be equal.
        settings: for `seaborn.relplot`: height, aspect, col_wrap, facet_kws, ...
    """
    if table.empty:
        return None
    colors, dashes = choose_colors(table), choose_dashes(table) | {**(dashes or {})}
    by_label = {
        "hue": "label",
        "style": "label",
        "palette": colors,
        "dashes": dashes,
        "legend": False,
    }
    settings = {"height": 3.2, "aspect": 1.25, **settings}
    grid = sns.relplot(
        table, kind="line", x=x, y=y, col=col, units="seed", estimator=None, linewidth=0.7,
        alpha=0.5, **by_label, **settings,
    )  # fmt: skip
    medians = find_medians(table, [name for name in (col, "row", "label") if name], x, y)
    # Thinner towards the top, so that a line shows under another one of the same values.
    widths = np.linspace(3.4, 1.6, len(colors)) if len(colors) > 1 else [2.2]
    sizes = dict(zip(colors, widths, strict=True))
    for panel, axes in grid.axes_dict.items() or [(None, grid.ax)]:
        part = medians[medians[col] == panel] if col else medians
        sns.lineplot(part, x=x, y=y, ax=axes, size="label", sizes=sizes, errorbar=None, **by_label)
        if shade:
            shade_training(axes, table[table[col] == panel] if col else table, x)
    if percent:
        grid.set(ylim=(-0.03, 1.03))
        format_percent(grid)
    grid.set_titles("{col_name}").set_axis_labels(x, _name_axis(table, y))
    add_legend(grid, table, dashes)
    return grid


def merge_rows(table: pd.DataFrame, rows: Sequence[str], label: str) -> pd.DataFrame:
    """Return a table in which some rows are one, drawn in grey, which has all their seeds.

    >>> table = pd.DataFrame({"row": list("abc"), "label": list("ABC"), "seed": 0})
    >>> merge_rows(table, ["a", "b"], "A and B").values.tolist()
    [['A and B', 'A and B', 'a 0'], ['A and B', 'A and B', 'b 0'], ['c', 'C', 'c 0']]
    """
    is_merged, seeds = table["row"].isin(rows), table["row"] + " " + table["seed"].astype(str)
    merged = {name: table[name].mask(is_merged, label) for name in ("row", "label")}
    return table.assign(**merged, seed=seeds)


def find_medians(table: pd.DataFrame, by: Sequence[str], x: str, y: str) -> pd.DataFrame:
    """Return the median of y at each x where all seeds of a group have a value.

    >>> table = pd.DataFrame({"row": "a", "seed": [0, 1, 0], "step": [1, 1, 2], "loss": [2, 4, 1]})
    >>> find_medians(table, ["row"], "step", "loss").values.tolist()
    [['a', 1, 3.0]]
    """
    by = list(dict.fromkeys(by))
    seeds = table.groupby([*by, x, "seed"], sort=False, observed=True)[y].mean().reset_index()
    groups = seeds.groupby([*by, x], sort=False, observed=True)[y]
    medians = groups.agg(["median", "count"]).reset_index()
    most = medians.groupby(by, sort=False, observed=True)["count"].transform("max")
    return medians[medians["count"] == most].drop(columns="count").rename(columns={"median": y})


def draw_bars(
    table: pd.DataFrame,
    x: str = "accuracy",
    col: str | None = "region",
    stated: Mapping[tuple[str, str], float] | None = None,
    percent: bool = True,
    **settings: Any,
) -> sns.FacetGrid | None:
    """Draw bars for means over seeds with their t interval (95%), and a dot for each seed.

    Args:
        table: with the columns `row`, `label`, `seed`, `x` and `col`.
        x, col: the columns of lengths of bars and of panels.
        stated: values that a paper states, by row and panel; drawn as diamonds.
        percent: write x as percentages, from 0 to 100%.
        settings: for `seaborn.catplot`: height, aspect, ...
    """
    if table.empty:
        return None
    labels, colors = list(dict.fromkeys(table["label"])), choose_colors(table)
    by_label = {"hue": "label", "palette": colors, "order": labels, "hue_order": labels}
    height = 0.9 + 0.3 * len(labels)
    panels = table[col].nunique() if col else 1
    width = min(WIDEST / panels, 1.7 + 0.085 * max(map(len, labels)) / panels)
    settings = {"height": height, "aspect": width / height, **settings}
    grid = sns.catplot(
        table, kind="bar", x=x, y="label", col=col, errorbar=share_interval, alpha=0.55, width=0.65,
        saturation=1, err_kws={"color": "#222222", "linewidth": 1.4}, legend=False, **by_label,
        **settings,
    )  # fmt: skip
    rows = table.drop_duplicates("label").set_index("label")["row"]
    for panel, axes in grid.axes_dict.items() or [(None, grid.ax)]:
        part = table[table[col] == panel] if col else table
        sns.stripplot(
            part, x=x, y="label", ax=axes, size=4.5, edgecolor="white", linewidth=0.7, jitter=0.12,
            legend=False, clip_on=False, zorder=4, **by_label,
        )  # fmt: skip
        for height, label in enumerate(labels):
            value = (stated or {}).get((rows[label], panel))
            if value is not None:
                axes.plot(value, height, zorder=5, clip_on=False, **style.STATED_MARKER)
            if label not in set(part["label"]):
                axes.text(0, height, " not tested", va="center", color="#777777", fontsize="small")
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
    if percent:
        grid.set(xlim=(-0.03, 1.03), xticks=[0, 0.5, 1])
        format_percent(grid, "x")
    grid.set_titles("{col_name}").set_axis_labels(_name_axis(table, x), "")
    return grid


def draw_dots(
    table: pd.DataFrame, x: str, y: str, col: str | None = None, **settings: Any
) -> sns.FacetGrid | None:
    """Draw a dot for each seed, and a bar for the median of each line of text at the left.

    Args:
        table: with the columns x, y and col; a line is a seed.
        x, y, col: the columns of values, of the lines of text and of the panels.
        settings: for `seaborn.catplot`: height, aspect, hue, ...
    """
    if table.empty:
        return None
    lines = table[y].nunique()
    height = 0.9 + 0.25 * lines
    settings = {"height": height, "aspect": max(0.7, 2.6 / height), **settings}
    grid = sns.catplot(
        table, kind="strip", x=x, y=y, col=col, jitter=0.15, size=4.5, alpha=0.7, **settings
    )
    for panel, axes in grid.axes_dict.items() or [(None, grid.ax)]:
        part = table[table[col] == panel] if col else table
        medians = part.groupby(y, sort=False)[x].median()
        for height, line in enumerate(dict.fromkeys(table[y])):
            if line in medians:
                ends = (height - 0.32, height + 0.32)
                axes.vlines(medians[line], *ends, color="#222222", linewidth=2, zorder=5)
    grid.set_titles("{col_name}").set(ylabel="")
    return grid


def draw_heatmaps(
    table: pd.DataFrame,
    value: str = "accuracy",
    col: str = "label",
    cmap: str = "viridis",
    title: str = "correct",
    sizes: tuple[str, str] = SIZES,
    **settings: Any,
) -> sns.FacetGrid | None:
    """Draw a value by sizes i (upwards) and j (to the right); a frame has the trained sizes.

    Args:
        table: of `results.score_pairs`, with labels.
        value, col: the columns of colours and of panels.
        cmap, title: the colours, and the label of the colour bar.
        sizes: labels of i and j.
        settings: for `seaborn.FacetGrid`: height, col_wrap, ...
    """
    if table.empty:
        return None
    settings = {"height": 2.3, "col_wrap": 5, **settings}
    settings["col_wrap"] = min(settings["col_wrap"], table[col].nunique())
    grid = sns.FacetGrid(table, col=col, sharex=False, sharey=False, **settings)
    for panel, axes in grid.axes_dict.items():
        image = _draw_heatmap(axes, table[table[col] == panel], value, cmap)
        lines = [style.wrap_title(line, 26) for line in str(panel).split("\n")]
        axes.set_title("\n".join(lines), fontsize="small")
    grid.figure.supylabel(sizes[0], fontsize="medium")
    grid.figure.supxlabel(sizes[1], fontsize="medium")
    grid.figure.set_figwidth(min(WIDEST, grid.figure.get_figwidth() + 1.2))  # for the colour bar
    grid.figure.set_layout_engine("constrained")
    # Next to a single row of panels the label is longer than three quarters of the height.
    one_row = grid.axes.size <= settings["col_wrap"]
    sizes = {"shrink": 1.0, "aspect": 16} if one_row else {"shrink": 0.75, "aspect": 30}
    bar = grid.figure.colorbar(image, ax=list(grid.axes.flat), **sizes)
    bar.set_label(style.wrap_title(title, 18) if one_row else title)
    bar.outline.set_visible(False)
    bar.ax.yaxis.set_major_formatter(style.PERCENT)
    return grid


def _draw_heatmap(axes: Axes, part: pd.DataFrame, value: str, cmap: str) -> Any:
    """Draw the cells of one row, and a frame around the trained sizes; return the image."""
    square = part.pivot_table(index="i", columns="j", values=value)
    rows, columns = (
        range(min(sizes), max(sizes) + 1) for sizes in (square.index, square.columns)
    )  # with sizes that are not scored, as those of a validation band
    square = square.reindex(index=rows, columns=columns)
    low, high, left, right = rows[0] - 0.5, rows[-1] + 0.5, columns[0] - 0.5, columns[-1] + 0.5
    image = axes.imshow(  # one pixel for each cell, in the svg too
        square.to_numpy(dtype=float), origin="lower", extent=(left, right, low, high), vmin=0,
        vmax=1, cmap=cmap, interpolation="none", aspect="equal",
    )  # fmt: skip
    trained = part["trained"].iloc[0] + 0.5
    frame = {"fill": False, "linewidth": 1.6, "clip_on": False}
    for color, dashes in (("white", "-"), ("#D00000", (0, (3, 2)))):  # on dark and on light
        width, height = trained - left, trained - low
        axes.add_patch(Rectangle((left, low), width, height, ec=color, ls=dashes, **frame))
    for axis, sizes in ((axes.xaxis, square.columns), (axes.yaxis, square.index)):
        axis.set_ticks(_list_ticks(min(sizes), max(sizes)))
    axes.set(xlabel="", ylabel="")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=2)
    return image


def _list_ticks(least: int, most: int) -> list[int]:
    """Return at most three ticks for sizes in a range.

    >>> _list_ticks(1, 9), _list_ticks(2, 15), _list_ticks(1, 100)
    ([3, 6, 9], [5, 10, 15], [50, 100])
    """
    step = next(step for step in (1, 2, 3, 5, 10, 20, 50, 100, 200, most) if most <= 3 * step)
    return [tick for tick in range(step, most + 1, step) if tick >= least]


def shade_training(axes: Axes, table: pd.DataFrame, x: str = "digits") -> None:
    """Shade the trained lengths of a panel; shorter trainings shade theirs twice."""
    shortest = table[x].min()
    for trained in sorted(table["trained"].unique()):
        axes.axvspan(shortest, trained, color=style.TRAINED_COLOR, alpha=0.6, zorder=0, linewidth=0)
        text = {"color": "#555555", "fontsize": "small", "ha": "right", "rotation": 90}
        axes.text(trained - 0.2, 0.03, f"to {trained}", **text)
    axes.set_xlim(shortest, table[x].max())


def format_percent(grid: sns.FacetGrid, axis: str = "y") -> None:
    """Write the shares on the x or y axes of a grid as percentages."""
    for axes in grid.axes.flat:
        getattr(axes, f"{axis}axis").set_major_formatter(style.PERCENT)


def add_legend(
    grid: sns.FacetGrid, table: pd.DataFrame, dashes: Mapping[str, Any] | None = None
) -> None:
    """Name the labels of a table once, at the right of a grid."""
    colors, dashes = choose_colors(table), dashes or choose_dashes(table)
    handles = [
        Line2D([], [], color=color, linestyle=(0, dashes[label]) if dashes[label] else "-",
               linewidth=2.2, label=label)
        for label, color in colors.items()
    ]  # fmt: skip
    grid.figure.set_layout_engine("constrained")
    grid.figure.legend(
        handles=handles, loc="outside right center", handlelength=2.6, alignment="left"
    )
