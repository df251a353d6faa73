"""Where a long response goes wrong: each step by itself, and which is the first to fail."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from carry.evaluation.intervals import wilson_interval
from carry.plots import load, style

TIMES = (1.0, 1.3, 2.0, 3.0)  # of the training lengths; 13 is 1.3 times the paper's 10
COLUMNS = ["row", "start", "seed", "trained", "digits", "step", "n", "correct", "accuracy"]
COLUMNS += ["low", "high", "first_wrong", "first", "first_low", "first_high"]


@style.styled
def by_step(
    steps: pd.DataFrame,
    starts: dict[str, str],
    step: str,
    length: str = "{0} operands\nof {0} digits",
    times: Sequence[float] = TIMES,
    halves: tuple[str, str] | None = None,
) -> tuple[Figure, pd.DataFrame]:
    """Draw how many steps are right given the truth before, and in which one errors begin.

    Above, a step stands by itself; below, of all responses, the share whose first wrong token lies
    in it, so that these shares add up to all responses that are not wholly right.

    Args:
        steps: accuracy by step.
        starts: where the ids of each row start, as `load.starts` gives them.
        step: what a step is.
        length: what a length counts.
        times: lengths, as multiples of the training length.
        halves: what the steps of the first half are, and those of the second.
    """
    trained, there = int(steps["trained"].max()), set(steps["digits"])
    wanted = [int(trained * more) for more in times if int(trained * more) in there]
    here = load.at_start(steps, starts)
    here = here[here["digits"].isin(wanted)]
    low, high = wilson_interval(here["first_wrong"], here["n"])
    more = {"first": here["first_wrong"] / here["n"], "first_low": low, "first_high": high}
    table = here.assign(**more)[COLUMNS].reset_index(drop=True)
    drawn_as = {"accuracy": "right, given\nthe truth before", "first": "the first to be wrong"}
    size = (2.3, 2.2)
    count = 2 * len(wanted)
    figure, drawn = style.panels(count, len(wanted), size, sharey="row", sharex="col")
    for number, axes in enumerate(drawn):
        column, digits = list(drawn_as)[number // len(wanted)], wanted[number % len(wanted)]
        part = table[table["digits"] == digits]
        for row in load.rows(table):
            style.seeds_and_median(axes, part[part["row"] == row], row, "step", column)
        if halves:
            middle = part["step"].max() / 2
            axes.axvline(middle, color="#999999", linewidth=0.8, linestyle=":")
        axes.set_title(length.format(digits) if column == "accuracy" else "", fontsize="medium")
        axes.set_ylabel(drawn_as[column] if number % len(wanted) == 0 else "")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        style.percent(axes.yaxis)
    drawn[0].set_ylim(-0.03, 1.03)
    drawn[-1].set_ylim(0, 1.05 * max(0.1, table["first"].max()))
    label = f"{step}; left of the dots {halves[0]}, right {halves[1]}" if halves else step
    figure.supxlabel(label, fontsize="medium")
    style.legend(figure, load.rows(table), trained=load.lengths(table))
    return figure, table
