"""Accuracy in and out of distribution and far beyond, as bars, by what rows were trained to."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carry.evaluation.intervals import pool_cells
from carry.evaluation.regions import REGIONS, add_region
from carry.plots import load, style

COUNTED = {
    "exact": "{} wholly right",
    "digits_right": "{} right once index hints are left out",
    "first_right": "{} whose first symbol is right",
}


@style.styled
def by_region(
    cells: pd.DataFrame,
    hits: str = "exact",
    groups: Mapping[str, str] | None = None,
    stated: Mapping[tuple[str, str], float] | None = None,
    titles: Mapping[str, str] | None = None,
) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by region: bars with intervals, seeds as dots.

    A bar counts all seeds together and its interval is Wilson's at 95%, which knows nothing of
    other seeds: their spread is what the dots show. Each row starts where it does better in
    distribution. Rows that were trained to different lengths never stand in one group, and neither
    do those whose grids end at different lengths.

    Args:
        cells: accuracy by cell.
        hits: the column that counts what is right.
        groups: a heading for each row, beside what it was trained to.
        stated: by row and region, values that a paper states, drawn as diamonds.
        titles: of rows that are not to be called by their names.
    """
    table = region_table(cells, hits)
    named = zip(table["row"], table["region"], strict=True)
    table["stated"] = [(stated or {}).get(name, float("nan")) for name in named]
    lines = [(row, (titles or {}).get(row, label)) for row, label in _lines(table, groups or {})]
    places = list(dict.fromkeys(table["region"]))
    widest = 0.08 * max(len(text) for _, text in lines)  # inches, so that long names cost no bar
    size = (1.75 + widest / len(places), 0.34 * len(lines) + 1.2)
    figure, drawn = style.panels(len(places), len(places), size, sharey=True)
    for axes, place in zip(drawn, places, strict=True):
        here = table[table["region"] == place]
        for at, (row, _) in enumerate(lines):
            if row:
                _bar(axes, at, row, here[here["row"] == row])
        axes.set(title=place, xlim=(-0.03, 1.03), xticks=[0, 0.5, 1])
        style.percent(axes.xaxis)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
    _name(drawn[0], lines)
    figure.supxlabel(COUNTED[hits].format(style.problems(load.rows(table))), fontsize="medium")
    if table["stated"].notna().any():
        style.stated_legend(figure, "outside upper right")
    return figure, table


