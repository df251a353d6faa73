"""Answers of untrained lengths: their kinds of errors, and the places of their first errors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from carry.plots import lengths, load, style

# Label, colour and hatch of each kind of answer (see `carry.analyses.learning`). The colours are
# pale, so that readers do not take them for schemes.
KINDS = {
    "right": ("right", "#DDDDDD", ""),
    "wrong digits": ("right length, wrong digits", "#EE8866", ""),
    "stops early": ("stops early", "#77AADD", ""),
    "middle lost": ("the middle is lost", "#44BB99", "xxx"),
    "shorter": ("shorter for other reasons", "#99DDFF", "---"),
    "longer": ("longer, or without end", "#EEDD88", "///"),
}
COLUMNS = 3  # of panels
END = -1  # instead of a place: the token after the answer
KEYS = ["row", "trained", "digits"]
FIRST_WRONG, CORRECT = "first wrong", "correct under teacher forcing"
ERRORS, LINE = "#EE8866", "#222222"


@style.use_style
def draw_answer_kinds(
    tables: load.ResultTables, names: Mapping[str, str] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw the kinds of decoded answers by number of digits, one panel for each row.

    Args:
        tables: result tables with answer kinds.
        names: labels of rows in this figure, if other than their usual labels.
    """
    trained, rows = (
        lengths.find_trained_lengths(tables),
        load.list_rows(tables["answer_kinds"]),
    )
    table = load.average_seeds(tables["answer_kinds"], [*KEYS, "kind"], "count")
    table, learned = lengths.add_region_column(table, trained), lengths.count_learned(tables)
    figure, panels = lengths.make_wide_panels(len(rows), COLUMNS, (2.9, 2.4), sharey=True)
    for axes, row in zip(panels, rows, strict=True):
        part = table[table["row"] == row]
        lengths.shade_lengths(axes, part, 0.0, 0.07)
        _draw_stacked_bars(axes, part)
        title = lengths.make_panel_title(row, trained[row], names, learned)
        axes.set_title(title, fontsize="small")
        axes.set_ylim(-0.08, 1.0)
        axes.set_yticks([0, 0.5, 1])
        axes.grid(visible=False)
        style.format_percent(axes.yaxis)
    for axes in panels[::COLUMNS]:
        axes.set_ylabel("answers")
    figure.supxlabel("digits of both operands", fontsize="medium")
    handles = [
        Patch(facecolor=color, hatch=hatch, edgecolor="white", label=label)
        for label, color, hatch in reversed(KINDS.values())
    ]
    figure.legend(handles=handles, loc="outside right center", title="kind of answer")
    lengths.draw_region_legend(figure, table)
    return figure, table


def _draw_stacked_bars(axes: Axes, part: pd.DataFrame) -> None:
    """Draw the shares of all kinds on top of each other, one bar for each length."""
    wide = part.pivot_table(index="digits", columns="kind", values="accuracy").sort_index()
    bottom = np.zeros(len(wide))
    for kind, (_, color, hatch) in KINDS.items():
        share = wide[kind].to_numpy(dtype=float)
        bar = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4}
        axes.bar(wide.index, share, 0.82, bottom=bottom, **bar)
        bottom = bottom + share


@style.use_style
def draw_first_wrong_places(
    tables: load.ResultTables,
    highest_first: tuple[str, ...],
    names: Mapping[str, str] | None = None,
) -> tuple[Figure, pd.DataFrame]:
    """Draw the places of first errors, and the share of correct digits at each place.

    A row has up to two lengths: the longest untrained length within its training range, and the
    shortest length beyond it. A panel has the places in the order of writing.

    Args:
        tables: result tables with places and cells.
        highest_first: rows that write the most significant digit of the answer first.
        names: labels of rows in this figure, if other than their usual labels.
    """
    trained, table = lengths.find_trained_lengths(tables), make_place_table(tables)
    learned = lengths.count_learned(tables)
    order = list(lengths.REGIONS)
    keys = list(table.groupby(["region", "row"], sort=False).groups)
    keys.sort(key=lambda key: order.index(key[0]))
    columns = max(sum(key[0] == region for key in keys) for region in order)
    figure, panels = lengths.make_wide_panels(len(keys), columns, (2.7, 2.5), sharey=True)
    for axes, (region, row) in zip(panels, keys, strict=True):
        part = table[(table["row"] == row) & (table["region"] == region)]
        _draw_places(axes, part, row in highest_first)
        title = lengths.make_panel_title(row, trained[row], names, learned)
        axes.set_title(f"{title}; here {part['digits'].iloc[0]}", fontsize="small")
        _, color, hatch = lengths.REGIONS[region]
        axes.patch.set(facecolor=color, hatch=hatch, edgecolor="#EFE0AE", linewidth=0)
        style.format_percent(axes.yaxis)
    for axes in panels[::columns]:
        axes.set_ylabel("answers, digits")
    label = "place of the answer, in the order of writing (0: least significant)"
    label += load.describe_starts(load.choose_starts(tables["cells"]).values())
    figure.supxlabel(label, fontsize="medium")
    line = Line2D([], [], marker="o", ms=3.5, color=LINE, label=f"digits {CORRECT}")
    bar = Patch(facecolor=ERRORS, label="answers with their first wrong token here")
    lengths.draw_region_legend(figure, table, (line, bar))
    return figure, table


