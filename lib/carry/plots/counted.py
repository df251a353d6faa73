"""What counts as right, where steps stand before the answer: three ways to score one response."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from carry.evaluation.intervals import add_interval, pool_cells
from carry.plots import load, style

LABELS = ["row", "start", "seed", "trained", "digits"]
SCORES = ["n", "right", "accuracy", "low", "high"]
COUNTED = {
    "given": "the answer,\ngiven the true steps",
    "decoded": "the answer,\nafter its own steps",
    "whole": "every token\nof the response",
}


def ways(cells: pd.DataFrame, places: pd.DataFrame, width: int = 1) -> pd.DataFrame:
    """Return accuracy by length, `counted` in each of three ways, for equal lengths.

    The answer is the last place that is written; given the true steps before it, this is one step
    of many. Without steps all three are the same, but for the end behind the answer.

    Args:
        cells, places: accuracy by cell and by place.
        width: lengths that are counted together, up to `digits`.
    """
    equal = cells[cells["set"] == "equal"].rename(columns={"i": "digits"})
    steps = equal["digits_right"].notna()
    decoded = equal["digits_right"].where(steps, equal["exact"]).astype(int)
    parts = [
        _last(places).rename(columns={"correct": "right"}).assign(counted="given"),
        add_interval(equal.assign(counted="decoded", right=decoded), "right"),
        equal.rename(columns={"exact": "right"}).assign(counted="whole"),
    ]
    table = pd.concat([of[["counted", *LABELS, *SCORES]] for of in parts], ignore_index=True)
    table["digits"] = -(-table["digits"] // width) * width
    table = pool_cells(table, ["counted", *LABELS], "right")
    table = load.pick(load.at_start(table, load.starts(cells)), load.rows(cells))
    order = table["counted"].map(list(COUNTED).index)
    return table.loc[order.sort_values(kind="stable").index].reset_index(drop=True)


def _last(places: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy at the last place of each length."""
    last = places.groupby(["row", "digits"])["place"].transform("max")
    return places[places["place"] == last]


@style.styled
def by_length(
    cells: pd.DataFrame,
    places: pd.DataFrame,
    noun: str,
    guess: float | None = None,
    width: int = 1,
) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by length for each way of counting: thin lines are seeds, thick ones medians.

    Args:
        cells, places: accuracy by cell and by place.
        noun: what lengths count.
        guess: what a guess gets right.
        width: lengths that are counted together.
    """
    table = ways(cells, places, width)
    figure, drawn = style.panels(len(COUNTED), 3, (3.1, 3.3), sharey=True, sharex=True)
    for axes, (way, title) in zip(drawn, COUNTED.items(), strict=True):
        here = table[table["counted"] == way]
        for trained in sorted(here["trained"].unique()):
            axes.axvspan(
                here["digits"].min(), trained, color=style.SHADE, alpha=0.6, zorder=0, linewidth=0
            )
        for row in load.rows(table):
            part = here[here["row"] == row]
            style.seeds_and_median(axes, part, row, "digits", "accuracy")
        if guess is not None:
            axes.axhline(guess, color="#444444", linewidth=1, linestyle=":")
        axes.set_title(title, fontsize="medium")
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlim(here["digits"].min(), here["digits"].max())
        style.percent(axes.yaxis)
    figure.supxlabel(noun, fontsize="medium")
    drawn[0].set_ylabel("right")
    style.legend(figure, load.rows(table), trained=load.lengths(table))
    return figure, table