def _lines(table: pd.DataFrame, groups: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what stands at each height, from the top: ("", heading) or (row, label)."""
    inside: dict[str, list[str]] = {}
    known = table.drop_duplicates("row")
    if not groups:
        known = known.sort_values("trained", kind="stable")
    tested = known.set_index("row")["tested"].to_dict()
    for row, length in load.lengths(known).items():
        heading = [groups[row]] if row in groups else []
        heading += [style.reached(row, length)]
        heading += [f"tested to {tested[row]}"] if tested[row] > length else []
        inside.setdefault(", ".join(heading), []).append(row)
    lines = []
    for heading, rows in inside.items():
        lines += [("", heading), *((row, style.look(row).label) for row in rows)]
    return lines


def _name(axes: Axes, lines: list[tuple[str, str]]) -> None:
    axes.set_yticks(range(len(lines)), [text for _, text in lines])
    axes.set_ylim(len(lines) - 0.4, -0.6)
    for (row, _), label in zip(lines, axes.get_yticklabels(), strict=True):
        if not row:
            label.set(color="#555555", fontstyle="italic")


def _bar(axes: Axes, at: int, row: str, part: pd.DataFrame) -> None:
    pooled = part[part["seed"] == "all"]
    if pooled.empty:
        axes.text(0.0, at, "not tested", va="center", color="#777777", fontsize="small")
        return
    bar = pooled.iloc[0]
    color = style.look(row).color
    bars = {"color": color, "alpha": 0.55, "hatch": style.hatch(row), "hatchcolor": "white"}
    axes.barh(at, bar["accuracy"], 0.62, **bars)
    axes.hlines(at, bar["low"], bar["high"], color="#222222", linewidth=1.6, zorder=3)
    seeds = part[part["seed"] != "all"]["accuracy"]
    shift = [at + 0.2 * (index - (len(seeds) - 1) / 2) for index in range(len(seeds))]
    axes.plot(
        seeds, shift, "o", markersize=4.2, color=color, markeredgecolor="white", zorder=4,
        markeredgewidth=0.7, clip_on=False,
    )  # fmt: skip
    if pd.notna(bar["stated"]):
        axes.plot(bar["stated"], at, zorder=5, clip_on=False, **style.STATED)


def region_table(
    cells: pd.DataFrame, hits: str = "exact", starts: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return accuracy by row and region, for each seed and (`seed` is "all") for all together.

    The first two regions are those of the grid. Equal lengths beyond it are split where some row
    ends, so that a row has all of a region or nothing; far cells are a region each. Rows start as
    `starts` says; if not given, where they do better in distribution.
    """
    cells = load.at_start(cells, starts or load.starts(cells))
    cells = add_region(cells[cells[hits].notna()].astype({hits: int}))
    end = cells["row"].map(load.tested(cells))
    cells = cells[(cells["set"] != "equal") | (cells["i"] > end)]
    order = (cells["region"] != REGIONS[0]).astype(int)
    inside, names, places = cells["set"] == "grid", _far(cells), cells["i"] * 10**6 + cells["j"]
    equal = cells["set"] == "equal"
    first = 0
    for last in sorted(cells[equal].groupby("row")["i"].max().unique()):
        part = equal & (cells["i"] > first) & (cells["i"] <= last)
        first = last
        shortest = cells.loc[part, "i"].min()
        names = names.mask(part, f"{shortest} to {last} digits")
        places = places.mask(part, shortest * 10**6)
    cells = cells.assign(
        order=order.where(inside, places), region=cells["region"].where(inside, names)
    )
    cells["tested"] = cells["row"].map(load.tested(cells))
    parts = [cells.assign(seed=cells["seed"].astype(str)), cells.assign(seed="all")]
    keys = ["order", "region", "row", "trained", "tested", "start", "seed"]
    table = pool_cells(pd.concat(parts), keys, hits)
    return table.sort_values("order", kind="stable").drop(columns="order").reset_index(drop=True)


def _far(cells: pd.DataFrame) -> pd.Series:
    """Return what a far cell is called."""
    i, j = cells["i"].map("{:,}".format), cells["j"].map("{:,}".format)
    if set(cells["row"].map(style.task)) == {"sorting"}:
        return i + " numbers\nof " + j + " digits"
    return (i + " digits").where(i == j, i + " x " + j + " digits")


@style.styled
def by_training_length(
    cells: pd.DataFrame, families: Mapping[str, str]
) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by training length: all seeds together with Wilson's interval, seeds as dots.

    The last panel has what is longer than any training and inside the grids of all rows, so that
    all are scored on the same problems; a region that begins where training ends is smaller the
    longer training was.

    Args:
        cells: accuracy by cell.
        families: for each row the one whose look it has, which is the same at other lengths.
    """
    table = region_table(cells)
    longest, end = int(cells["trained"].max()), min(load.tested(cells).values())
    sizes = cells[["i", "j"]].max(axis=1)
    beyond = (cells["set"] == "grid") & (sizes > longest) & (sizes <= end)
    if beyond.any():
        same = region_table(cells[beyond], starts=load.starts(cells))
        same["region"] = f"{longest + 1} to {end} digits,\nthe same for all"
        table = pd.concat([table, same], ignore_index=True)
    table["family"] = table["row"].map(families)
    places, names = (list(dict.fromkeys(table[column])) for column in ("region", "family"))
    figure, drawn = style.panels(len(places), 5, (2.4, 3.0), sharey=True)
    for axes, place in zip(drawn, places, strict=True):
        for number, name in enumerate(names):
            part = table[(table["region"] == place) & (table["family"] == name)]
            aside = 0.12 * (number - (len(names) - 1) / 2)  # so that equal values stay apart
            style.all_and_seeds(axes, part.assign(at=part["trained"] + aside), name)
        axes.set(title=place, ylim=(-0.03, 1.03), xticks=sorted(table["trained"].unique()))
        style.percent(axes.yaxis)
    figure.supylabel(COUNTED["exact"].format(style.problems(names)), fontsize="medium")
    figure.supxlabel("digits of the longest operands in training", fontsize="medium")
    style.legend(figure, names)
    return figure, table
