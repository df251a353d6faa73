"""How far each scheme goes: from the lengths of training to a hundred thousand digits."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.evaluation.intervals import pool_cells
from carry.plots import load, style

KEYS = ["row", "start", "trained", "seed", "digits"]
HALF = 0.5
ROOM = 300  # times that the axis has to go on behind a line, for names to stand there

# What the problems of rows that are read relatively are called, and their sizes i and j.
PROBLEMS = {
    "addition": ("sums", "{i:,} digits"),
    "addition_carries": ("carries of a sum alone", "{i:,} digits"),
    "addition_digits": ("sums without carries", "{i:,} digits"),
    "addition_backwards": ("two numbers backwards", "{i:,} digits"),
    "addition_aligned": ("two numbers digit by digit", "{i:,} digits"),
    "multi_operand_addition": ("sums of many", "{j:,} numbers of {i:,} digits"),
    "multiplication": ("products", "{i:,} by {j:,} digits"),
    "sorting": ("sorted lists", "{i:,} numbers of {j:,} digits"),
    "parity": ("parities", "{i:,} bits"),
    "copying": ("copies", "{i:,} digits"),
    "reversing": ("strings reversed", "{i:,} digits"),
    "bitwise_or": ("bitwise OR", "{i:,} bits"),
}


@style.styled
def by_length(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy on operands of equal length, on an axis of powers of ten."""
    table = lengths(tables)
    said = {row: went(table[table["row"] == row]) for row in load.rows(table)}
    rows = sorted(said, key=lambda row: said[row][0], reverse=True)
    figure, (axes,) = style.panels(1, 1, (10.4, 4.2))
    end = int(table["digits"].max())
    axes.set(xscale="log", xlim=(1, 1.35 * end), ylim=(-0.03, 1.04))
    _shade(axes, table)
    for row in reversed(rows):  # what goes far in front
        part = table[table["row"] == row]
        style.seeds_and_median(axes, part, row, "digits", "accuracy")
        _single(axes, part, row)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel="digits of both operands", ylabel=f"{style.problems(rows)} wholly right")
    style.percent(axes.yaxis)
    _names(figure, axes, table, {row: said[row][1] for row in rows})
    return figure, table


def lengths(tables: load.Tables) -> pd.DataFrame:
    """Return accuracy by row, seed and length of both operands, from each row's better start.

    What one seed was asked of the longest problems (`reach`) counts with what all were asked.
    """
    starts = load.starts(tables.cells)
    cells = load.at_start(tables.cells, starts)
    reach = tables.reach.assign(start=tables.reach["row"].map(starts))
    parts = [cells[cells["set"].isin(["equal", "far"])], reach[reach["row"].isin(starts)]]
    parts = [part[part["i"] == part["j"]].rename(columns={"i": "digits"}) for part in parts]
    both = pd.concat([part[[*KEYS, "n", "exact"]] for part in parts if len(part)])
    table = pool_cells(both, KEYS).sort_values("digits", kind="stable")
    return load.pick(table, load.rows(tables.cells)).reset_index(drop=True)


def went(part: pd.DataFrame) -> tuple[float, str]:
    """Return how far a row goes, to sort by, and in words: to where its median seed is half right.

    >>> of = pd.DataFrame({"row": "addition_nope", "trained": 5, "seed": 0, "digits": [5, 6, 7]})
    >>> went(of.assign(accuracy=[1.0, 0.6, 0.2]))
    (6.0, 'half right to 6 digits')
    >>> went(of.assign(accuracy=[1.0, 0.9, 0.8]))
    (7.8, '80% at 7 digits, not asked more')
    """
    median = part.groupby("digits")["accuracy"].median()
    last, right = int(median.index[-1]), float(median.iloc[-1])
    if right >= HALF:
        more = "all" if right == 1 else f"{min(100 * right, 99.9):.3g}%"
        return last + right, f"{more} at {last:,} digits, not asked more"
    reached = int(median.index[median >= HALF].max()) if (median >= HALF).any() else 0
    return float(reached), f"half right to {reached:,} digits" if reached else "never half right"


def _shade(axes: Axes, table: pd.DataFrame) -> None:
    """Shade the lengths of training; rows that were trained to fewer digits shade theirs again."""
    for trained in sorted(table["trained"].unique()):
        axes.axvspan(1, trained, color=style.SHADE, alpha=0.6, zorder=0, linewidth=0)
        text = {"color": "#555555", "fontsize": "small", "ha": "right", "va": "bottom"}
        axes.text(trained, 1.01, f"to {trained}", transform=axes.get_xaxis_transform(), **text)


