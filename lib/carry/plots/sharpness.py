"""Accuracy by the factor on attention logits at evaluation."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.plots import load, style

COLUMNS = 4
COLORS = "viridis"  # lengths, from dark to light
BAND = {"color": "#777777", "linestyle": (0, (4.0, 1.5))}
CHOSEN = {"color": "#b2182b", "linewidth": 1.4, "linestyle": ":"}
STARTS = {"1": "from id 1", "all": "all starts"}  # in titles of rows that have both


@style.use_style
def draw_accuracy_by_sharpness(
    accuracy_by_sharpness: pd.DataFrame,
) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by factor, a panel for each row and start, and a line for each length.

    Lengths are multiples of the trained length; those of the validation band are one dashed line.
    Thin lines are seeds, thick lines their median. A dotted line marks the chosen factor; the title
    says what it gives beyond the band, next to factor 1.

    Args:
        accuracy_by_sharpness: the table of `carry.analyses.sharpness`.
    """
    table = accuracy_by_sharpness.reset_index(drop=True)
    table = table.assign(times=(table["digits"] / table["trained"]).round(2))
    times, factors = sorted(table["times"].dropna().unique()), sorted(table["factor"].unique())
    shades = matplotlib.colormaps[COLORS](np.linspace(0, 0.9, len(times)))
    lines = {length: {"color": color} for length, color in zip(times, shades, strict=True)}
    lines = {times[0]: lines[times[0]], "band": BAND, **lines}
    choices = compare_with_factor_1(table)
    figure, panels = style.make_panels(len(choices), COLUMNS, (2.7, 2.6), sharey=True)
    for axes, choice in zip(panels, choices.to_dict("records"), strict=True):
        of_row = table[(table["row"] == choice["row"]) & (table["start"] == choice["start"])]
        for length, part in of_row.groupby(of_row["times"].astype(object).fillna("band")):
            seeds = part.pivot(index="factor", columns="seed", values="accuracy").sort_index()
            axes.plot(seeds, **lines[length], linewidth=0.7, alpha=0.5)
            axes.plot(seeds.median(axis=1), **lines[length], linewidth=2.0)
        axes.axvline(choice["factor"], **CHOSEN)
        axes.set_title(_describe_choice(choice, (choices["row"] == choice["row"]).sum() > 1))
        axes.set_xscale("log")
        axes.set_xticks(factors, [f"{factor:g}" for factor in factors])
        axes.minorticks_off()
        axes.set(xlabel="factor on attention logits", ylim=(-0.03, 1.03))
    panels[0].set_ylabel(f"correct {style.name_problems(load.list_rows(table))}")
    style.format_percent(panels[0].yaxis)
    names = {length: length if length == "band" else f"{length:g}" for length in lines}
    handles = [Line2D([], [], lw=2.2, label=names[length], **lines[length]) for length in lines]
    handles.append(Line2D([], [], label="chosen factor", **CHOSEN))
    title = "length, times\nthe trained one"
    figure.legend(handles=handles, loc="outside right center", title=title, alignment="left")
    return figure, table


def compare_with_factor_1(table: pd.DataFrame) -> pd.DataFrame:
    """Return the chosen `factor` of each row and start, and what it gives beyond the band.

    All sums beyond the band count alike: `beyond` is the median of the seeds' accuracy at the
    chosen factor, `at_1` that at factor 1, without a change.

    >>> made = {"row": "mine", "start": "1", "set": "beyond", "seed": [0, 1, 0, 1], "n": 10}
    >>> made |= {"factor": [1.0, 1.0, 2.0, 2.0], "chosen": [False, False, True, True]}
    >>> table = pd.DataFrame({**made, "exact": [1, 4, 6, 9]})
    >>> compare_with_factor_1(table)[["factor", "at_1", "beyond"]].values.tolist()
    [[2.0, 0.25, 0.75]]
    """
    keys, beyond = ["row", "start"], table[table["set"] == "beyond"]
    counts = beyond.groupby([*keys, "factor", "chosen", "seed"])[["exact", "n"]].sum()
    medians = (counts["exact"] / counts["n"]).groupby([*keys, "factor", "chosen"]).median()
    medians = medians.rename("beyond").reset_index()
    plain = medians[medians["factor"] == 1.0].rename(columns={"beyond": "at_1"})
    chosen = medians[medians["chosen"].astype(bool)].drop(columns="chosen")
    order = table[keys].drop_duplicates()
    return order.merge(plain[[*keys, "at_1"]], on=keys).merge(chosen, on=keys)


def _describe_choice(choice: dict[str, Any], has_starts: bool) -> str:
    """Return the title of a panel, with the start of a row that `has_starts`."""
    label = style.choose_style(choice["row"]).label
    start = f", {STARTS[choice['start']]}" if has_starts else ""
    gain = f", {choice['beyond']:.0%} at {choice['factor']:g}" if choice["factor"] != 1.0 else ""
    return f"{label}{start}\nbeyond: {choice['at_1']:.0%} at 1{gain}"
