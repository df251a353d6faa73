"""Errors of sums with steps in words: by step, and answers against the model's own steps."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from carry.plots import lengths, load, style
from carry.plots.answers import ERRORS, LINE

KEYS = ["row", "trained", "digits"]
# What is counted of decoded responses: label and marker.
DECODED = {
    "answer right": "o",
    "steps spell the true sum": "^",
    "answer is what the steps spell": "s",
}
SHIFTS = (-0.12, 0.0, 0.12)


@style.use_style
def draw_worded_steps(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw first errors by step at the longest trained length and beyond, and decoded responses.

    Bars are the share of all responses whose first wrong token is in a step, after correct ones;
    the line has the responses in which a step is right, after correct tokens.

    Args:
        tables: holds the tables `steps` and `scratchpads` of one row.
    """
    steps, decoded = make_step_table(tables), make_scratchpad_table(tables["scratchpads"])
    counts = sorted(steps["digits"].unique())
    figure, panels = style.make_panels(
        len(counts) + 1, len(counts) + 1, (8.6 / (len(counts) + 1), 3.0), sharey=True
    )
    row, learned = steps["row"].iloc[0], lengths.count_learned(tables)
    title = lengths.make_panel_title(
        row, lengths.find_trained_lengths(tables)[row], learned=learned
    )
    figure.suptitle(title, fontsize="small")
    for axes, digits in zip(panels, counts, strict=False):
        _draw_steps(axes, steps[steps["digits"] == digits], digits)
    for shift, (what, marker) in zip(SHIFTS, DECODED.items(), strict=True):
        part = decoded[(decoded["counted"] == what) & (decoded["seed"] != "all")]
        panels[-1].plot(
            part["digits"] + shift, part["accuracy"], marker, color=LINE, ms=4.5, alpha=0.55,
            mfc="white", label=what,
        )  # fmt: skip
    panels[-1].set_title("decoded responses", fontsize="small")
    panels[-1].set_xticks(sorted(decoded["digits"].unique()))
    panels[-1].set_xlabel("digits of both operands")
    panels[-1].grid(visible=False, axis="x")
    panels[0].set(ylim=(-0.04, 1.06), ylabel="responses")
    style.format_percent(panels[0].yaxis)
    handles = [
        Patch(facecolor=ERRORS, label="first wrong token in this step"),
        Line2D([], [], marker="o", ms=3.5, color=LINE, label="step right, after correct tokens"),
        *panels[-1].get_legend_handles_labels()[0],
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure, pd.concat([steps, decoded], ignore_index=True)


def make_step_table(tables: load.ResultTables) -> pd.DataFrame:
    """Return the right steps and first errors by step, at the longest trained length and beyond.

    `counted` names the two: of `n` responses, `count` are right in a `step` or have their first
    wrong token there. For each seed, and for all (`seed` is "all").
    """
    table = load.select_start(tables["steps"], load.choose_starts(tables["cells"]))
    table = table[table["digits"] >= table["trained"]]
    parts = [
        table.rename(columns={column: "count"})[[*KEYS, "seed", "step", "n", "count"]].assign(
            counted=counted
        )
        for column, counted in (("first_wrong", "first wrong"), ("correct", "right"))
    ]
    return load.score_seeds(
        pd.concat(parts, ignore_index=True), [*KEYS, "step", "counted"], "count"
    )


def make_scratchpad_table(scratchpads: pd.DataFrame) -> pd.DataFrame:
    """Return what is counted of decoded responses by length, for each seed and for all."""
    columns = ("right", "steps_right", "agree")
    right = scratchpads["n"].where(scratchpads["answer"] == "right", 0)
    table = scratchpads.assign(right=right)
    parts = [
        table.rename(columns={column: "count"})[[*KEYS, "seed", "n", "count"]].assign(counted=what)
        for what, column in zip(DECODED, columns, strict=True)
    ]
    return load.score_seeds(pd.concat(parts, ignore_index=True), [*KEYS, "counted"], "count")


def _draw_steps(axes: Axes, part: pd.DataFrame, digits: int) -> None:
    """Draw one length: bars and dots of seeds for first errors, a line for right steps."""
    mean, seeds = part[part["seed"] == "all"], part[part["seed"] != "all"]
    first, right = (mean[mean["counted"] == name] for name in ("first wrong", "right"))
    axes.bar(first["step"], first["accuracy"], 0.7, color=ERRORS, linewidth=0)
    axes.vlines(first["step"], first["low"], first["high"], color="#8A3B1E", linewidth=1.4)
    dots = seeds[seeds["counted"] == "first wrong"]
    axes.plot(dots["step"], dots["accuracy"], "o", ms=3, mfc="white", mec="#8A3B1E", mew=0.7)
    axes.plot(right["step"], right["accuracy"], "o-", ms=3.5, color=LINE)
    last = int(part["step"].max())
    names = ["operands", "first carry", *(f"line {line}" for line in range(1, last - 1)), "answer"]
    axes.set_xticks(range(last + 1), names, rotation=60, ha="right", fontsize="small")
    axes.set_title(f"{digits} digits", fontsize="small")
    axes.grid(visible=False, axis="x")
