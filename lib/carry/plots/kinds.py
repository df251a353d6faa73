"""Figures by kind: lines, bars, dots and heatmaps of tidy tables, with the seeds in sight.

Each function takes a tidy table with the columns `row` and `label` (`carry.results.add_labels`), in
which every line is a seed, and returns a grid of seaborn. A label has the colour and dashes of its
row; rows that have not learned their trained lengths are pale. An empty table gives None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D

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
        colors[line.label] = style.choose_color(line.row)
        if not getattr(line, "learned", True):
            colors[line.label] = to_hex(1 - PALE * (1 - np.array(to_rgb(colors[line.label]))))
    return colors


def name_axis(table: pd.DataFrame, column: str) -> str:
    """Return the label of an axis; accuracy is called by the problems that it counts."""
    if column != "accuracy":
        return column
    return f"correct {style.name_problems(list(table['row'].unique()))}"


def _list_panels(
    grid: sns.FacetGrid, table: pd.DataFrame, col: str | None
) -> Iterator[tuple[Any, Axes, pd.DataFrame]]:
    """Yield the name of each panel, its axes, and its part of the table."""
    for panel, axes in grid.axes_dict.items() or [(None, grid.ax)]:
        yield panel, axes, table[table[col] == panel] if col else table


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

    The column `col` has panels. `shade` shows the trained lengths, `percent` writes y from 0 to
    100%, and `dashes` are those of labels whose rows have equal ones. `settings` are those of
    `seaborn.relplot`.
    """
    if table.empty:
        return None
    colors, rows = choose_colors(table), table.drop_duplicates("label").itertuples()
    dashes = {line.label: style.choose_dashes(line.row) for line in rows} | dict(dashes or {})
    by_label = {"hue": "label", "style": "label", "palette": colors, "dashes": dashes}
    by_label["legend"] = False
    settings = {"height": 3.2, "aspect": 1.25, **settings}
    grid = sns.relplot(
        table, kind="line", x=x, y=y, col=col, units="seed", estimator=None, linewidth=0.7,
        alpha=0.5, **by_label, **settings,
    )  # fmt: skip
    # Thinner towards the top, so that a line shows under another one of the same values.
    widths = np.linspace(3.4, 1.6, len(colors)) if len(colors) > 1 else [2.2]
    sizes = dict(zip(colors, widths, strict=True))
    thick = {"size": "label", "sizes": sizes, "errorbar": None}
    for _, axes, part in _list_panels(grid, table, col):
        sns.lineplot(find_medians(part, x, y), x=x, y=y, ax=axes, **thick, **by_label)
        if shade:
            _shade_training(axes, part, x)
    if percent:
        grid.set(ylim=(-0.03, 1.03))
        format_percent(grid)
    grid.set_titles("{col_name}").set_axis_labels(x, name_axis(table, y))
    _add_legend(grid, colors, dashes)
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


