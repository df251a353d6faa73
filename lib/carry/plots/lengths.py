"""How far models carry that were trained on some lengths and not on others.

A row may leave lengths out within those that it was trained on (1 to 4 and 6 digits), so that what
is new to it lies within its range or beyond.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from carry.config import run_settings
from carry.evaluation.intervals import add_interval, pool_cells
from carry.plots import load, style

# Backgrounds of lengths, for any scheme in front: what is said of them, colour, hatch.
TRAINED, WITHIN, BEYOND = "trained", "within", "beyond"
REGIONS = {
    TRAINED: ("length of training", "#E2E2E2", ""),
    WITHIN: ("never trained, within them", "#FFF1C2", r"\\"),
    BEYOND: ("never trained, beyond them", "#DCEBF8", ""),
}
KEYS = ["row", "trained", "digits"]


def seen(tables: load.Tables) -> dict[str, list[int]]:
    """Return the lengths that each row was trained on."""
    named = tables.cells.drop_duplicates("row")
    return {
        row: run_settings.load_run(row, profile).lengths()
        for row, profile in zip(named["row"], named["profile"], strict=True)
    }


def region(digits: int, lengths: Iterable[int]) -> str:
    """Return whether a length was trained, left out within those that were, or lies beyond.

    >>> [region(digits, [1, 2, 3, 4, 6]) for digits in (4, 5, 6, 7)]
    ['trained', 'within', 'trained', 'beyond']
    """
    if digits in (known := set(lengths)):
        return TRAINED
    return WITHIN if digits < max(known) else BEYOND


def with_region(table: pd.DataFrame, lengths: Mapping[str, list[int]]) -> pd.DataFrame:
    """Return a table with a column `region`, from its columns `row` and `digits`."""
    named = zip(table["row"], table["digits"], strict=True)
    return table.assign(region=[region(digits, lengths[row]) for row, digits in named])


def said(lengths: Iterable[int]) -> str:
    """Return lengths in words.

    >>> said([1, 2, 3]), said([1, 2, 3, 4, 6]), said([2])
    ('1 to 3', '1 to 4 and 6', '2')
    """
    spans: list[list[int]] = []
    for length in sorted(lengths):
        if spans and length == spans[-1][-1] + 1:
            spans[-1].append(length)
        else:
            spans.append([length])
    words = [f"{of[0]} to {of[-1]}" if len(of) > 2 else ", ".join(map(str, of)) for of in spans]
    return " and ".join(", ".join(words).rsplit(", ", 1)) if len(words) > 1 else words[0]


def title(row: str, lengths: Iterable[int], names: Mapping[str, str] | None = None) -> str:
    """Return what a panel of a row is called, and on how many digits it was trained."""
    name = (names or {}).get(row) or style.look(row).label
    return f"{textwrap.fill(name, 34)}\ntrained on {said(lengths)} digits"


def together(table: pd.DataFrame, keys: list[str], hits: str) -> pd.DataFrame:
    """Return counts of all seeds together, with their share and its interval, and how many.

    >>> two = pd.DataFrame({"row": "a", "seed": [0, 1], "n": 10, "exact": [10, 4]})
    >>> together(two, ["row"], "exact")[["n", "accuracy", "seeds"]].values.tolist()
    [[20.0, 0.7, 2.0]]
    """
    seeds = table.groupby(keys, sort=False)["seed"].nunique().rename("seeds").reset_index()
    return pool_cells(table, keys, hits).merge(seeds, on=keys)


def grid(count: int, columns: int, size: tuple[float, float], whole: float = 7.4, **more: Any):
    """Return a figure and its panels, wider where few panels have to bear the names above them.

    Args:
        count, columns: how many panels there are, and how many side by side.
        size: width and height of each, in inches.
        whole: how wide all of them are at least.
        **more: what `style.panels` takes besides.
    """
    width = max(size[0], whole / min(count, columns))
    return style.panels(count, columns, (width, size[1]), **more)


@style.styled
def by_length(
    tables: load.Tables, names: Mapping[str, str] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw answers wholly right by number of digits, a panel for each row; dots are seeds.

    Behind a scratchpad the answer alone counts, as it is decoded after the model's own steps.

    Args:
        tables: whose cells are drawn.
        names: of rows that are not to be called by their names.
    """
    known, table = seen(tables), length_table(tables)
    rows = load.rows(table)
    columns = 4 if len(rows) in (4, 7, 8) else 3  # whatever leaves the fewest places empty
    figure, drawn = grid(len(rows), columns, (2.5, 2.35), sharey=True)
    for axes, row in zip(drawn, rows, strict=True):
        part = table[table["row"] == row]
        shade(axes, part)
        _bars(axes, row, part)
        axes.set_title(title(row, known[row], names), fontsize="small")
        axes.set_ylim(-0.04, 1.06)
        style.percent(axes.yaxis)
    for axes in drawn[::columns]:
        axes.set_ylabel("answers right")
    figure.supxlabel("digits of both operands", fontsize="medium")
    name_regions(figure, table)
    return figure, table


