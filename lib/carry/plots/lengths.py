"""Accuracy of rows that train on some lengths and not on others.

A row may leave out lengths within its training range (1 to 4 and 6 digits). An untrained length is
then within this range or beyond it.
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
from carry.evaluation.regions import add_region, add_unseen_regions, mark_learned
from carry.plots import load, style

# Backgrounds of lengths: description, colour, hatch.
TRAINED, WITHIN, BEYOND = "trained", "within", "beyond"
REGIONS = {
    TRAINED: ("length of training", "#E2E2E2", ""),
    WITHIN: ("never trained, within them", "#FFF1C2", r"\\"),
    BEYOND: ("never trained, beyond them", "#DCEBF8", ""),
}
KEYS = ["row", "trained", "digits"]


def find_trained_lengths(tables: load.ResultTables) -> dict[str, list[int]]:
    """Return the lengths on which each row was trained."""
    rows = tables["cells"].drop_duplicates("row")
    return {
        row: run_settings.load_run(row, profile).trained_lengths()
        for row, profile in zip(rows["row"], rows["profile"], strict=True)
    }


def count_learned(tables: load.ResultTables) -> dict[str, tuple[int, int]]:
    """Return how many seeds of each row have learned their trained lengths, and of how many.

    Models that have not are no evidence about other lengths.
    """
    cells = load.select_start(tables["cells"], load.choose_starts(tables["cells"]))
    cells = add_unseen_regions(add_region(cells), find_trained_lengths(tables))
    seeds = mark_learned(cells).groupby(["row", "seed"])["learned"].first()
    counts = seeds.groupby("row", sort=False).agg(["sum", "count"])
    return {row: (int(learned), int(of)) for row, learned, of in counts.itertuples()}


def classify_length(digits: int, lengths: Iterable[int]) -> str:
    """Return whether a length was trained, is within the trained lengths, or is beyond them.

    >>> [classify_length(digits, [1, 2, 3, 4, 6]) for digits in (4, 5, 6, 7)]
    ['trained', 'within', 'trained', 'beyond']
    """
    trained = set(lengths)
    if digits in trained:
        return TRAINED
    return WITHIN if digits < max(trained) else BEYOND


def add_region_column(table: pd.DataFrame, lengths: Mapping[str, list[int]]) -> pd.DataFrame:
    """Add a column `region`, from the columns `row` and `digits`."""
    cells = zip(table["row"], table["digits"], strict=True)
    return table.assign(region=[classify_length(digits, lengths[row]) for row, digits in cells])


def format_lengths(lengths: Iterable[int]) -> str:
    """Return lengths in words.

    >>> format_lengths([1, 2, 3]), format_lengths([1, 2, 3, 4, 6]), format_lengths([2])
    ('1 to 3', '1 to 4 and 6', '2')
    """
    spans: list[list[int]] = []
    for length in sorted(lengths):
        if spans and length == spans[-1][-1] + 1:
            spans[-1].append(length)
        else:
            spans.append([length])
    words = [
        f"{span[0]} to {span[-1]}" if len(span) > 2 else ", ".join(map(str, span)) for span in spans
    ]
    return " and ".join(", ".join(words).rsplit(", ", 1)) if len(words) > 1 else words[0]


def make_panel_title(
    row: str,
    lengths: Iterable[int],
    names: Mapping[str, str] | None = None,
    learned: Mapping[str, tuple[int, int]] | None = None,
) -> str:
    """Return the title of a row's panel: its label and its trained lengths.

    Args:
        names: labels of rows, if other than their usual labels.
        learned: as `count_learned` returns it; seeds that have not learned are counted.

    >>> make_panel_title("addition_nope", [1, 2, 3], learned={"addition_nope": (2, 5)})
    'NoPE\\ntrained on 1 to 3 digits\\nnot learned by 3 of 5 seeds'
    """
    name = (names or {}).get(row) or style.choose_style(row).label
    title = f"{textwrap.fill(name, 34)}\ntrained on {format_lengths(lengths)} digits"
    count, of = (learned or {}).get(row, (0, 0))
    return title + (f"\nnot learned by {of - count} of {of} seeds" if count < of else "")


def make_wide_panels(
    count: int, columns: int, size: tuple[float, float], least_width: float = 7.4, **settings: Any
):
    """Return a figure and its panels, wider where few panels have long titles.

    Args:
        count, columns: number of panels, in all and in a line.
        size: width and height of each panel, in inches.
        least_width: least width of a line of panels.
        **settings: further arguments of `style.make_panels`.
    """
    width = max(size[0], least_width / min(count, columns))
    return style.make_panels(count, columns, (width, size[1]), **settings)


@style.use_style
def draw_accuracy_by_length(
    tables: load.ResultTables, names: Mapping[str, str] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw correct answers by number of digits, one panel for each row; dots are seeds.

    After a scratchpad only the answer counts, as it is decoded after the model's own steps.

    Args:
        tables: result tables with cells.
        names: labels of rows in this figure, if other than their usual labels.
    """
    trained, table = find_trained_lengths(tables), make_length_table(tables)
    rows, learned = load.list_rows(table), count_learned(tables)
    columns = 4 if len(rows) in (4, 7, 8) else 3  # leaves the fewest empty places
    figure, panels = make_wide_panels(len(rows), columns, (2.5, 2.35), sharey=True)
    for axes, row in zip(panels, rows, strict=True):
        part = table[table["row"] == row]
        shade_lengths(axes, part)
        draw_bars(axes, row, part, learned[row])
        axes.set_title(make_panel_title(row, trained[row], names, learned), fontsize="small")
        axes.set_ylim(-0.04, 1.06)
        style.format_percent(axes.yaxis)
    for axes in panels[::columns]:
        axes.set_ylabel("correct answers")
    from_start = load.describe_starts(load.choose_starts(tables["cells"]).values())
    figure.supxlabel(f"digits of both operands{from_start}", fontsize="medium")
    draw_region_legend(figure, table)
    return figure, table


