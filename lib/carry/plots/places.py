"""Which digits of an answer are right: accuracy by place, the ones first."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from carry.plots import load, style


@style.styled
def by_place(
    places: pd.DataFrame, start: str | dict[str, str] = "1", lengths: list[int] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of right digits at each place of the answer, for a few operand lengths.

    Every digit is judged with the right digits before it, as in the single pass that scores.

    Args:
        places: accuracy by place.
        start: where ids start, for all rows or for each one (as `load.starts` gives them).
        lengths: digits of both operands; by default as trained, one more, twice and thrice that.
    """
    trained = int(places["trained"].max())
    wanted = lengths or [trained, trained + 1, 2 * trained, 3 * trained]
    there = set(places["digits"])
    wanted = [length for length in dict.fromkeys(wanted) if length in there]
    here = load.at_start(places, start)
    columns = ["row", "start", "seed", "digits", "place", "n", "correct", "accuracy", "low", "high"]
    table = here[here["digits"].isin(wanted)][columns].reset_index(drop=True)
    figure, drawn = style.panels(len(wanted), 4, (2.3, 2.9), sharey=True)
    for axes, length in zip(drawn, wanted, strict=True):
        for row in load.rows(table):
            part = table[(table["row"] == row) & (table["digits"] == length)]
            style.seeds_and_median(axes, part, row, "place", "accuracy")
        axes.set(title=f"{length} digits", ylim=(-0.03, 1.03))
        style.percent(axes.yaxis)
    drawn[0].set_ylabel("digits right")
    figure.supxlabel("place in the answer (0 is the ones)", fontsize="medium")
    style.legend(figure, load.rows(table), trained=load.lengths(places))
    return figure, table
