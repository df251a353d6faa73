"""Reach of each scheme: accuracy from the trained lengths to a hundred thousand digits."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.evaluation.intervals import pool_cells
from carry.plots import load, style

KEYS = ["row", "start", "trained", "seed", "digits"]
HALF = 0.5
ROOM = 300  # factor by which the axis must extend beyond a line to hold the labels

# Names and sizes (i, j) of the problems of rows with relative place ids.
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


@style.use_style
def draw_reach_by_length(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy on operands of equal length, on a logarithmic axis."""
    table, unlearned = accuracy_by_length(tables), load.find_unlearned(tables["cells"])
    descriptions = {
        row: describe_reach(table[table["row"] == row]) for row in load.list_rows(table)
    }
    rows = sorted(descriptions, key=lambda row: descriptions[row][0], reverse=True)
    figure, (axes,) = style.make_panels(1, 1, (10.4, 4.2))
    end = int(table["digits"].max())
    axes.set(xscale="log", xlim=(1, 1.35 * end), ylim=(-0.03, 1.04))
    _shade(axes, table)
    for row in reversed(rows):  # the longest reach on top
        part = table[table["row"] == row]
        style.draw_seeds_and_median(axes, part, row, "digits", "accuracy", unlearned)
        _single(axes, part, row)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    from_start = load.describe_starts(table["start"].unique())
    axes.set_xlabel(f"digits of both operands{from_start}")
    axes.set_ylabel(f"exact match of {style.name_problems(rows)}")
    style.format_percent(axes.yaxis)
    _names(figure, axes, table, {row: descriptions[row][1] for row in rows}, unlearned)
    return figure, table


def accuracy_by_length(tables: load.ResultTables) -> pd.DataFrame:
    """Return accuracy by row, seed and length of both operands, from one start of ids.

    The longest problems (table `reach`), answered by one seed, are included.
    """
    starts = load.choose_starts(tables["cells"])
    cells = load.select_start(tables["cells"], starts)
    reach = tables["reach"].assign(start=tables["reach"]["row"].map(starts))
    parts = [cells[cells["set"].isin(["equal", "far"])], reach[reach["row"].isin(starts)]]
    parts = [part[part["i"] == part["j"]].rename(columns={"i": "digits"}) for part in parts]
    both = pd.concat([part[[*KEYS, "n", "exact"]] for part in parts if len(part)])
    table = pool_cells(both, KEYS).sort_values("digits", kind="stable")
    return load.select_rows(table, load.list_rows(tables["cells"])).reset_index(drop=True)


def describe_reach(part: pd.DataFrame) -> tuple[float, str]:
    """Return a sort key and a description of the longest length with half of the answers right.

    >>> of = pd.DataFrame({"row": "addition_nope", "trained": 5, "seed": 0, "digits": [5, 6, 7]})
    >>> describe_reach(of.assign(accuracy=[1.0, 0.6, 0.2]))
    (6.0, 'half right to 6 digits')
    >>> describe_reach(of.assign(accuracy=[1.0, 0.9, 0.8]))
    (7.8, '80% at 7 digits, not tested further')
    """
    median = part.groupby("digits")["accuracy"].median()
    last, right = int(median.index[-1]), float(median.iloc[-1])
    if right >= HALF:
        more = "all" if right == 1 else f"{min(100 * right, 99.9):.3g}%"
        return last + right, f"{more} at {last:,} digits, not tested further"
    reached = int(median.index[median >= HALF].max()) if (median >= HALF).any() else 0
    return float(reached), f"half right to {reached:,} digits" if reached else "never half right"


def _shade(axes: Axes, table: pd.DataFrame) -> None:
    """Shade the trained lengths; shorter trained ranges are shaded again."""
    for trained in sorted(table["trained"].unique()):
        axes.axvspan(1, trained, color=style.TRAINED_COLOR, alpha=0.6, zorder=0, linewidth=0)
        text = {"color": "#555555", "fontsize": "small", "ha": "right", "va": "bottom"}
        axes.text(trained, 1.01, f"to {trained}", transform=axes.get_xaxis_transform(), **text)


def _single(axes: Axes, part: pd.DataFrame, row: str) -> None:
    """Mark lengths that only one seed answered, with the interval and a label."""
    seeds = part.groupby("digits")["seed"].nunique()
    alone = part[part["digits"].map(seeds) < seeds.max()]
    row_style = style.choose_style(row)
    for record in alone.itertuples():
        axes.vlines(record.digits, record.low, record.high, color=row_style.color, linewidth=1.6)
        axes.plot(
            record.digits,
            record.accuracy,
            "o",
            ms=6,
            mfc="white",
            mec=row_style.color,
            clip_on=False,
        )
        # At the right end of the axis only the left side has room.
        text = f"{record.exact:,} of {record.n:,}\nright, one seed"
        axes.annotate(
            text,
            (record.digits, max(record.low, 0.2)),
            (-7, 0),
            textcoords="offset points",
            va="bottom",
            ha="right",
            fontsize="small",
            color=row_style.color,
        )