def make_length_table(tables: load.ResultTables) -> pd.DataFrame:
    """Return correct answers by row and length, of each seed and of all (`load.score_seeds`)."""
    cells = load.select_start(tables["cells"], load.choose_starts(tables["cells"]))
    cells = cells[cells["set"] == "equal"].rename(columns={"i": "digits"})
    right = cells["digits_right"].where(cells["digits_right"].notna(), cells["exact"]).astype(int)
    table = load.score_seeds(cells.assign(right=right), KEYS, "right")
    table = load.select_rows(table, load.list_rows(tables["cells"])).reset_index(drop=True)
    return add_region_column(table, find_trained_lengths(tables))


def draw_bars(axes: Axes, row: str, part: pd.DataFrame, learned: tuple[int, int]) -> None:
    """Draw a bar for each length: the mean with its interval, and a dot for each seed.

    It is hollow unless more than half of the seeds have learned (see `count_learned`).
    """
    color, mean = style.choose_style(row).color, part[part["seed"] == "all"]
    fill = color if 2 * learned[0] > learned[1] else "white"
    axes.bar(mean["digits"], mean["accuracy"], 0.62, facecolor=fill, edgecolor=color, lw=0.8)
    axes.vlines(mean["digits"], mean["low"], mean["high"], color="#222222", linewidth=1.6)
    seeds = part[part["seed"] != "all"]
    names = sorted(seeds["seed"].unique())
    shift = seeds["seed"].map(names.index) - (len(names) - 1) / 2
    dots = {"color": "white", "markeredgecolor": "#222222", "markeredgewidth": 0.7, "zorder": 4}
    digits = seeds["digits"] + 0.16 * shift
    axes.plot(digits, seeds["accuracy"], "o", ms=3.6, clip_on=False, **dots)


def shade_lengths(axes: Axes, part: pd.DataFrame, low: float = 0.0, high: float = 1.0) -> None:
    """Shade each length by its region; `low` and `high` are shares of the panel's height.

    Each length has a tick, or every second of many.
    """
    for digits, region in part.groupby("digits")["region"].first().items():
        _, color, hatch = REGIONS[region]
        area = {"facecolor": color, "hatch": hatch, "edgecolor": "#D8C58A", "linewidth": 0}
        axes.axvspan(digits - 0.5, digits + 0.5, low, high, zorder=0, **area)
    digits = sorted(part["digits"].unique())
    ticks = digits[:: choose_tick_step(len(digits))]
    axes.set(xlim=(digits[0] - 0.5, digits[-1] + 0.5), xticks=ticks)
    axes.grid(visible=False, axis="x")


def choose_tick_step(count: int) -> int:
    """Return the step between labelled ticks, so that they fit below a panel.

    >>> choose_tick_step(8), choose_tick_step(12), choose_tick_step(20)
    (1, 2, 2)
    """
    return 1 + count // 11


def draw_region_legend(
    figure: Figure, table: pd.DataFrame, handles: tuple[Artist, ...] = ()
) -> None:
    """Explain the backgrounds of a figure above its panels, after `handles` for other marks."""
    backgrounds = [
        Patch(facecolor=color, hatch=hatch, label=label, edgecolor="#D8C58A", linewidth=0)
        for region, (label, color, hatch) in REGIONS.items()
        if region in set(table["region"])
    ]
    everything = [*handles, *backgrounds]
    columns = len(backgrounds) if len(everything) > 3 else len(everything)
    figure.legend(handles=everything, loc="outside upper center", ncols=columns)
