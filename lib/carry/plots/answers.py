"""How answers of lengths that were not trained go wrong: their kinds, and where errors begin."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from carry.evaluation.intervals import wilson_interval
from carry.plots import lengths, load, style

# Pale and hatched, so that nobody takes them for schemes; those of `carry.analyses.learning`.
KINDS = {
    "right": ("right", "#DDDDDD", ""),
    "wrong digits": ("wrong digits, as many", "#EE8866", ""),
    "stops early": ("stops early", "#77AADD", ""),
    "middle lost": ("the middle is lost", "#44BB99", "xxx"),
    "shorter": ("shorter, none of these", "#99DDFF", "---"),
    "longer": ("longer, or no end", "#EEDD88", "///"),
}
COLUMNS = 3
END = -1  # instead of a place: the token behind the answer
KEYS = ["row", "trained", "digits"]
FIRST, GIVEN = "first wrong", "right, given the truth before"
ERRORS, LINE = "#EE8866", "#222222"


@style.styled
def kinds(
    tables: load.Tables, names: Mapping[str, str] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw what whole decoded answers look like by number of digits, a panel for each row.

    Args:
        tables: of which `written` is drawn.
        names: of rows that are not to be called by their names.
    """
    known, rows = lengths.seen(tables), load.rows(tables.written)
    table = lengths.batched_seeds(tables.written, [*KEYS, "kind"], "count")
    table = lengths.with_region(table, known)
    figure, drawn = lengths.grid(len(rows), COLUMNS, (2.9, 2.4), sharey=True)
    for axes, row in zip(drawn, rows, strict=True):
        part = table[table["row"] == row]
        lengths.shade(axes, part, 0.0, 0.07)
        _stacked(axes, part)
        axes.set_title(lengths.title(row, known[row], names), fontsize="small")
        axes.set_ylim(-0.08, 1.0)
        axes.set_yticks([0, 0.5, 1])
        axes.grid(visible=False)
        style.percent(axes.yaxis)
    for axes in drawn[::COLUMNS]:
        axes.set_ylabel("answers")
    figure.supxlabel("digits of both operands", fontsize="medium")
    handles = [
        Patch(facecolor=color, hatch=hatch, edgecolor="white", label=label)
        for label, color, hatch in reversed(KINDS.values())
    ]
    figure.legend(handles=handles, loc="outside right center", title="what is written")
    lengths.name_regions(figure, table)
    return figure, table


def _stacked(axes: Axes, part: pd.DataFrame) -> None:
    wide = part.pivot_table(index="digits", columns="kind", values="accuracy").sort_index()
    below = np.zeros(len(wide))
    for kind, (_, color, hatch) in KINDS.items():
        share = wide[kind].to_numpy(dtype=float)
        axes.bar(
            wide.index, share, 0.82, bottom=below, color=color, hatch=hatch, edgecolor="white",
            linewidth=0.4,
        )  # fmt: skip
        below = below + share


