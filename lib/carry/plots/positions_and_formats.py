"""The comparison of positions and formats in ibrahimli2024, 4.3.4, next to ours."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.plots import lengths, load, style

# Exact match of the thesis at 1 to 7, 8, 10, 11 and 12 digits, by the ending of our row.
LENGTHS = ("1 to 7", "8", "10", "11", "12")
STATED = {
    "learned_plain": (1.0, 0.0, 0.0, 0.0, 0.0),
    "learned_reversed": (1.0, 0.0, 0.0, 0.0, 0.0),
    "learned_worded": (0.99, 0.0, 0.0, 0.0, 0.0),
    "learned_padded": (1.0, 0.99, 0.02, 0.0, 0.0),
    "learned_spaces": (1.0, 0.99, 0.75, 0.0, 0.0),
    "abacus_no_gap": (1.0, 1.0, 1.0, 1.0, 0.99),
}
PREFIX = "addition_equal_"


@style.use_style
def draw_positions_and_formats(
    tables: load.ResultTables, names: Mapping[str, str] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw exact match by length: above what the thesis has, below ours, one column for each row.

    Of rows with steps only the answer counts.

    Args:
        tables: result tables with cells.
        names: labels of rows in this figure, if other than their usual labels.
    """
    ours = lengths.make_length_table(tables)
    rows = [PREFIX + name for name in STATED if PREFIX + name in load.list_rows(ours)]
    trained, learned = lengths.find_trained_lengths(tables), lengths.count_learned(tables)
    figure, panels = style.make_panels(2 * len(rows), len(rows), (1.75, 2.2), sharey=True)
    for number, row in enumerate(rows):
        above, below = panels[number], panels[number + len(rows)]
        color = style.choose_style(row).color
        _draw_stated(above, STATED[row.removeprefix(PREFIX)], color)
        name = (names or {}).get(row) or style.choose_style(row).label
        above.set_title(name.replace(", ", ",\n"), fontsize="small")
        part = ours[ours["row"] == row]
        lengths.shade_lengths(below, part)
        lengths.draw_bars(below, row, part, learned[row])
        title = lengths.make_panel_title(row, trained[row], {row: " "}, learned)
        below.set_title(title.strip(), fontsize="small")
    panels[0].set(ylim=(-0.04, 1.06), ylabel="thesis")
    panels[len(rows)].set_ylabel("ours")
    style.format_percent(panels[0].yaxis)
    figure.supxlabel("digits of both operands", fontsize="medium")
    stated = Line2D([], [], linestyle="none", label="stated in the thesis", **style.STATED_MARKER)
    lengths.draw_region_legend(figure, ours, (stated,))
    return figure, _join_sources(ours[ours["row"].isin(rows)], rows)


def _draw_stated(axes: Axes, accuracies: tuple[float, ...], color: str) -> None:
    """Draw the numbers of the thesis; its first length is trained."""
    for at in range(len(LENGTHS)):
        region = lengths.REGIONS[lengths.BEYOND if at else lengths.TRAINED]
        axes.axvspan(at - 0.5, at + 0.5, color=region[1], linewidth=0, zorder=0)
    axes.bar(range(len(LENGTHS)), accuracies, 0.62, color=color, alpha=0.5, linewidth=0)
    axes.plot(
        range(len(LENGTHS)), accuracies, linestyle="none", clip_on=False, **style.STATED_MARKER
    )
    axes.set_xticks(range(len(LENGTHS)), [LENGTHS[0].replace(" to ", "–"), *LENGTHS[1:]])
    axes.set_xlim(-0.5, len(LENGTHS) - 0.5)
    axes.grid(visible=False, axis="x")


def _join_sources(ours: pd.DataFrame, rows: list[str]) -> pd.DataFrame:
    """Return the accuracies of the thesis, which has no intervals, and ours in one table."""
    stated = [
        {"source": "thesis", "row": row, "digits": digits}
        | dict.fromkeys(("accuracy", "low", "high"), accuracy)
        for row in rows
        for digits, accuracy in zip(LENGTHS, STATED[row.removeprefix(PREFIX)], strict=True)
    ]
    ours = ours.assign(source="ours", digits=ours["digits"].astype(str))
    columns = ["source", "row", "digits", "seed", "n", "right", "accuracy", "low", "high"]
    return pd.concat([pd.DataFrame(stated), ours], ignore_index=True)[columns]