def length_table(tables: load.Tables) -> pd.DataFrame:
    """Return answers right by row and length, for each seed and (`seed`: all) for all together."""
    cells = load.at_start(tables.cells, load.starts(tables.cells))
    cells = cells[cells["set"] == "equal"].rename(columns={"i": "digits"})
    right = cells["digits_right"].where(cells["digits_right"].notna(), cells["exact"]).astype(int)
    cells = cells.assign(right=right)
    seeds = add_interval(cells[[*KEYS, "seed", "n", "right"]], "right").astype({"seed": str})
    both = [pool_cells(cells, KEYS, "right").assign(seed="all"), seeds]
    table = load.pick(pd.concat(both, ignore_index=True), load.rows(tables.cells))
    return with_region(table.reset_index(drop=True), seen(tables))


def _bars(axes: Axes, row: str, part: pd.DataFrame) -> None:
    """Draw a bar for each length: of all seeds, with their interval and dots for seeds."""
    look, pooled = style.look(row), part[part["seed"] == "all"]
    axes.bar(pooled["digits"], pooled["accuracy"], 0.62, color=look.color, linewidth=0)
    axes.vlines(pooled["digits"], pooled["low"], pooled["high"], color="#222222", linewidth=1.6)
    seeds = part[part["seed"] != "all"]
    names = sorted(seeds["seed"].unique())
    shift = seeds["seed"].map(names.index) - (len(names) - 1) / 2
    axes.plot(
        seeds["digits"] + 0.16 * shift, seeds["accuracy"], "o", ms=3.6, color="white", zorder=4,
        markeredgecolor="#222222", markeredgewidth=0.7, clip_on=False,
    )  # fmt: skip


def shade(axes: Axes, part: pd.DataFrame, low: float = 0.0, high: float = 1.0) -> None:
    """Say by the background which lengths were trained; `low` and `high` are shares of the height.

    All lengths have a tick, or every second of many.
    """
    for digits, where in part.groupby("digits")["region"].first().items():
        _, color, hatch = REGIONS[where]
        axes.axvspan(
            digits - 0.5, digits + 0.5, low, high, facecolor=color, hatch=hatch, zorder=0,
            edgecolor="#D8C58A", linewidth=0,
        )  # fmt: skip
    digits = sorted(part["digits"].unique())
    axes.set(xlim=(digits[0] - 0.5, digits[-1] + 0.5), xticks=digits[:: step(len(digits))])
    axes.grid(visible=False, axis="x")


def step(count: int) -> int:
    """Return that only every so many of some ticks have room below a panel.

    >>> step(8), step(12), step(20)
    (1, 2, 2)
    """
    return 1 + count // 11


def name_regions(figure: Figure, table: pd.DataFrame, more: tuple[Artist, ...] = ()) -> None:
    """Say above all panels what the backgrounds are that a figure has, and what `more` is."""
    handles = [
        Patch(facecolor=color, hatch=hatch, label=label, edgecolor="#D8C58A", linewidth=0)
        for of, (label, color, hatch) in REGIONS.items()
        if of in set(table["region"])
    ]
    count = len(handles) if len(more) + len(handles) > 3 else None
    handles = [*more, *handles]
    figure.legend(handles=handles, loc="outside upper center", ncols=count or len(handles))