@style.styled
def first_wrong(
    tables: load.Tables, highest_first: tuple[str, ...], names: Mapping[str, str] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw in which place answers begin to be wrong, and how many digits are right at each.

    Two lengths of each row are drawn, if it has them: the longest that was left out within those
    of training, and the shortest beyond. Each panel is read as the answer is written.

    Args:
        tables: whose places and cells are drawn.
        highest_first: rows whose answers are not written with the ones first.
        names: of rows that are not to be called by their names.
    """
    known, table = lengths.seen(tables), place_table(tables)
    panels = list(table.groupby(["region", "row"], sort=False).groups)
    panels.sort(key=lambda of: list(lengths.REGIONS).index(of[0]))
    columns = max(sum(region == of for region, _ in panels) for of in lengths.REGIONS)
    figure, drawn = lengths.grid(len(panels), columns, (2.7, 2.5), sharey=True)
    for axes, (region, row) in zip(drawn, panels, strict=True):
        part = table[(table["row"] == row) & (table["region"] == region)]
        _places(axes, part, row in highest_first)
        name, trained = lengths.title(row, known[row], names).rsplit("\n", 1)
        said = f"{name}\n{trained}, here {part['digits'].iloc[0]}"
        axes.set_title(said, fontsize="small")
        _, color, hatch = lengths.REGIONS[region]
        axes.patch.set(facecolor=color, hatch=hatch, edgecolor="#EFE0AE", linewidth=0)
        style.percent(axes.yaxis)
    for axes in drawn[::columns]:
        axes.set_ylabel("answers, digits")
    figure.supxlabel(
        "place of the answer, in the order of writing (0: the ones)", fontsize="medium"
    )
    line = Line2D([], [], marker="o", ms=3.5, color=LINE, label=f"digits {GIVEN}")
    bar = Patch(facecolor=ERRORS, label=f"answers whose {FIRST} token is here")
    lengths.name_regions(figure, table, (line, bar))
    return figure, table


def place_table(tables: load.Tables) -> pd.DataFrame:
    """Return by place, at lengths that were not trained, what is right and what is first wrong.

    `shown` tells the two apart: of `n` digits at a `place`, `count` are right, given the truth
    before them; and of `n` answers `count` have their first wrong token there (`END`: behind it).
    """
    known, begun = lengths.seen(tables), load.starts(tables.cells)
    places = load.at_start(tables.places, begun)
    cells = load.at_start(tables.cells, begun)
    cells = cells[cells["set"] == "equal"].rename(columns={"i": "digits"})
    given = lengths.batched_seeds(places, [*KEYS, "place"], "correct")
    given = given.rename(columns={"correct": "count"})
    whole = lengths.batched_seeds(cells, KEYS, "exact").set_index(KEYS)
    first = places.groupby([*KEYS, "place"], as_index=False, sort=False)["first_wrong"].sum()
    told = first.groupby(KEYS, sort=False)["first_wrong"].sum()
    ended = (whole["n"] - whole["exact"] - told).rename("first_wrong").reset_index()
    first = pd.concat([first, ended.assign(place=END)], ignore_index=True)
    first = first.rename(columns={"first_wrong": "count"}).join(whole[["n", "seeds"]], on=KEYS)
    low, high = wilson_interval(first["count"], first["n"])
    first = first.assign(accuracy=first["count"] / first["n"], low=low, high=high)
    table = pd.concat([first.assign(shown=FIRST), given.assign(shown=GIVEN)], ignore_index=True)
    table = lengths.with_region(table, known)
    new = table[table["region"] != lengths.TRAINED]
    chosen = {
        (row, region, int(of.max() if region == lengths.WITHIN else of.min()))
        for (row, region), of in new.groupby(["row", "region"])["digits"]
    }
    named = zip(new["row"], new["region"], new["digits"], strict=True)
    new = new[[of in chosen for of in named]]
    return load.pick(new, load.rows(tables.cells)).reset_index(drop=True)


def _places(axes: Axes, part: pd.DataFrame, highest_first: bool) -> None:
    """Draw one panel: bars for first errors, a line for digits right."""
    top = int(part["place"].max())
    order = [*(range(top, -1, -1) if highest_first else range(top + 1)), END]
    for shown, of in part.groupby("shown"):
        of = of.assign(at=of["place"].map(order.index)).sort_values("at")
        if shown == FIRST:
            axes.bar(of["at"], of["accuracy"], 0.7, color=ERRORS, linewidth=0)
            axes.vlines(of["at"], of["low"], of["high"], color="#8A3B1E", linewidth=1.4)
        else:
            ends = [of["accuracy"] - of["low"], of["high"] - of["accuracy"]]
            axes.errorbar(of["at"], of["accuracy"], ends, fmt="none", ecolor=LINE, elinewidth=1)
            axes.plot(of["at"], of["accuracy"], "o-", ms=3.5, color=LINE)
    ticks = range(len(order))[:: -lengths.step(len(order))][::-1]  # the end has one
    axes.set_xticks(ticks, ["end" if order[at] == END else str(order[at]) for at in ticks])
    axes.set_ylim(-0.03, 1.05)
    axes.grid(visible=False, axis="x")
