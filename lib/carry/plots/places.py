"""Accuracy by place of the answer, from the least significant digit."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from carry.plots import load, style


@style.use_style
def draw_accuracy_by_place(
    places: pd.DataFrame, start: str | dict[str, str] = "1", lengths: list[int] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of correct digits at each place of the answer, under teacher forcing.

    Args:
        places: accuracy by place.
        start: start of ids, for all rows or for each (as `load.choose_starts` returns them).
        lengths: digits of both operands; by default the training length, one more, and two and
            three times the training length.
    """
    trained = int(places["trained"].max())
    requested = lengths or [trained, trained + 1, 2 * trained, 3 * trained]
    tested = set(places["digits"])
    requested = [length for length in dict.fromkeys(requested) if length in tested]
    places = load.select_start(places, start)
    columns = ["row", "start", "seed", "digits", "place", "n", "correct", "accuracy", "low", "high"]
    table = places[places["digits"].isin(requested)][columns].reset_index(drop=True)
    figure, panels = style.make_panels(len(requested), 4, (2.3, 2.9), sharey=True)
    for axes, length in zip(panels, requested, strict=True):
        for row in load.list_rows(table):
            part = table[(table["row"] == row) & (table["digits"] == length)]
            style.draw_seeds_and_median(axes, part, row, "place", "accuracy")
        axes.set(title=f"{length} digits", ylim=(-0.03, 1.03))
        style.format_percent(axes.yaxis)
    panels[0].set_ylabel("correct digits")
    from_start = load.describe_starts(table["start"].unique())
    label = f"place in the answer (0: least significant){from_start}"
    figure.supxlabel(label, fontsize="medium")
    style.draw_legend(figure, load.list_rows(table), trained=load.find_training_lengths(places))
    return figure, table
