"""Ranges: the lengths that each row solves, as a bar for most seeds and a dot for each seed."""

from __future__ import annotations

from collections.abc import Container

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carry.plots import style

SOLVED = 0.9  # share of the problems of a length
KEYS = ["panel", "row", "label", "trained", "start", "seed"]
STARTS = {"1": "ids from 1", "all": "all starts"}
TRAINED = "#CFCFCF"  # darker than the background of trained lengths elsewhere
FILL = {"1": 0.85, "all": 0.35}  # opacity of bars
WIDTH, LINE = 5.0, 0.21  # inches: letters stay readable on a phone, which shrinks the figure
EVERY_LENGTH = 5_000  # digits at the head of the arrow


def find_reach(table: pd.DataFrame, level: float = SOLVED) -> pd.DataFrame:
    """Return the longest length up to which each seed solves all lengths from the trained one on.

    Args:
        table: of `results.score_lengths`, with the column `panel`.
        level: the least accuracy of a solved length.

    >>> table = pd.DataFrame({"digits": [3, 5, 8, 10, 12], "accuracy": [0.8, 1, 0.95, 0.3, 0.9]})
    >>> table = table.assign(panel="", row="a", label="A", trained=5, start="1", seed=0)
    >>> find_reach(table)["reach"].tolist()
    [8]
    """
    failed = table[(table["accuracy"] < level) & (table["digits"] >= table["trained"])]
    table = table.merge(failed.groupby(KEYS)["digits"].min().rename("failed"), "left", on=KEYS)
    reach = table["digits"].mask(table["digits"] >= table["failed"], 0)
    return (
        reach.groupby([table[key] for key in KEYS], sort=False).max().rename("reach").reset_index()
    )


def draw_ranges(table: pd.DataFrame, proved: Container[str] = ()) -> Figure | None:
    """Draw how far each row goes: grey for trained lengths, coloured for longer ones.

    A coloured bar ends at the longest length that more than half of the seeds reach
    (`find_reach`); a dot is a seed, filled for ids from 1, open for all starts.

    Args:
        table: of `results.score_lengths`, with the column `panel`: a title above its rows.
        proved: rows that are proved exact at every length; an arrow says so.
    """
    if table.empty:
        return None
    reach = find_reach(table)
    bars = reach.groupby(["panel", "row", "label"], sort=False)
    lines = reach.groupby(KEYS[:-1], sort=False).ngroups + bars.ngroups / 3
    lines += 1.2 * reach["panel"].nunique()
    figure, axes = plt.subplots(figsize=(WIDTH, 0.6 + LINE * lines), layout="constrained")
    height, ticks, before = 0.0, {}, None
    for (panel, row, label), part in bars:
        if panel != before:
            height += 0.4 if before else 0
            axes.text(0, height, panel, transform=axes.get_yaxis_transform(), weight="bold")
            height, before = height + 1, panel
        starts = [seeds for _, seeds in part.groupby("start", sort=False)]
        ticks[label, panel] = height + 0.45 * (len(starts) - 1)
        for seeds in starts:
            _draw_range(axes, height, seeds, arrow=row in proved, name_start=len(starts) > 1)
            height += 0.9
        height += 0.3
    _set_axes(axes, height, ticks)
    return figure


def _draw_range(
    axes: Axes, height: float, seeds: pd.DataFrame, arrow: bool, name_start: bool
) -> None:
    """Draw the bars and dots of one row and start, with the length at the end of the bar."""
    start, row, trained = seeds["start"].iloc[0], seeds["row"].iloc[0], seeds["trained"].iloc[0]
    color, bar = style.choose_style(row).color, {"height": 0.7, "linewidth": 0}
    # The lower median of an even number: more than half of the seeds reach it.
    end = seeds["reach"].quantile(0.5, interpolation="lower")
    axes.barh(height, min(trained, end), color=TRAINED, **bar)
    axes.barh(height, max(0, end - trained), left=trained, color=color, alpha=FILL[start], **bar)
    spread = np.linspace(-0.2, 0.2, len(seeds)) if len(seeds) > 1 else [0]
    face = color if start == "1" else "white"
    edge = "white" if start == "1" else color
    dots = {"s": 17, "facecolor": face, "edgecolor": edge, "linewidth": 0.7}
    axes.scatter(seeds["reach"], height + np.array(spread), zorder=3, **dots)
    if arrow:
        ends = {"xy": (EVERY_LENGTH, height), "xytext": (end, height)}
        axes.annotate("", **ends, arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 2})
        axes.text(EVERY_LENGTH, height - 0.85, "every length: proved", ha="right", va="center")
    text = f"{end:,.0f}, {STARTS[start]}" if name_start else f"{end:,.0f}"
    place = (0.85 * end, "right") if arrow else (1.15 * max(1, seeds["reach"].max()), "left")
    settings = {"ha": place[1], "va": "center"}
    axes.text(place[0], height, text, color="white" if arrow else "#222222", **settings)


def _set_axes(axes: Axes, height: float, ticks: dict[tuple[str, str], float]) -> None:
    """Set ticks and limits; the first row is at the top."""
    axes.set(xscale="log", xlim=(1, EVERY_LENGTH), ylim=(height - 0.4, -0.7))
    axes.set(xlabel="digits of both operands")
    axes.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.set_yticks([*ticks.values()], [label for label, _ in ticks])
    axes.tick_params(axis="y", length=0)
    axes.minorticks_off()
    axes.grid(visible=False, axis="y")
