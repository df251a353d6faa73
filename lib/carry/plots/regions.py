"""Accuracy in distribution, out of distribution and on far cells, as bars."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carry.evaluation.regions import REGIONS, add_region
from carry.plots import load, style

AXIS_LABELS = {
    "exact": "correct {}",
    "digits_right": "{} with correct digits (index hints ignored)",
    "first_right": "{} with a correct first symbol",
}


@style.use_style
def draw_accuracy_by_region(
    cells: pd.DataFrame,
    hits: str = "exact",
    groups: Mapping[str, str] | None = None,
    stated: Mapping[tuple[str, str], float] | None = None,
    titles: Mapping[str, str] | None = None,
) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by region: bars are means over seeds with intervals, dots are seeds.

    Rows that have not learned their training lengths are hollow. All rows have one start of ids
    (`load.choose_starts`). A group has rows of one training length and one grid.

    Args:
        cells: accuracy by cell.
        hits: the column that counts correct answers.
        groups: a heading for each row, before its training length.
        stated: values that a paper states, by row and region; drawn as diamonds.
        titles: labels of rows in this figure, if other than their usual labels.
    """
    table = make_region_table(cells, hits)
    keys = zip(table["row"], table["region"], strict=True)
    table["stated"] = [(stated or {}).get(key, float("nan")) for key in keys]
    unlearned = load.find_unlearned(cells)
    lines = _list_lines(table, groups or {}, titles or {}, unlearned)
    regions = list(dict.fromkeys(table["region"]))
    label_width = 0.08 * max(len(text) for _, text in lines)  # inches; bars keep their width
    size = (1.75 + label_width / len(regions), 0.34 * len(lines) + 1.2)
    figure, panels = style.make_panels(len(regions), len(regions), size, sharey=True)
    for axes, region in zip(panels, regions, strict=True):
        part = table[table["region"] == region]
        for height, (row, _) in enumerate(lines):
            if row:
                _draw_bar(axes, height, row, part[part["row"] == row], row in unlearned)
        axes.set(title=region, xlim=(-0.03, 1.03), xticks=[0, 0.5, 1])
        style.format_percent(axes.xaxis)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
    _label_lines(panels[0], lines)
    label = AXIS_LABELS[hits].format(style.name_problems(load.list_rows(table)))
    figure.supxlabel(label + load.describe_starts(table["start"].unique()), fontsize="medium")
    if table["stated"].notna().any():
        style.draw_stated_legend(figure, "outside upper right")
    return figure, table


def _list_lines(
    table: pd.DataFrame,
    groups: Mapping[str, str],
    titles: Mapping[str, str],
    unlearned: Collection[str],
) -> list[tuple[str, str]]:
    """Return the lines of the figure from the top: ("", heading) or (row, label)."""
    by_heading: dict[str, list[str]] = {}
    rows = table.drop_duplicates("row")
    if not groups:
        rows = rows.sort_values("trained", kind="stable")
    tested = rows.set_index("row")["tested"].to_dict()
    for row, length in load.find_training_lengths(rows).items():
        heading = [groups[row]] if row in groups else []
        heading += [style.describe_training_length(row, length)]
        heading += [f"tested to {tested[row]:.0f}"] if tested[row] > length else []
        by_heading.setdefault(", ".join(heading), []).append(row)
    lines = []
    for heading, names in by_heading.items():
        lines.append(("", heading))
        lines += [(row, style.describe_row(row, unlearned, titles.get(row, ""))) for row in names]
    return lines


def _label_lines(axes: Axes, lines: list[tuple[str, str]]) -> None:
    """Write labels and headings at the left of a panel."""
    axes.set_yticks(range(len(lines)), [text for _, text in lines])
    axes.set_ylim(len(lines) - 0.4, -0.6)
    for (row, _), label in zip(lines, axes.get_yticklabels(), strict=True):
        if not row:
            label.set(color="#555555", fontstyle="italic")


def _draw_bar(axes: Axes, height: int, row: str, part: pd.DataFrame, hollow: bool) -> None:
    """Draw a bar for the mean with its interval, a dot for each seed, and the stated value."""
    mean = part[part["seed"] == "all"]
    if mean.empty:
        axes.text(0.0, height, "not tested", va="center", color="#777777", fontsize="small")
        return
    bar, row_style = mean.iloc[0], style.choose_style(row)
    edge, hatch = {"edgecolor": row_style.color}, {"hatch": row_style.hatch, "hatchcolor": "white"}
    fill = {"facecolor": "none", **edge} if hollow else {"color": row_style.color, **hatch}
    axes.barh(height, bar["accuracy"], 0.62, alpha=0.55, **fill)
    axes.hlines(height, bar["low"], bar["high"], color="#222222", linewidth=1.6, zorder=3)
    seeds = part[part["seed"] != "all"]["accuracy"]
    heights = [height + 0.2 * (index - (len(seeds) - 1) / 2) for index in range(len(seeds))]
    colors = ("white", row_style.color) if hollow else (row_style.color, "white")
    dots = dict(zip(("color", "markeredgecolor"), colors, strict=True), markeredgewidth=0.7)
    axes.plot(seeds, heights, "o", markersize=4.2, zorder=4, clip_on=False, **dots)
    if pd.notna(bar["stated"]):
        axes.plot(bar["stated"], height, zorder=5, clip_on=False, **style.STATED_MARKER)