def find_medians(table: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """Return the median of y at each x where all seeds of a row have a value.

    >>> table = pd.DataFrame({"row": "a", "label": "A", "seed": [0, 1, 0], "step": [1, 1, 2]})
    >>> find_medians(table.assign(loss=[2, 4, 1]), "step", "loss").values.tolist()
    [['a', 'A', 1, 3.0]]
    """
    by = ["row", "label"]
    seeds = table.groupby([*by, x, "seed"], sort=False, observed=True)[y].mean().reset_index()
    groups = seeds.groupby([*by, x], sort=False, observed=True)[y]
    medians = groups.agg(["median", "count"]).reset_index()
    most = medians.groupby(by, sort=False, observed=True)["count"].transform("max")
    return medians[medians["count"] == most].drop(columns="count").rename(columns={"median": y})


def draw_bars(
    table: pd.DataFrame,
    x: str = "accuracy",
    col: str | None = "region",
    stated: Mapping[tuple[str, str | None], float] | None = None,
    **settings: Any,
) -> sns.FacetGrid | None:
    """Draw bars for means over seeds with their t interval (95%), and a dot for each seed.

    The column `col` has panels. `stated` has the values of a paper by row and panel, drawn as
    diamonds. `settings` are those of `seaborn.catplot`.
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
    for panel, axes, part in _list_panels(grid, table, col):
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
    grid.set(xlim=(-0.03, 1.03), xticks=[0, 0.5, 1])
    format_percent(grid, "x")
    grid.set_titles("{col_name}").set_axis_labels(name_axis(table, x), "")
    return grid


def draw_dots(
    table: pd.DataFrame, x: str, y: str, col: str | None = None, **settings: Any
) -> sns.FacetGrid | None:
    """Draw a dot for each seed, and a bar for the median of each line of text at the left.

    The columns x, y and col have shares, lines of text and panels. `settings` are those of
    `seaborn.catplot`.
    """
    if table.empty:
        return None
    lines = table[y].nunique()
    height = 0.9 + 0.25 * lines
    settings = {"height": height, "aspect": max(0.7, 2.6 / height), **settings}
    grid = sns.catplot(
        table, kind="strip", x=x, y=y, col=col, jitter=0.15, size=4.5, alpha=0.7, **settings
    )
    for _, axes, part in _list_panels(grid, table, col):
        medians = part.groupby(y, sort=False)[x].median()
        for height, line in enumerate(dict.fromkeys(table[y])):
            if line in medians:
                ends = (height - 0.32, height + 0.32)
                axes.vlines(medians[line], *ends, color="#222222", linewidth=2, zorder=5)
    grid.set_titles("{col_name}").set(ylabel="")
    format_percent(grid, "x")
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

    The table is one of `results.score_pairs`, with labels; the column `col` has panels. `title` is
    the label of the colour bar, and `sizes` those of i and j. `settings` are those of
    `seaborn.FacetGrid`.
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
    label, shrink, aspect = (style.wrap_title(title, 18), 1, 16) if one_row else (title, 0.75, 30)
    style.add_color_bar(grid, image, label, shrink, aspect)
    return grid


def follow_steps(steps: pd.DataFrame, step: str) -> pd.DataFrame:
    """Return steps in order, with the share `still` of responses that are right up to each.

    `steps` has `n` and `first_wrong` by the column `step`, of each row, seed and number of digits.

    >>> steps = pd.DataFrame({"row": "a", "seed": 0, "digits": 2, "step": [1, 0], "n": 4})
    >>> follow_steps(steps.assign(first_wrong=[2, 1]), "step")["still"].tolist()
    [0.75, 0.25]
    """
    steps = steps.sort_values(step, kind="stable")
    wrong = steps.groupby(["row", "seed", "digits"])["first_wrong"].cumsum()
    return steps.assign(still=1 - wrong / steps["n"])


def average_steps(steps: pd.DataFrame, step: str, kinds: Mapping[str, str]) -> pd.DataFrame:
    """Return means over seeds as `share`, by size i and step j, for `draw_heatmaps`.

    `kinds` are the columns of shares in a table of `follow_steps`, with their names in titles.
    """
    steps = steps.rename(columns={"digits": "i", step: "j", **kinds})
    steps = steps.melt(["row", "label", "trained", "i", "j"], [*kinds.values()], "kind", "share")
    steps["panel"] = steps["label"] + "\n" + steps["kind"]
    keys = ["panel", "row", "trained", "i", "j"]
    return steps.groupby(keys, sort=False, as_index=False)["share"].mean()


def _draw_heatmap(axes: Axes, part: pd.DataFrame, value: str, cmap: str) -> AxesImage:
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
    size = ((left, low), trained - left, trained - low)
    style.draw_frame(axes, *size, (0, (3, 2)), linewidth=1.6, clip_on=False)
    for axis, sizes in ((axes.xaxis, square.columns), (axes.yaxis, square.index)):
        axis.set_ticks(_list_ticks(min(sizes), max(sizes)))
    axes.set(xlabel="", ylabel="")
    style.strip_axes(axes)
    axes.tick_params(length=2)
    return image


def _list_ticks(least: int, most: int) -> list[int]:
    """Return at most three ticks for sizes in a range: [3, 6, 9] for 1 to 9."""
    step = next(step for step in (1, 2, 3, 5, 10, 20, 50, 100, 200, most) if most <= 3 * step)
    return [tick for tick in range(step, most + 1, step) if tick >= least]


def _shade_training(axes: Axes, table: pd.DataFrame, x: str) -> None:
    """Shade the trained lengths of a panel; shorter trainings shade theirs twice."""
    shortest = table[x].min()
    for trained in sorted(table["trained"].unique()):
        axes.axvspan(shortest, trained, color=style.TRAINED_COLOR, alpha=0.6, zorder=0, linewidth=0)
        text = {"color": "#555555", "fontsize": "small", "ha": "right", "rotation": 90}
        axes.text(trained - 0.2, 0.03, f"to {trained}", **text)
    axes.set_xlim(shortest, table[x].max())


def format_percent(grid: sns.FacetGrid, axes: str = "y") -> None:
    """Write the shares on the axes "x", "y" or "xy" of a grid as percentages."""
    for panel in grid.axes.flat:
        for axis in axes:
            getattr(panel, f"{axis}axis").set_major_formatter(style.PERCENT)


def _add_legend(grid: sns.FacetGrid, colors: dict[str, str], dashes: dict[str, Any]) -> None:
    """Name the labels once, at the right of a grid."""
    handles = [
        Line2D([], [], color=color, linestyle=(0, dashes[label]) if dashes[label] else "-",
               linewidth=2.2, label=label)
        for label, color in colors.items()
    ]  # fmt: skip
    grid.figure.set_layout_engine("constrained")
    grid.figure.legend(
        handles=handles, loc="outside right center", handlelength=2.6, alignment="left"
    )