def make_place_table(tables: load.ResultTables) -> pd.DataFrame:
    """Return correct digits and first errors by place, for untrained lengths.

    The column `counted` names the two: of `n` digits at a `place`, `count` are correct under
    teacher forcing; of `n` answers, `count` have their first wrong token there (`END`: after the
    answer).
    """
    trained, starts = lengths.find_trained_lengths(tables), load.choose_starts(tables["cells"])
    places = load.select_start(tables["places"], starts)
    cells = load.select_start(tables["cells"], starts)
    cells = cells[cells["set"] == "equal"].rename(columns={"i": "digits"})
    correct = load.average_seeds(places, [*KEYS, "place"], "correct")
    correct = correct.rename(columns={"correct": "count"})
    keys = [*KEYS, "seed"]
    first, answers = places[[*keys, "place", "first_wrong"]], cells.set_index(keys)
    before_end = first.groupby(keys, sort=False)["first_wrong"].sum()
    at_end = (answers["n"] - answers["exact"] - before_end).rename("first_wrong").reset_index()
    first = pd.concat([first, at_end.assign(place=END)]).join(answers["n"], on=keys)
    first = load.average_seeds(first, [*KEYS, "place"], "first_wrong")
    first = first.rename(columns={"first_wrong": "count"})
    parts = [first.assign(counted=FIRST_WRONG), correct.assign(counted=CORRECT)]
    table = lengths.add_region_column(pd.concat(parts, ignore_index=True), trained)
    untrained = _select_lengths(table[table["region"] != lengths.TRAINED])
    return load.select_rows(untrained, load.list_rows(tables["cells"])).reset_index(drop=True)


def _select_lengths(table: pd.DataFrame) -> pd.DataFrame:
    """Return the longest length within the training range of each row, and the shortest beyond."""
    digits = table.groupby(["row", "region"])["digits"]
    longest, shortest = digits.transform("max"), digits.transform("min")
    return table[table["digits"] == longest.where(table["region"] == lengths.WITHIN, shortest)]


def _draw_places(axes: Axes, part: pd.DataFrame, highest_first: bool) -> None:
    """Draw one panel: bars for first errors, a line for correct digits."""
    top = int(part["place"].max())
    order = [*(range(top, -1, -1) if highest_first else range(top + 1)), END]
    for counted, points in part.groupby("counted"):
        points = points.assign(at=points["place"].map(order.index)).sort_values("at")
        at, accuracy = points["at"], points["accuracy"]
        if counted == FIRST_WRONG:
            axes.bar(at, accuracy, 0.7, color=ERRORS, linewidth=0)
            axes.vlines(at, points["low"], points["high"], color="#8A3B1E", linewidth=1.4)
        else:
            ends = [accuracy - points["low"], points["high"] - accuracy]
            axes.errorbar(at, accuracy, ends, fmt="none", ecolor=LINE, elinewidth=1)
            axes.plot(at, accuracy, "o-", ms=3.5, color=LINE)
    step = lengths.choose_tick_step(len(order))
    ticks = range(len(order))[::-step][::-1]  # the end has a tick
    axes.set_xticks(ticks, ["end" if order[at] == END else str(order[at]) for at in ticks])
    axes.set_ylim(-0.03, 1.05)
    axes.grid(visible=False, axis="x")
