"""What is learned when: digits by place, and losses by length, over the steps of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.plots import lengths, load, style

COLUMNS = 3
LEARNED = 0.9  # of the digits at a place
DIRECTION = {True: "highest digit first", False: "ones first"}


@style.styled
def by_place(
    tables: load.Tables, highest_first: tuple[str, ...], names: Mapping[str, str] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw digits right by place over training, at the longest trained length of each row.

    The highest place, which is but a carry out of all others, is dashed: where no zeros are
    written in front it is there only if it is a one.

    Args:
        tables: of which `order` is drawn.
        highest_first: rows whose answers are not written with the ones first.
        names: of rows that are not to be called by their names.
    """
    longest = _longest(tables)
    table = lengths.batched_seeds(longest, ["row", "trained", "digits", "place", "step"], "correct")
    rows = load.rows(table)
    figure, drawn = lengths.grid(len(rows), COLUMNS, (2.8, 2.5), sharey=True)
    shades = _shades(range(int(table["place"].max()) + 1))
    for axes, row in zip(drawn, rows, strict=True):
        own = table[table["row"] == row]
        for place, of in own.sort_values("step").groupby("place"):
            dashes = "--" if place == own["digits"].iloc[0] else "-"
            axes.plot(of["step"], of["accuracy"], dashes, color=shades[place], linewidth=1.7)
            axes.fill_between(
                of["step"], of["low"], of["high"], color=shades[place], alpha=0.18, linewidth=0
            )
        axes.set_title(_title(row, own, highest_first, names), fontsize="small")
        axes.set_ylim(-0.03, 1.03)
        style.percent(axes.yaxis)
    for axes in drawn[::COLUMNS]:
        axes.set_ylabel("digits right")
    figure.supxlabel("training step", fontsize="medium")
    handles = [Line2D([], [], color=color, label=str(of)) for of, color in shades.items()]
    handles += [Line2D([], [], color="#555555", linestyle="--", label="the carry out")]
    figure.legend(handles=handles, title="place\n(0: the ones)", loc="outside right center")
    return figure, table


