"""Depth of adaptive models: recurrences by token, and accuracy at other depths than in training."""

from __future__ import annotations

import textwrap

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from carry.evaluation.intervals import seed_interval
from carry.evaluation.recurrences import WHOLE_ANSWER
from carry.plots import load, style

BY = {
    "digits": "digits of both numbers",
    "place": "place in the answer (0: least significant)",
    "carry": "incoming carry",
    "cascade": "nines that pass the carry on",
}
NAMES = ["row", "trained", "recurrences_trained"]
NORMAL = 1.96  # standard errors on each side of a mean: 95%
ENDS = {  # of the intervals of both measures of depth
    "recurrences_taken": ("recurrences_taken_low", "recurrences_taken_high"),
    "depth": ("low", "high"),
}


@style.use_style
def draw_depths(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the depth of answer digits by their properties, and below it their accuracy."""
    table = group_depths(
        tables["depths"][tables["depths"]["row"] == tables["depths"]["row"].iloc[0]]
    )
    row = table["row"].iloc[0]
    figure, panels = style.make_panels(
        2 * len(BY), len(BY), (2.35, 2.2), sharex="col", sharey="row"
    )
    for number, axes in enumerate(panels):
        by = list(BY)[number % len(BY)]
        part = table[table["by"] == by]
        if number < len(BY):
            _depths(axes, part, style.choose_style(row).color)
            axes.set_ylim(0.85, part["recurrences_trained"].iloc[0] + 0.15)
        else:
            _right(axes, part, style.choose_style(row).color)
            axes.set_xlabel(BY[by], fontsize="small")
        if by == "carry":
            axes.set_xticks([0, 1], ["none", "one"])
            axes.set_xlim(-0.5, 1.5)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].set_ylabel("recurrences")
    panels[len(BY)].set_ylabel("digits right")
    dark = {"color": "#333333", "marker": "o", "ms": 4}
    handles = [
        Line2D([], [], mfc="white", ls="--", label="recurrences until the token halts", **dark),
        Line2D([], [], label="mean weighted by halting probability", **dark),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure, table


def _depths(axes: Axes, part: pd.DataFrame, color: str) -> None:
    """Draw both measures of depth: seeds as dots, and their mean with its interval."""
    mean, seeds = part[part["seed"] == "all"], part[part["seed"] != "all"]
    axes.axhline(part["recurrences_trained"].iloc[0], color="#777777", linewidth=0.8, ls=":")
    for column, (low, high) in ENDS.items():
        more = {} if column == "depth" else {"mfc": "white", "ls": "--"}
        axes.plot(seeds["value"], seeds[column], "o", ms=1.8, color=color, alpha=0.6)
        axes.errorbar(
            mean["value"],
            mean[column],
            [mean[column] - mean[low], mean[high] - mean[column]],
            marker="o",
            ms=4,
            color=color,
            elinewidth=1,
            **more,
        )


def _right(axes: Axes, part: pd.DataFrame, color: str) -> None:
    """Draw the accuracy of digits: seeds as dots, and their mean with its interval."""
    mean, seeds = part[part["seed"] == "all"], part[part["seed"] != "all"]
    ends = [mean["accuracy"] - mean["right_low"], mean["right_high"] - mean["accuracy"]]
    axes.plot(seeds["value"], seeds["accuracy"], "o", ms=1.8, color=color, alpha=0.6)
    axes.errorbar(
        mean["value"], mean["accuracy"], ends, marker="o", ms=4, color=color, elinewidth=1
    )
    axes.set_ylim(-0.03, 1.03)
    style.format_percent(axes.yaxis)


def group_depths(depths: pd.DataFrame) -> pd.DataFrame:
    """Return mean depths of each seed and their mean, grouped `by` one property after the other.

    Intervals of a seed are over its digits, those of the mean over seeds (missing for one seed).
    Groups by place, carry and cascade pool all lengths.
    """
    parts = []
    for by in BY:
        keys = [*NAMES, by]
        right = load.score_seeds(depths, keys, "correct")
        right = right.rename(columns={"low": "right_low", "high": "right_high"})
        seeds = pool_depths(depths, [*keys, "seed"]).astype({"seed": str})
        both = pd.concat([seeds, _average_depths(seeds, keys)], ignore_index=True)
        both = right.merge(both.drop(columns=["n", "correct"]), on=[*keys, "seed"])
        both = both.rename(columns={by: "value"}).assign(by=by)
        parts.append(both.sort_values(["seed", "value"], kind="stable"))
    return pd.concat(parts, ignore_index=True)


def _average_depths(seeds: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the means over seeds of both measures, with their intervals."""
    groups, means = seeds.groupby(keys, sort=False), {"seed": "all"}
    for column, names in ENDS.items():
        means[column] = groups[column].mean()
        for end, name in enumerate(names):
            means[name] = groups[column].agg(lambda values, end=end: seed_interval(values)[end])
    return pd.DataFrame(means).replace([np.inf, -np.inf], np.nan).reset_index()


def pool_depths(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the means over all digits of each group in `by`, with intervals over digits.

    `low` and `high` are the ends of the interval of `depth`.

    >>> cells = pd.DataFrame({"seed": 0, "n": [1, 3], "recurrences_taken": 2.0,
    ...                       "recurrences_taken_spread": 0.0,
    ...                       "depth": [1.0, 2.0], "depth_spread": 0.0, "correct": [1, 2]})
    >>> found = pool_depths(cells, ["seed"]).loc[0]
    >>> found[["n", "correct", "recurrences_taken", "depth", "low", "high"]].round(2).tolist()
    [4.0, 3.0, 2.0, 1.75, 1.33, 2.17]
    """
    n, parts = table["n"], {}
    for column in ("recurrences_taken", "depth"):
        parts[column] = n * table[column]
        parts[f"{column}_square"] = n * (table[f"{column}_spread"] ** 2 + table[column] ** 2)
    sums = pd.concat([table[[*by, "n", "correct"]], pd.DataFrame(parts)], axis=1)
    sums = sums.groupby(by, as_index=False, sort=False).sum()
    pooled = sums[[*by, "n", "correct"]].copy()
    for column, (low, high) in ENDS.items():
        mean = sums[column] / sums["n"]
        spread = np.sqrt((sums[f"{column}_square"] / sums["n"] - mean**2).clip(lower=0))
        half = NORMAL * spread / np.sqrt(sums["n"])
        pooled = pooled.assign(**{column: mean, low: mean - half, high: mean + half})
    return pooled


@style.use_style
def draw_recurrences(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by number of recurrences at evaluation, for each length.

    Looped rows, whose tokens all have the same depth, are drawn next to adaptive rows.
    """
    table = _rounds(tables)
    rows, lengths = load.list_rows(table), sorted(table["digits"].unique())
    shades = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, len(lengths)))
    colors = dict(zip(lengths, shades, strict=True))
    figure, panels = style.make_panels(len(rows), 3, (3.0, 2.8), sharey=True)
    for axes, row in zip(panels, rows, strict=True):
        part = table[table["row"] == row]
        for digits, group in part.groupby("digits"):
            seeds, mean = group[group["seed"] != "all"], group[group["seed"] == "all"]
            ends = [mean["accuracy"] - mean["low"], mean["high"] - mean["accuracy"]]
            look_of = {"color": colors[digits]}
            axes.plot(seeds["recurrences"], seeds["accuracy"], "o", ms=1.8, alpha=0.6, **look_of)
            axes.errorbar(
                mean["recurrences"], mean["accuracy"], ends, marker="o", ms=3.5, elinewidth=1,
                **look_of,
            )  # fmt: skip
        axes.axvline(part["recurrences_trained"].iloc[0], color="#777777", lw=0.9, ls=":")
        title = textwrap.fill(style.choose_style(row).label, 30)
        axes.set(title=title, xlabel="recurrences at evaluation", ylim=(-0.03, 1.03))
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        style.format_percent(axes.yaxis)
    panels[0].set_ylabel("exact match")
    handles = [
        Line2D([], [], marker="o", ms=4, color=colors[group], label=str(group)) for group in lengths
    ]
    figure.legend(handles=handles, title="digits", loc="outside right center")
    return figure, table


def _rounds(tables: load.ResultTables) -> pd.DataFrame:
    """Return exact match by number of recurrences of all rows, for each seed and their mean."""
    looped = tables["recurrences"][tables["recurrences"]["place"] == WHOLE_ANSWER]
    looped = looped[~looped["row"].isin(tables["rounds"]["row"])]
    looped = looped.rename(columns={"recurrence": "recurrences", "correct": "exact"})
    columns = [*NAMES, "digits", "recurrences", "seed", "n", "exact"]
    parts = [table[columns] for table in (tables["rounds"], looped) if len(table)]
    return load.score_seeds(pd.concat(parts, ignore_index=True), columns[:-3])
