"""Learning over training: accuracy by place, steps until learned, and loss by length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.plots import lengths, load, style

COLUMNS = 3
LEARNED = 0.9  # digit accuracy at which a place counts as learned
DIRECTION = {True: "highest digit first", False: "ones first"}


@style.use_style
def draw_learning_by_place(
    tables: load.ResultTables,
    highest_first: tuple[str, ...],
    names: Mapping[str, str] | None = None,
) -> tuple[Figure, pd.DataFrame]:
    """Draw digit accuracy by place over training, at the longest trained length of each row.

    The highest place, which holds only a carry, is dashed. Without zero padding it exists only if
    it is one.

    Args:
        tables: holds the table `order`.
        highest_first: rows that write the most significant digit first.
        names: labels that replace those of the rows.
    """
    longest = _longest(tables)
    table = load.average_seeds(longest, ["row", "trained", "digits", "place", "step"], "correct")
    rows = load.list_rows(table)
    figure, panels = lengths.make_wide_panels(len(rows), COLUMNS, (2.8, 2.5), sharey=True)
    shades = _shades(range(int(table["place"].max()) + 1))
    for axes, row in zip(panels, rows, strict=True):
        part = table[table["row"] == row]
        for place, group in part.sort_values("step").groupby("place"):
            dashes = "--" if place == part["digits"].iloc[0] else "-"
            axes.plot(group["step"], group["accuracy"], dashes, color=shades[place], linewidth=1.7)
            axes.fill_between(
                group["step"],
                group["low"],
                group["high"],
                color=shades[place],
                alpha=0.18,
                linewidth=0,
            )
        axes.set_title(_title(row, part, highest_first, names), fontsize="small")
        axes.set_ylim(-0.03, 1.03)
        style.format_percent(axes.yaxis)
    for axes in panels[::COLUMNS]:
        axes.set_ylabel("digits right")
    figure.supxlabel("training step", fontsize="medium")
    handles = [Line2D([], [], color=color, label=str(group)) for group, color in shades.items()]
    handles += [Line2D([], [], color="#555555", linestyle="--", label="the carry out")]
    figure.legend(handles=handles, title="place\n(0: the ones)", loc="outside right center")
    return figure, table


@style.use_style
def draw_learned_steps(
    tables: load.ResultTables,
    highest_first: tuple[str, ...],
    names: Mapping[str, str] | None = None,
) -> tuple[Figure, pd.DataFrame]:
    """Draw the step at which each place is learned, at the longest trained length; dots are seeds.

    Args:
        tables, highest_first, names: as for `draw_learning_by_place`.
    """
    table = tabulate_learned_steps(_longest(tables))
    rows = load.list_rows(table)
    figure, panels = lengths.make_wide_panels(len(rows), COLUMNS, (2.8, 2.3))
    for axes, row in zip(panels, rows, strict=True):
        part, row_style = table[table["row"] == row], style.choose_style(row)
        last = part["last"].max()
        there, never = part[part["step"].notna()], part[part["step"].isna()]
        order = sorted(part["place"].unique(), reverse=row in highest_first)
        at = {place: index for index, place in enumerate(order)}
        middle = there.groupby("place")["step"].median()
        middle = middle.loc[sorted(middle.index, key=at.get)]
        axes.plot(middle.index.map(at), middle, color=row_style.color, linewidth=1.6)
        axes.plot(
            there["place"].map(at), there["step"], "o", ms=4.5, color=row_style.color, mec="white"
        )
        axes.plot(never["place"].map(at), [1.12 * last] * len(never), "x", ms=5, color="#444444")
        axes.axhline(1.06 * last, color="#AAAAAA", linewidth=0.8, linestyle=":")
        every = lengths.choose_tick_step(len(order))
        axes.set_xticks(range(len(order))[::every], list(map(str, order))[::every])
        axes.set(ylim=(0, 1.2 * last), xlim=(-0.5, len(order) - 0.5))
        axes.set_title(_title(row, part, highest_first, names), fontsize="small")
    for axes in panels[::COLUMNS]:
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


def tabulate_learned_steps(order: pd.DataFrame) -> pd.DataFrame:
    """Return for each seed the step from which a place stays learned; missing if it never does.

    `n` and the interval belong to the digits at that step, or at the `last` step.

    >>> names = {"row": "a", "trained": 2, "digits": 2, "seed": 0, "place": 0, "low": 0, "high": 1}
    >>> steps = {"step": [1, 2, 3], "n": 10, "accuracy": [0.95, 0.5, 0.9]}
    >>> tabulate_learned_steps(pd.DataFrame({**names, **steps}))[["step", "last"]].values.tolist()
    [[3, 3]]
    """
    records = []
    for names, group in order.groupby(["row", "trained", "digits", "seed", "place"], sort=False):
        group = group.sort_values("step")
        stays = group["accuracy"].ge(LEARNED)[::-1].cummin()[::-1]
        at = group[stays].iloc[0] if stays.any() else group.iloc[-1]
        step = at["step"] if stays.any() else np.nan
        records.append([*names, step, group["step"].max(), at["n"], at["accuracy"], at["low"]])
        records[-1].append(at["high"])
    names = ["row", "trained", "digits", "seed", "place", "step", "last", "n", "accuracy"]
    return pd.DataFrame(records, columns=[*names, "low", "high"])


@style.use_style
def draw_losses_by_length(
    tables: load.ResultTables, names: Mapping[str, str] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw the loss of each length over training, one panel for each row; untrained lengths dashed.

    Lines are means over seeds; `low` and `high` are the lowest and the highest seed.

    Args:
        tables: holds the table `losses`.
        names: labels that replace those of the rows.
    """
    keys = ["row", "trained", "digits", "step"]
    aggregates = {"loss": ("loss", "mean"), "low": ("loss", "min"), "high": ("loss", "max")}
    aggregates |= {"n": ("n", "sum"), "seeds": ("seed", "nunique")}
    table = tables["losses"].groupby(keys, sort=False).agg(**aggregates).reset_index()
    trained_lengths = lengths.find_trained_lengths(tables)
    table = lengths.add_region_column(table, trained_lengths)
    rows = load.list_rows(table)
    figure, panels = lengths.make_wide_panels(len(rows), COLUMNS, (2.8, 2.5), sharey=True)
    shades = _shades(sorted(table["digits"].unique().tolist()))
    dashes = {lengths.TRAINED: "-", lengths.WITHIN: ":", lengths.BEYOND: "--"}
    for axes, row in zip(panels, rows, strict=True):
        own = table[table["row"] == row].sort_values("step")
        for (digits, region), part in own.groupby(["digits", "region"]):
            line = {"color": shades[digits], "linestyle": dashes[region]}
            axes.plot(part["step"], part["loss"], linewidth=1.6, **line)
            axes.fill_between(
                part["step"], part["low"], part["high"], color=shades[digits], alpha=0.12,
                linewidth=0,
            )  # fmt: skip
        axes.set_yscale("log")
        axes.set_title(lengths.make_panel_title(row, trained_lengths[row], names), fontsize="small")
    for axes in panels[::COLUMNS]:
        axes.set_ylabel("loss of a token")
    figure.supxlabel("training step", fontsize="medium")
    handles = [
        Line2D([], [], color=color, label=str(aggregates)) for aggregates, color in shades.items()
    ]
    figure.legend(handles=handles, title="digits", loc="outside right center")
    handles = [
        Line2D([], [], color="#444444", linestyle=dashes[aggregates], label=label)
        for aggregates, (label, _, _) in lengths.REGIONS.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure, table


def _longest(tables: load.ResultTables) -> pd.DataFrame:
    """Return the digit accuracy of each row at its longest trained length.

    Places above the final carry hold nothing, or padding zeros; they are left out.
    """
    order = tables["order"]
    longest = order["row"].map(
        {row: max(lengths_) for row, lengths_ in lengths.find_trained_lengths(tables).items()}
    )
    kept = (order["digits"] == longest) & (order["place"] <= longest)
    return order[kept].reset_index(drop=True)


def _title(
    row: str, part: pd.DataFrame, highest_first: tuple[str, ...], names: Mapping[str, str] | None
) -> str:
    name = lengths.make_panel_title(row, [1], names).rsplit("\n", 1)[0]
    return f"{name}\n{part['digits'].iloc[0]} digits, {DIRECTION[row in highest_first]}"


def _shades(values: Sequence[int]) -> dict[int, np.ndarray]:
    colors = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.92, len(values)))
    return dict(zip(values, colors, strict=True))
