"""Three scores of a response with steps: the answer after true or own steps, or every token."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from carry.evaluation.intervals import add_interval, pool_cells
from carry.plots import load, style

LABELS = ["row", "start", "seed", "trained", "digits"]
SCORES = ["n", "right", "accuracy", "low", "high"]
SCORINGS = {
    "teacher forced": "the answer,\nafter the true steps",
    "decoded": "the answer,\nafter the model's steps",
    "all tokens": "every token\nof the response",
}


def make_scoring_table(cells: pd.DataFrame, places: pd.DataFrame, width: int = 1) -> pd.DataFrame:
    """Return accuracy on equal lengths for each `scoring`.

    The answer is the last written place; after the true steps it is one of many steps. Without
    steps all three scores are equal, except for the token at the end.

    Args:
        cells, places: accuracy by cell and by place.
        width: number of lengths that are pooled, up to `digits`.
    """
    equal = cells[cells["set"] == "equal"].rename(columns={"i": "digits"})
    has_steps = equal["digits_right"].notna()
    decoded = equal["digits_right"].where(has_steps, equal["exact"]).astype(int)
    forced = _select_last_places(places).rename(columns={"correct": "right"})
    parts = [
        forced.assign(scoring="teacher forced"),
        add_interval(equal.assign(scoring="decoded", right=decoded), "right"),
        equal.rename(columns={"exact": "right"}).assign(scoring="all tokens"),
    ]
    table = pd.concat([part[["scoring", *LABELS, *SCORES]] for part in parts], ignore_index=True)
    table["digits"] = -(-table["digits"] // width) * width
    table = pool_cells(table, ["scoring", *LABELS], "right")
    table = load.select_start(table, load.choose_starts(cells))
    table = load.select_rows(table, load.list_rows(cells))
    order = table["scoring"].map(list(SCORINGS).index)
    return table.loc[order.sort_values(kind="stable").index].reset_index(drop=True)


def _select_last_places(places: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy at the last place of each length."""
    last = places.groupby(["row", "digits"])["place"].transform("max")
    return places[places["place"] == last]


@style.use_style
def draw_accuracy_by_scoring(
    cells: pd.DataFrame,
    places: pd.DataFrame,
    noun: str,
    guess: float | None = None,
    width: int = 1,
) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by length for each scoring: thin lines are seeds, thick lines medians.

    Args:
        cells, places: accuracy by cell and by place.
        noun: unit of the lengths.
        guess: accuracy of a guess.
        width: number of lengths that are pooled.
    """
    table, unlearned = make_scoring_table(cells, places, width), load.find_unlearned(cells)
    figure, panels = style.make_panels(len(SCORINGS), 3, (3.1, 3.3), sharey=True, sharex=True)
    for axes, (scoring, title) in zip(panels, SCORINGS.items(), strict=True):
        part = table[table["scoring"] == scoring]
        shade = {"color": style.TRAINED_COLOR, "alpha": 0.6, "zorder": 0, "linewidth": 0}
        for trained in sorted(part["trained"].unique()):
            axes.axvspan(part["digits"].min(), trained, **shade)
        for row in load.list_rows(table):
            lines = part[part["row"] == row]
            style.draw_seeds_and_median(axes, lines, row, "digits", "accuracy", unlearned)
        if guess is not None:
            axes.axhline(guess, color="#444444", linewidth=1, linestyle=":")
        axes.set_title(title, fontsize="medium")
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlim(part["digits"].min(), part["digits"].max())
        style.format_percent(axes.yaxis)
    label = noun + load.describe_starts(table["start"].unique())
    figure.supxlabel(label, fontsize="medium")
    panels[0].set_ylabel("correct")
    trained = load.find_training_lengths(table)
    style.draw_legend(figure, load.list_rows(table), trained=trained, unlearned=unlearned)
    return figure, table