@style.styled
def reached(
    tables: load.Tables, highest_first: tuple[str, ...], names: Mapping[str, str] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw at which step each place is learned, at the longest trained length; dots are seeds.

    Args:
        tables, highest_first, names: as for `by_place`.
    """
    table = reached_table(_longest(tables))
    rows = load.rows(table)
    figure, drawn = lengths.grid(len(rows), COLUMNS, (2.8, 2.3))
    for axes, row in zip(drawn, rows, strict=True):
        own, look = table[table["row"] == row], style.look(row)
        last = own["last"].max()
        there, never = own[own["step"].notna()], own[own["step"].isna()]
        order = sorted(own["place"].unique(), reverse=row in highest_first)
        at = {place: index for index, place in enumerate(order)}
        middle = there.groupby("place")["step"].median()
        middle = middle.loc[sorted(middle.index, key=at.get)]
        axes.plot(middle.index.map(at), middle, color=look.color, linewidth=1.6)
        axes.plot(there["place"].map(at), there["step"], "o", ms=4.5, color=look.color, mec="white")
        axes.plot(never["place"].map(at), [1.12 * last] * len(never), "x", ms=5, color="#444444")
        axes.axhline(1.06 * last, color="#AAAAAA", linewidth=0.8, linestyle=":")
        every = lengths.step(len(order))
        axes.set_xticks(range(len(order))[::every], list(map(str, order))[::every])
        axes.set(ylim=(0, 1.2 * last), xlim=(-0.5, len(order) - 0.5))
        axes.set_title(_title(row, own, highest_first, names), fontsize="small")
    for axes in drawn[::COLUMNS]:
        axes.set_ylabel(f"step with {LEARNED:.0%} right")
    figure.supxlabel(
        "place of the answer, in the order of writing (0: the ones)", fontsize="medium"
    )
    marks = {"o": "a seed", "x": "not within training"}
    handles = [
        Line2D([], [], marker=mark, linestyle="none", color="#444444", label=text)
        for mark, text in marks.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure, table


def reached_table(order: pd.DataFrame) -> pd.DataFrame:
    """Return the step from which on a place stays learned, of each seed; missing if it never is.

    `n` and the interval are those of the digits right at that step, or at the `last` one.

    >>> names = {"row": "a", "trained": 2, "digits": 2, "seed": 0, "place": 0, "low": 0, "high": 1}
    >>> steps = {"step": [1, 2, 3], "n": 10, "accuracy": [0.95, 0.5, 0.9]}
    >>> reached_table(pd.DataFrame({**names, **steps}))[["step", "last"]].values.tolist()
    [[3, 3]]
    """
    found = []
    for names, of in order.groupby(["row", "trained", "digits", "seed", "place"], sort=False):
        of = of.sort_values("step")
        stays = of["accuracy"].ge(LEARNED)[::-1].cummin()[::-1]
        at = of[stays].iloc[0] if stays.any() else of.iloc[-1]
        step = at["step"] if stays.any() else np.nan
        found.append([*names, step, of["step"].max(), at["n"], at["accuracy"], at["low"]])
        found[-1].append(at["high"])
    names = ["row", "trained", "digits", "seed", "place", "step", "last", "n", "accuracy"]
    return pd.DataFrame(found, columns=[*names, "low", "high"])


@style.styled
def losses(
    tables: load.Tables, names: Mapping[str, str] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw the loss of each length over training, a panel for each row; dashed what is not trained.

    Lines are means over seeds, and `low` and `high` the seeds that are lowest and highest.

    Args:
        tables: of which `losses` is drawn.
        names: of rows that are not to be called by their names.
    """
    keys = ["row", "trained", "digits", "step"]
    of = {"loss": ("loss", "mean"), "low": ("loss", "min"), "high": ("loss", "max")}
    of |= {"n": ("n", "sum"), "seeds": ("seed", "nunique")}
    table = tables.losses.groupby(keys, sort=False).agg(**of).reset_index()
    known = lengths.seen(tables)
    table = lengths.with_region(table, known)
    rows = load.rows(table)
    figure, drawn = lengths.grid(len(rows), COLUMNS, (2.8, 2.5), sharey=True)
    shades = _shades(sorted(table["digits"].unique().tolist()))
    dashes = {lengths.TRAINED: "-", lengths.WITHIN: ":", lengths.BEYOND: "--"}
    for axes, row in zip(drawn, rows, strict=True):
        own = table[table["row"] == row].sort_values("step")
        for (digits, region), part in own.groupby(["digits", "region"]):
            line = {"color": shades[digits], "linestyle": dashes[region]}
            axes.plot(part["step"], part["loss"], linewidth=1.6, **line)
            axes.fill_between(
                part["step"], part["low"], part["high"], color=shades[digits], alpha=0.12,
                linewidth=0,
            )  # fmt: skip
        axes.set_yscale("log")
        axes.set_title(lengths.title(row, known[row], names), fontsize="small")
    for axes in drawn[::COLUMNS]:
        axes.set_ylabel("loss of a token")
    figure.supxlabel("training step", fontsize="medium")
    handles = [Line2D([], [], color=color, label=str(of)) for of, color in shades.items()]
    figure.legend(handles=handles, title="digits", loc="outside right center")
    handles = [
        Line2D([], [], color="#444444", linestyle=dashes[of], label=label)
        for of, (label, _, _) in lengths.REGIONS.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure, table


def _longest(tables: load.Tables) -> pd.DataFrame:
    """Return the digits right of each row at the longest length that it was trained on.

    Beyond the place of the carry out there is nothing, or zeros to a given length: left out.
    """
    order = tables.order
    longest = order["row"].map({row: max(of) for row, of in lengths.seen(tables).items()})
    kept = (order["digits"] == longest) & (order["place"] <= longest)
    return order[kept].reset_index(drop=True)


def _title(
    row: str, own: pd.DataFrame, highest_first: tuple[str, ...], names: Mapping[str, str] | None
) -> str:
    name = lengths.title(row, [1], names).rsplit("\n", 1)[0]
    return f"{name}\n{own['digits'].iloc[0]} digits, {DIRECTION[row in highest_first]}"


def _shades(values: Sequence[int]) -> dict[int, np.ndarray]:
    colors = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.92, len(values)))
    return dict(zip(values, colors, strict=True))
