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
KEYS = ["panel", "row", "label", "trained", "seed"]
TRAINED = "#CFCFCF"  # darker than the background of trained lengths elsewhere
WIDTH, LINE = 5.0, 0.21  # inches: letters stay readable on a phone, which shrinks the figure
EVERY_LENGTH = 5_000  # digits at the head of the arrow


def find_reach(table: pd.DataFrame) -> pd.DataFrame:
    """Return the longest length up to which each seed solves all lengths from the trained one on.

    >>> table = pd.DataFrame({"digits": [3, 5, 8, 10, 12], "accuracy": [0.8, 1, 0.95, 0.3, 0.9]})
    >>> table = table.assign(panel="", row="a", label="A", trained=5, seed=0)
    >>> find_reach(table)["reach"].tolist()
    [8]
    """
    failed = table[(table["accuracy"] < SOLVED) & (table["digits"] >= table["trained"])]
    table = table.merge(failed.groupby(KEYS)["digits"].min().rename("failed"), "left", on=KEYS)
    reach = table["digits"].mask(table["digits"] >= table["failed"], 0)
    return (
        reach.groupby([table[key] for key in KEYS], sort=False).max().rename("reach").reset_index()
    )


def draw_ranges(table: pd.DataFrame, proved: Container[str] = ()) -> Figure | None:
    """Draw how far each row goes: grey for trained lengths, coloured for longer ones.

    A coloured bar ends at the longest length that more than half of the seeds reach
    (`find_reach`), marked as the longest tested one where it is; a dot is a seed. The table is one
    of `results.score_lengths`, with the column `panel`: a title above its rows. Rows that are
    `proved` exact at every length have an arrow.
    """
    if table.empty:
        return None
    reach = find_reach(table)
    tested = table.groupby("row")["digits"].max()
    bars = reach.groupby(["panel", "row", "label"], sort=False)
    lines = 1.2 * (bars.ngroups + reach["panel"].nunique())
    figure, axes = plt.subplots(figsize=(WIDTH, 0.6 + LINE * lines), layout="constrained")
    height, ticks, before = 0.0, {}, None
    for (panel, row, label), seeds in bars:
        if panel != before:
            height += 0.4 if before else 0
            axes.text(0, height, panel, transform=axes.get_yaxis_transform(), weight="bold")
            height, before = height + 1, panel
        ticks[label, panel] = height
        _draw_range(axes, height, seeds, tested[row], arrow=row in proved)
        height += 1.2
    _set_axes(axes, height, ticks)
    return figure


def _draw_range(axes: Axes, height: float, seeds: pd.DataFrame, tested: int, arrow: bool) -> None:
    """Draw the bars and dots of one row, with the length at the end of the bar."""
    row, trained = seeds["row"].iloc[0], seeds["trained"].iloc[0]
    color, bar = style.choose_color(row), {"height": 0.7, "linewidth": 0}
    # The lower median of an even number: more than half of the seeds reach it.
    end = seeds["reach"].quantile(0.5, interpolation="lower")
    axes.barh(height, min(trained, end), color=TRAINED, **bar)
    axes.barh(height, max(0, end - trained), left=trained, color=color, alpha=0.85, **bar)
    spread = np.linspace(-0.2, 0.2, len(seeds)) if len(seeds) > 1 else [0]
    dots = {"s": 17, "facecolor": color, "edgecolor": "white", "linewidth": 0.7}
    axes.scatter(seeds["reach"], height + np.array(spread), zorder=3, **dots)
    if arrow:
        ends = {"xy": (EVERY_LENGTH, height), "xytext": (end, height)}
        axes.annotate("", **ends, arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 2})
        axes.text(1.1 * EVERY_LENGTH, height, "every length: proved", ha="left", va="center")
    text = f"{end:,.0f}" + (" (longest tested)" if end == tested and not arrow else "")
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