def _single(axes: Axes, part: pd.DataFrame, row: str) -> None:
    """Mark what not all seeds were asked, with its interval and what it is in words."""
    seeds = part.groupby("digits")["seed"].nunique()
    alone = part[part["digits"].map(seeds) < seeds.max()]
    look = style.look(row)
    for of in alone.itertuples():
        axes.vlines(of.digits, of.low, of.high, color=look.color, linewidth=1.6)
        axes.plot(of.digits, of.accuracy, "o", ms=6, mfc="white", mec=look.color, clip_on=False)
        # At the right end of the axis there is room on the left alone.
        text = f"{of.exact:,} of {of.n:,}\nright, one seed"
        axes.annotate(
            text, (of.digits, max(of.low, 0.2)), (-7, 0), textcoords="offset points", va="bottom",
            ha="right", fontsize="small", color=look.color,
        )  # fmt: skip


def _names(figure: Figure, axes: Axes, table: pd.DataFrame, said: dict[str, str]) -> None:
    """Name the lines, the one that goes farthest first, behind where most end or beside all."""
    trained = load.lengths(table)
    handles = [
        Line2D([], [], label=f"{style.look(row).label} (to {trained[row]}): {words}",
               **style.line(row, linewidth=2.2))
        for row, words in said.items()
    ]  # fmt: skip
    ends = sorted(table.groupby("row")["digits"].max())
    short = [end for end in ends if end * ROOM <= ends[-1]]
    more = {"handles": handles, "handlelength": 2.6, "alignment": "left", "fontsize": "small"}
    more["title"] = "scheme (trained to so many digits): how far"
    if len(ends) - len(short) <= 1 and short:
        at = axes.get_xaxis_transform()
        axes.legend(loc="center left", bbox_to_anchor=(1.2 * short[-1], 0.47),
                    bbox_transform=at, **more)  # fmt: skip
    else:
        figure.legend(loc="outside right center", **more)


@style.styled
def tasks(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy at the largest sizes of each task that is read relatively."""
    table = sizes(tables)
    figure, (axes,) = style.panels(1, 1, (8.6, 0.25 * len(table) + 0.8))
    lines = range(len(table))
    for line, of in zip(lines, table.itertuples(), strict=True):
        color = style.look(of.row).color
        axes.plot([of.low, of.high], [line, line], color=color, linewidth=1.6)
        axes.plot(of.accuracy, line, "o", ms=5.5, color=color, clip_on=False, zorder=3)
        axes.text(1.03, line, _told(of), transform=axes.get_yaxis_transform(), va="center",
                  fontsize="small")  # fmt: skip
        if line and of.row != table.loc[line - 1, "row"]:
            axes.axhline(line - 0.5, color="#BBBBBB", linewidth=0.8)
    least = min(0.9, int(10 * table["low"].min()) / 10)
    axes.set(
        xlim=(least, 1.0 + 0.02 * (1 - least)),
        ylim=(len(table) - 0.5, -0.5),
        xlabel="problems wholly right",
    )
    axes.set_yticks(lines, [f"{of.problems}, {of.size}" for of in table.itertuples()])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    style.percent(axes.xaxis)
    return figure, table


def sizes(tables: load.Tables) -> pd.DataFrame:
    """Return accuracy at the largest sizes that all seeds were asked, and at those one was asked.

    Of all seeds together, with how many they are; of one seed also with how many `tokens` a
    problem has, and how many tokens are `wrong` given the truth before them.
    """
    near = load.at_start(tables.cells, load.starts(tables.cells))
    near = near[near["set"].isin(["equal", "far"])]
    near = near[near["i"] == near.groupby("row")["i"].transform("max")]
    keys, rows = ["row", "trained", "i", "j"], load.rows(tables.cells)
    seeds = near.groupby(keys, sort=False)["seed"].nunique().rename("seeds").reset_index()
    near = pool_cells(near, keys).merge(seeds, on=keys)
    far = tables.reach.assign(seeds=1).drop(columns=["profile", "seed"])
    table = pd.concat([of for of in (near, far) if len(of)], ignore_index=True)
    table = table.reindex(columns=[*near, "wrong", "tokens"])
    named = [PROBLEMS.get(_task(row), ("problems", "{i:,} by {j:,}")) for row in table["row"]]
    said = [size.format(i=of.i, j=of.j)
            for (_, size), of in zip(named, table.itertuples(), strict=True)]  # fmt: skip
    table = table.assign(problems=[name for name, _ in named], size=said)
    return load.pick(table, rows).reset_index(drop=True)


def _task(row: str) -> str:
    """Return the task of a row, and which of its sub-tasks.

    >>> _task("parity_relative_scratchpad"), _task("addition_relative_carries")
    ('parity', 'addition_carries')
    """
    task, part = style.task(row), row.rsplit("_", 1)[-1]
    return f"{task}_{part}" if f"{task}_{part}" in PROBLEMS else task


def _told(of) -> str:
    """Return in words what a line of `sizes` counts."""
    seeds = "one seed" if of.seeds == 1 else f"{of.seeds} seeds"
    count = f"{of.n - of.exact:,} of {of.n:,} wrong, {seeds}, trained to {of.trained}"
    return count + ("" if pd.isna(of.tokens) else f"; {int(of.tokens):,} tokens each")