def _names(
    figure: Figure,
    axes: Axes,
    table: pd.DataFrame,
    descriptions: dict[str, str],
    unlearned: set[str],
) -> None:
    """Label the lines, the one with the longest reach first, inside the axes or to their right."""
    trained = load.find_training_lengths(table)
    handles = [
        Line2D([], [], label=f"{style.describe_row(row, unlearned)} (to {trained[row]}): {words}",
               **style.make_line_style(row, row in unlearned, linewidth=2.2))
        for row, words in descriptions.items()
    ]  # fmt: skip
    ends = sorted(table.groupby("row")["digits"].max())
    short = [end for end in ends if end * ROOM <= ends[-1]]
    more = {"handles": handles, "handlelength": 2.6, "alignment": "left", "fontsize": "small"}
    more["title"] = "scheme (trained digits): reach"
    if len(ends) - len(short) <= 1 and short:
        at = axes.get_xaxis_transform()
        axes.legend(loc="center left", bbox_to_anchor=(1.2 * short[-1], 0.47),
                    bbox_transform=at, **more)  # fmt: skip
    else:
        figure.legend(loc="outside right center", **more)


@style.use_style
def draw_reach_of_tasks(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy at the largest sizes of each task with relative place ids."""
    table = accuracy_by_size(tables)
    figure, (axes,) = style.make_panels(1, 1, (8.6, 0.25 * len(table) + 0.8))
    lines = range(len(table))
    for line, record in zip(lines, table.itertuples(), strict=True):
        color = style.choose_style(record.row).color
        axes.plot([record.low, record.high], [line, line], color=color, linewidth=1.6)
        axes.plot(record.accuracy, line, "o", ms=5.5, color=color, clip_on=False, zorder=3)
        axes.text(1.03, line, _told(record), transform=axes.get_yaxis_transform(), va="center",
                  fontsize="small")  # fmt: skip
        if line and record.row != table.loc[line - 1, "row"]:
            axes.axhline(line - 0.5, color="#BBBBBB", linewidth=0.8)
    least = min(0.9, int(10 * table["low"].min()) / 10)
    axes.set(
        xlim=(least, 1.0 + 0.02 * (1 - least)),
        ylim=(len(table) - 0.5, -0.5),
        xlabel="exact match",
    )
    axes.set_yticks(lines, [f"{record.problems}, {record.size}" for record in table.itertuples()])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    style.format_percent(axes.xaxis)
    return figure, table


def accuracy_by_size(tables: load.ResultTables) -> pd.DataFrame:
    """Return accuracy at the largest sizes answered by all seeds, and by one seed.

    The first are means over `seeds`; the interval of one seed is Wilson's. The second also hold the
    `tokens` of a problem and the number of `wrong` tokens under teacher forcing.
    """
    common = load.select_start(tables["cells"], load.choose_starts(tables["cells"]))
    common = common[common["set"].isin(["equal", "far"])]
    common = common[common["i"] == common.groupby("row")["i"].transform("max")]
    rows = load.list_rows(tables["cells"])
    common = load.average_seeds(common, ["row", "trained", "i", "j"])
    far = tables["reach"].assign(seeds=1).drop(columns=["profile", "seed"])
    table = pd.concat([part for part in (common, far) if len(part)], ignore_index=True)
    table = table.reindex(columns=[*common, "wrong", "tokens"])
    named = [PROBLEMS.get(_task(row), ("problems", "{i:,} by {j:,}")) for row in table["row"]]
    size_labels = [size.format(i=part.i, j=part.j)
            for (_, size), part in zip(named, table.itertuples(), strict=True)]  # fmt: skip
    table = table.assign(problems=[name for name, _ in named], size=size_labels)
    return load.select_rows(table, rows).reset_index(drop=True)


def _task(row: str) -> str:
    """Return the task of a row, with its sub-task if it has one.

    >>> _task("parity_relative_scratchpad"), _task("addition_relative_carries")
    ('parity', 'addition_carries')
    """
    task, part = style.find_task_name(row), row.rsplit("_", 1)[-1]
    return f"{task}_{part}" if f"{task}_{part}" in PROBLEMS else task


def _told(record) -> str:
    """Return the description of one line of `accuracy_by_size`."""
    seeds = "one seed" if record.seeds == 1 else f"{record.seeds} seeds"
    count = (
        f"{record.n - record.exact:,} of {record.n:,} wrong, {seeds}, trained to {record.trained}"
    )
    return count + ("" if pd.isna(record.tokens) else f"; {int(record.tokens):,} tokens each")
