"""Errors in long responses: accuracy of each step, and the first wrong step."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from carry.evaluation.intervals import wilson_interval
from carry.plots import load, style

TIMES = (1.0, 1.3, 2.0, 3.0)  # the training length; 13 is 1.3 times the 10 of cho2025
COLUMNS = ["row", "start", "seed", "trained", "digits", "step", "n", "correct", "accuracy"]
COLUMNS += ["low", "high", "first_wrong", "first", "first_low", "first_high"]
LABELS = {"accuracy": "correct under\nteacher forcing", "first": "first wrong step"}


@style.use_style
def draw_accuracy_by_step(
    steps: pd.DataFrame,
    starts: dict[str, str],
    step: str,
    length: str = "{0} operands\nof {0} digits",
    times: Sequence[float] = TIMES,
    halves: tuple[str, str] | None = None,
    unlearned: Collection[str] = (),
) -> tuple[Figure, pd.DataFrame]:
    """Draw the accuracy of each step under teacher forcing, and the share of first errors in it.

    The lower panels have the share of all responses whose first wrong token is in a step; these
    shares add up to the share of wrong responses.

    Args:
        steps: accuracy by step.
        starts: start of ids of each row, as `load.choose_starts` returns them.
        step: name of a step.
        length: unit of a length.
        times: lengths, as multiples of the training length.
        halves: names of the first and the second half of the steps.
        unlearned: the rows that have not learned their training lengths.
    """
    table, lengths = _make_step_table(steps, starts, times)
    count, size = 2 * len(lengths), (max(2.3, 9 / len(lengths)), 2.2)
    figure, panels = style.make_panels(count, len(lengths), size, sharey="row", sharex="col")
    for number, axes in enumerate(panels):
        column, digits = list(LABELS)[number // len(lengths)], lengths[number % len(lengths)]
        part = table[table["digits"] == digits]
        for row in load.list_rows(table):
            lines = part[part["row"] == row]
            style.draw_seeds_and_median(axes, lines, row, "step", column, unlearned)
        if halves:
            middle = part["step"].max() / 2
            axes.axvline(middle, color="#999999", linewidth=0.8, linestyle=":")
        axes.set_title(length.format(digits) if column == "accuracy" else "", fontsize="medium")
        axes.set_ylabel(LABELS[column] if number % len(lengths) == 0 else "")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        style.format_percent(axes.yaxis)
    panels[0].set_ylim(-0.03, 1.03)
    panels[-1].set_ylim(0, 1.05 * max(0.1, table["first"].max()))
    label = f"{step}; left of the dots {halves[0]}, right {halves[1]}" if halves else step
    label += load.describe_starts(table["start"].unique())
    figure.supxlabel(label, fontsize="medium")
    trained = load.find_training_lengths(table)
    style.draw_legend(figure, load.list_rows(table), trained=trained, unlearned=unlearned)
    return figure, table


def _make_step_table(
    steps: pd.DataFrame, starts: dict[str, str], times: Sequence[float]
) -> tuple[pd.DataFrame, list[int]]:
    """Return accuracy and first errors by step, and the tested lengths among the requested."""
    trained, tested = int(steps["trained"].max()), set(steps["digits"])
    lengths = list(dict.fromkeys(int(trained * factor) for factor in times))
    lengths = [length for length in lengths if length in tested]
    table = load.select_start(steps, starts)
    table = table[table["digits"].isin(lengths)]
    low, high = wilson_interval(table["first_wrong"], table["n"])
    first = table["first_wrong"] / table["n"]
    table = table.assign(first=first, first_low=low, first_high=high)
    return table[COLUMNS].reset_index(drop=True), lengths
