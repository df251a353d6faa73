"""How far each scheme goes: accuracy by length, and by region."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carry.evaluation.intervals import pool
from carry.evaluation.regions import with_region
from carry.figures import load, style

START = {"1": "ids start at 1, as in the papers", "middle": "ids start mid-table"}


@style.styled
def by_length(cells: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy on operands of equal length: thin lines are seeds, thick ones their median.

    A second panel shows the rows that a start in the middle of the id table changes.
    """
    columns = ["row", "start", "seed", "trained", "i", "n", "exact", "accuracy", "low", "high"]
    table = cells[cells["set"] == "equal"][columns].rename(columns={"i": "digits"})
    moved = _moved(table)
    table = table[(table["start"] == "1") | table["row"].isin(moved)].reset_index(drop=True)
    shown = ["1", "middle"] if moved else ["1"]
    figure, drawn = style.panels(len(shown), 2, (4.6, 3.6), sharey=True)
    for axes, start in zip(drawn, shown, strict=True):
        here = table[table["start"] == start]
        _shade(axes, here)
        for row in load.rows(here):
            style.seeds_and_median(axes, here[here["row"] == row], row, "digits", "accuracy")
        axes.set(title=START[start], xlabel="digits of both operands", ylim=(-0.03, 1.03))
        style.percent(axes.yaxis)
    drawn[0].set_ylabel("sums wholly right")
    trained = table.groupby("row")["trained"].first().to_dict()
    style.legend(figure, load.rows(table), trained=trained)
    return figure, table


def _moved(table: pd.DataFrame) -> list[str]:
    """Return the rows whose results change with the start."""
    wide = table.pivot_table(index=["row", "seed", "digits"], columns="start", values="exact")
    if not {"1", "middle"} <= set(wide):
        return []
    other = wide["middle"].notna() & (wide["middle"] != wide["1"])
    changed = other.groupby("row").any()
    return [row for row in load.rows(table) if changed.get(row, False)]


def _shade(axes: Axes, table: pd.DataFrame) -> None:
    """Shade the lengths of training; rows that were trained to fewer digits shade theirs again."""
    shortest = table["digits"].min()
    for trained in sorted(table["trained"].unique()):
        axes.axvspan(shortest, trained, color=style.SHADE, alpha=0.6, zorder=0, linewidth=0)
        axes.text(
            trained - 0.2, 0.03, f"to {trained}", color="#555555", fontsize="small", ha="right"
        )
    axes.set_xlim(shortest, table["digits"].max())


@style.styled
def by_region(cells: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy in and out of distribution and far beyond: bars with intervals, seeds as dots.

    A bar counts all seeds together and its interval is Wilson's at 95%, which knows nothing of
    other seeds: their spread is what the dots show. Each row starts where it does better in
    distribution.
    """
    table = region_table(cells)
    places = list(dict.fromkeys(table["region"]))
    rows = load.rows(cells)
    size = (2.1, 0.36 * len(rows) + 1.2)
    figure, drawn = style.panels(len(places), len(places), size, sharey=True)
    for axes, place in zip(drawn, places, strict=True):
        here = table[table["region"] == place]
        for at, row in enumerate(rows):
            _bar(axes, at, row, here[here["row"] == row])
        axes.set(title=place, xlim=(-0.03, 1.03), xticks=[0, 0.5, 1])
        style.percent(axes.xaxis)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
    drawn[0].set_yticks(range(len(rows)), [style.look(row).label for row in rows])
    drawn[0].set_ylim(len(rows) - 0.4, -0.6)
    figure.supxlabel("sums wholly right", fontsize="medium")
    return figure, table


def _bar(axes: Axes, at: int, row: str, part: pd.DataFrame) -> None:
    pooled = part[part["seed"] == "all"]
    if pooled.empty:
        axes.text(0.0, at, "not tested", va="center", color="#777777", fontsize="small")
        return
    bar = pooled.iloc[0]
    color = style.look(row).color
    hatch = "" if style.look(row).dashes == style.SOLID else "////"
    bars = {"color": color, "alpha": 0.55, "hatch": hatch, "hatchcolor": "white"}
    axes.barh(at, bar["accuracy"], 0.62, **bars)
    axes.hlines(at, bar["low"], bar["high"], color="#222222", linewidth=1.6, zorder=3)
    seeds = part[part["seed"] != "all"]["accuracy"]
    shift = [at + 0.2 * (index - (len(seeds) - 1) / 2) for index in range(len(seeds))]
    axes.plot(
        seeds, shift, "o", markersize=4.2, color=color, markeredgecolor="white", zorder=4,
        markeredgewidth=0.7, clip_on=False,
    )  # fmt: skip


def region_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy by row and region, for each seed and (`seed` is "all") for all together.

    The first two regions are those of the grid; each far length is a region of its own.
    """
    cells = with_region(load.at_start(cells, load.starts(cells)))
    cells = cells[cells["set"] != "equal"]
    far = cells["set"] == "far"
    order = cells["i"].where(far, cells["region"] != "in distribution")
    region = cells["region"].mask(far, cells["i"].map("{:,} digits".format))
    cells = cells.assign(order=order.astype(int), region=region)
    parts = [cells.assign(seed=cells["seed"].astype(str)), cells.assign(seed="all")]
    table = pool(pd.concat(parts), ["order", "region", "row", "start", "seed"])
    return table.sort_values("order", kind="stable").drop(columns="order").reset_index(drop=True)
