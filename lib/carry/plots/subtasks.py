"""Sub-tasks of addition over training: accuracy by sub-task, place and cascade."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carry.plots import load, style

SUBTASKS = {
    "base_add": "base add",
    "make_carry": "make carry",
    "use_carry": "use carry",
    "make_sum_9": "make sum 9",
    "use_sum_9": "use sum 9",
}
COLORS = dict(zip(SUBTASKS, sns.color_palette("colorblind"), strict=False))
KEYS = ["row", "trained", "step"]


@style.use_style
def draw_subtasks_by_step(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy over training: of digits by sub-task, and of sums by longest cascade."""
    figure, (left, right) = style.make_panels(2, 2, (4.3, 3.0), sharey=True)
    digits = load.score_seeds(tables["subtasks"], [*KEYS, "subtask"], "correct")
    sums = load.score_seeds(tables["cascades"], [*KEYS, "cascade"], "exact")
    for name, text in SUBTASKS.items():
        _draw(left, digits, "subtask", name, {"color": COLORS[name], "label": text})
    longest = sorted(sums["cascade"].unique())
    for length, color in zip(longest, _shades(len(longest)), strict=True):
        label = "none" if length == 0 else f"{length} place{'s' if length > 1 else ''}"
        _draw(right, sums, "cascade", length, {"color": color, "label": label})
    left.set(xlabel="steps", ylabel="digits right", ylim=(-0.03, 1.03), title="by sub-task")
    right.set(xlabel="steps", ylabel="sums right", title="by the nines that a carry goes through")
    for axes, place in ((left, "lower right"), (right, "upper left")):
        style.format_percent(axes.yaxis)
        axes.legend(fontsize="small", loc=place)
    tables_ = [digits.rename(columns={"correct": "right"}), sums.rename(columns={"exact": "right"})]
    return figure, pd.concat(tables_, ignore_index=True)


@style.use_style
def draw_subtasks_by_place(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy over training by place of the answer, one panel for each sub-task."""
    table = load.average_seeds(tables["subtasks"], [*KEYS, "subtask", "place"], "correct")
    figure, panels = style.make_panels(
        len(SUBTASKS), len(SUBTASKS), (2.1, 2.5), sharex=True, sharey=True
    )
    places = sorted(table["place"].unique())
    shades = dict(zip(places, _shades(len(places)), strict=True))
    for axes, (name, text) in zip(panels, SUBTASKS.items(), strict=True):
        for place, group in table[table["subtask"] == name].groupby("place"):
            axes.plot(group["step"], group["accuracy"], color=shades[place], linewidth=1.4)
        axes.set(title=text, xlabel="steps", ylim=(-0.03, 1.03))
        style.format_percent(axes.yaxis)
    panels[0].set_ylabel("digits right")
    handles = [
        matplotlib.lines.Line2D([], [], color=shades[group], label=str(group)) for group in places
    ]
    figure.legend(handles=handles, title="place\n(0: the ones)", loc="outside right center")
    return figure, table


def _draw(axes: Axes, table: pd.DataFrame, by: str, value: object, line_style: dict) -> None:
    """Draw thin lines for seeds, and a thick line for their mean with its interval."""
    part = table[table[by] == value]
    for _, seed in part[part["seed"] != "all"].groupby("seed"):
        axes.plot(
            seed["step"], seed["accuracy"], color=line_style["color"], linewidth=0.6, alpha=0.6
        )
    mean = part[part["seed"] == "all"]
    axes.plot(mean["step"], mean["accuracy"], linewidth=2, **line_style)
    axes.fill_between(
        mean["step"],
        mean["low"],
        mean["high"],
        color=line_style["color"],
        alpha=0.2,
        linewidth=0,
    )


def _shades(count: int) -> np.ndarray:
    return matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, count))
