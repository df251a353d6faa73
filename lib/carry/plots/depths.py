"""How many recurrences the digits of an answer take, and what more or fewer of them would do."""

from __future__ import annotations

import textwrap

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from carry.evaluation.intervals import add_interval
from carry.plots import load, style
from carry.plots.recurrences import WHOLE

BY = {
    "digits": "digits of both numbers",
    "place": "place in the answer (0: the ones)",
    "carry": "carry that comes in",
    "cascade": "nines that a carry goes through",
}
NAMES = ["row", "trained", "recurrences_trained"]
NORMAL = 1.96  # standard errors at either side of a mean: 95%


@style.styled
def taken(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw how deep digits go by what they are, and below it how many of them are right."""
    table = by_what(tables.depths[tables.depths["row"] == tables.depths["row"].iloc[0]])
    row = table["row"].iloc[0]
    figure, drawn = style.panels(2 * len(BY), len(BY), (2.35, 2.2), sharex="col", sharey="row")
    for number, axes in enumerate(drawn):
        by = list(BY)[number % len(BY)]
        part = table[table["by"] == by]
        if number < len(BY):
            _depths(axes, part, style.look(row).color)
            axes.set_ylim(0.85, part["recurrences_trained"].iloc[0] + 0.15)
        else:
            _right(axes, part, style.look(row).color)
            axes.set_xlabel(BY[by], fontsize="small")
        if by == "carry":
            axes.set_xticks([0, 1], ["none", "one"])
            axes.set_xlim(-0.5, 1.5)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    drawn[0].set_ylabel("recurrences")
    drawn[len(BY)].set_ylabel("digits right")
    dark = {"color": "#333333", "marker": "o", "ms": 4}
    handles = [
        Line2D([], [], mfc="white", ls="--", label="taken before it halts", **dark),
        Line2D([], [], label="by the weights of what is read", **dark),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure, table


def _depths(axes: Axes, part: pd.DataFrame, color: str) -> None:
    """Draw both depths: the seeds as dots, and all together with the interval of their mean."""
    whole, seeds = part[part["seed"] == "all"], part[part["seed"] != "all"]
    axes.axhline(part["recurrences_trained"].iloc[0], color="#777777", linewidth=0.8, ls=":")
    for of, ends, more in (
        ("taken", ("taken_low", "taken_high"), {"mfc": "white", "ls": "--"}),
        ("depth", ("low", "high"), {}),
    ):
        axes.plot(seeds["value"], seeds[of], "o", ms=1.8, color=color, alpha=0.6)
        around = [whole[of] - whole[ends[0]], whole[ends[1]] - whole[of]]
        axes.errorbar(
            whole["value"], whole[of], around, marker="o", ms=4, color=color, elinewidth=1, **more
        )


def _right(axes: Axes, part: pd.DataFrame, color: str) -> None:
    """Draw the share of right digits, with Wilson's interval of all together."""
    whole, seeds = part[part["seed"] == "all"], part[part["seed"] != "all"]
    ends = [whole["accuracy"] - whole["right_low"], whole["right_high"] - whole["accuracy"]]
    axes.plot(seeds["value"], seeds["accuracy"], "o", ms=1.8, color=color, alpha=0.6)
    axes.errorbar(
        whole["value"], whole["accuracy"], ends, marker="o", ms=4, color=color, elinewidth=1
    )
    axes.set_ylim(-0.03, 1.03)
    style.percent(axes.yaxis)


def by_what(depths: pd.DataFrame) -> pd.DataFrame:
    """Return mean depths of each seed and of all together, `by` one thing after the other.

    By place, carry and cascade all lengths count together, as they do where they are tested.
    """
    parts = []
    for by in BY:
        seeds = pooled(depths, [*NAMES, by, "seed"]).astype({"seed": str})
        whole = pooled(depths, [*NAMES, by]).assign(seed="all")
        both = pd.concat([seeds, whole], ignore_index=True).rename(columns={by: "value"})
        parts.append(both.assign(by=by).sort_values(["seed", "value"], kind="stable"))
    table = pd.concat(parts, ignore_index=True)
    right = add_interval(table[["n", "correct"]], "correct").rename(
        columns={"low": "right_low", "high": "right_high"}
    )
    return table.join(right.drop(columns=["n", "correct"]))


def pooled(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the means of all digits that agree in `by`, with their intervals over digits.

    `low` and `high` are the ends of `depth`.

    >>> cells = pd.DataFrame({"seed": 0, "n": [1, 3], "taken": 2.0, "taken_spread": 0.0,
    ...                       "depth": [1.0, 2.0], "depth_spread": 0.0, "correct": [1, 2]})
    >>> found = pooled(cells, ["seed"]).loc[0]
    >>> found[["n", "correct", "taken", "depth", "low", "high"]].round(2).tolist()
    [4.0, 3.0, 2.0, 1.75, 1.33, 2.17]
    """
    n, parts = table["n"], {}
    for of in ("taken", "depth"):
        parts[of] = n * table[of]
        parts[f"{of}_square"] = n * (table[f"{of}_spread"] ** 2 + table[of] ** 2)
    sums = pd.concat([table[[*by, "n", "correct"]], pd.DataFrame(parts)], axis=1)
    sums = sums.groupby(by, as_index=False, sort=False).sum()
    found = sums[[*by, "n", "correct"]].copy()
    for of, (low, high) in {"taken": ("taken_low", "taken_high"), "depth": ("low", "high")}.items():
        mean = sums[of] / sums["n"]
        spread = np.sqrt((sums[f"{of}_square"] / sums["n"] - mean**2).clip(lower=0))
        half = NORMAL * spread / np.sqrt(sums["n"])
        found = found.assign(**{of: mean, low: mean - half, high: mean + half})
    return found


@style.styled
def rounds(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by how many recurrences a model is run for, length by length.

    Beside adaptive rows stand looped ones, whose tokens all go as deep.
    """
    table = _rounds(tables)
    rows, lengths = load.rows(table), sorted(table["digits"].unique())
    shades = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, len(lengths)))
    colors = dict(zip(lengths, shades, strict=True))
    figure, drawn = style.panels(len(rows), 3, (3.0, 2.8), sharey=True)
    for axes, row in zip(drawn, rows, strict=True):
        part = table[table["row"] == row]
        for digits, of in part.groupby("digits"):
            seeds, whole = of[of["seed"] != "all"], of[of["seed"] == "all"]
            ends = [whole["accuracy"] - whole["low"], whole["high"] - whole["accuracy"]]
            look_of = {"color": colors[digits]}
            axes.plot(seeds["recurrences"], seeds["accuracy"], "o", ms=1.8, alpha=0.6, **look_of)
            axes.errorbar(
                whole["recurrences"], whole["accuracy"], ends, marker="o", ms=3.5, elinewidth=1,
                **look_of,
            )  # fmt: skip
        axes.axvline(part["recurrences_trained"].iloc[0], color="#777777", lw=0.9, ls=":")
        title = textwrap.fill(style.look(row).label, 30)
        axes.set(title=title, xlabel="recurrences when asked", ylim=(-0.03, 1.03))
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        style.percent(axes.yaxis)
    drawn[0].set_ylabel("sums wholly right")
    handles = [Line2D([], [], marker="o", ms=4, color=colors[of], label=str(of)) for of in lengths]
    figure.legend(handles=handles, title="digits", loc="outside right center")
    return figure, table


def _rounds(tables: load.Tables) -> pd.DataFrame:
    """Return whole answers by recurrences of all rows, of each seed and of all together."""
    known = tables.recurrences[tables.recurrences["place"] == WHOLE]
    known = known[~known["row"].isin(tables.rounds["row"])]
    known = known.rename(columns={"recurrence": "recurrences", "correct": "exact"})
    columns = [*NAMES, "digits", "recurrences", "seed", "n", "exact"]
    parts = [of[columns] for of in (tables.rounds, known) if len(of)]
    seeds = pd.concat(parts, ignore_index=True)
    whole = seeds.groupby(columns[:-3], as_index=False, sort=False)[["n", "exact"]].sum()
    both = [seeds.astype({"seed": str}), whole.assign(seed="all")]
    return add_interval(pd.concat(both, ignore_index=True))