def make_region_table(
    cells: pd.DataFrame, hits: str = "exact", starts: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return accuracy by row and region, of each seed and of all (`load.score_seeds`).

    The first two regions are parts of the grid. Equal lengths beyond it are split at the longest
    length of each row, so that a row has a region completely or not at all; each far cell is a
    region. `starts` gives the start of ids of each row (default: `load.choose_starts`).
    """
    cells = load.select_start(cells, starts or load.choose_starts(cells))
    cells = add_region(cells[cells[hits].notna()].astype({hits: int}))
    end = cells["row"].map(load.find_grid_sizes(cells))
    cells = cells[(cells["set"] != "equal") | (cells["i"] > end)]
    order = (cells["region"] != REGIONS[0]).astype(int)
    in_grid, equal = cells["set"] == "grid", cells["set"] == "equal"
    names, places = _name_far_cells(cells), cells["i"] * 10**6 + cells["j"]
    first = 0
    for last in sorted(cells[equal].groupby("row")["i"].max().unique()):
        part = equal & (cells["i"] > first) & (cells["i"] <= last)
        first = last
        shortest = cells.loc[part, "i"].min()
        names = names.mask(part, f"{shortest} to {last} digits")
        places = places.mask(part, shortest * 10**6)
    cells = cells.assign(
        order=order.where(in_grid, places), region=cells["region"].where(in_grid, names)
    )
    cells["tested"] = cells["row"].map(load.find_grid_sizes(cells))
    keys = ["order", "region", "row", "trained", "tested", "start"]
    table = load.score_seeds(cells, keys, hits)
    return table.sort_values("order", kind="stable").drop(columns="order").reset_index(drop=True)


def _name_far_cells(cells: pd.DataFrame) -> pd.Series:
    """Return the size of each far cell in words."""
    i, j = cells["i"].map("{:,}".format), cells["j"].map("{:,}".format)
    if {style.find_task_name(row) for row in load.list_rows(cells)} == {"sorting"}:
        return i + " numbers\nof " + j + " digits"
    return (i + " digits").where(i == j, i + " x " + j + " digits")


@style.use_style
def draw_accuracy_by_training_length(
    cells: pd.DataFrame, families: Mapping[str, str]
) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by training length: means over seeds with intervals, seeds as dots.

    The last panel has the lengths beyond all trainings and inside the grids of all rows, so that
    all rows are scored on the same problems. The regions of the other panels begin at the training
    length of each row.

    Args:
        cells: accuracy by cell.
        families: the row whose style each row has; rows of one family differ in training length.
    """
    table = make_region_table(cells)
    longest, end = int(cells["trained"].max()), min(load.find_grid_sizes(cells).values())
    sizes = cells[["i", "j"]].max(axis=1)
    beyond = (cells["set"] == "grid") & (sizes > longest) & (sizes <= end)
    if beyond.any():
        same = make_region_table(cells[beyond], starts=load.choose_starts(cells))
        same["region"] = f"{longest + 1} to {end} digits,\nthe same for all"
        table = pd.concat([table, same], ignore_index=True)
    table["family"] = table["row"].map(families)
    unlearned = load.find_unlearned(cells)
    regions, rows = (list(dict.fromkeys(table[column])) for column in ("region", "family"))
    figure, panels = style.make_panels(len(regions), 5, (2.4, 3.0), sharey=True)
    for axes, region in zip(panels, regions, strict=True):
        for number, row in enumerate(rows):
            part = table[(table["region"] == region) & (table["family"] == row)]
            shift = 0.12 * (number - (len(rows) - 1) / 2)  # moves equal values apart
            part = part.assign(at=part["trained"] + shift)
            style.draw_mean_and_seeds(axes, part, row, unlearned)
        axes.set(title=region, ylim=(-0.03, 1.03), xticks=sorted(table["trained"].unique()))
        style.format_percent(axes.yaxis)
    label = AXIS_LABELS["exact"].format(style.name_problems(rows))
    figure.supylabel(label + load.describe_starts(table["start"].unique()), fontsize="medium")
    figure.supxlabel("digits of the longest operands in training", fontsize="medium")
    style.draw_legend(figure, rows)
    return figure, table
