"""The computation of a local adder: attention places, head ablations, and the decision to carry.

Equal head numbers of two seeds are unrelated. Heads are therefore ordered by their attention to
the digits of the place just written, which determine the carry.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from carry.evaluation.intervals import pool_cells
from carry.plots import load, style
from carry.plots.inside import NO_HEAD, add_color_bar, draw_heatmap

# The name in `carry.analyses.local_adder` of the digits that determine the carry.
BELOW = "digits of this place"
KINDS = {
    BELOW: ("digits of the place just written, a and b", "#882255"),
    "digits of the next place": ("digits of the place that is due, x and y", "#56B4E9"),
    "itself": ("the digit just written, d", "#EDB120"),
    "the first token": ("the first token", "#C8C8C8"),
}
FAULTS = {
    "right": ("right", "#C8DCEB"),
    "carry": ("wrong by a carry", "#882255"),
    "other": ("wrong otherwise", "#444444"),
}
READ = {
    "carry": ("the carry", "#882255", "o"),
    "sum": ("x + y, its last digit", "#0072B2", "s"),
    "answer": ("the digit due", "#222222", "^"),
}
WHERE = ["after attention", "after the feed-forward network"]
# The construction of cho2025 adds a tenth of a + b - d, and 0.21, to x + y, and predicts the digit
# with the largest output: half a unit above a digit its output begins to fall and the output of the
# next to rise (D.6.1). They are equal three quarters above, where (a + b - d) / 10 + 0.21 = 0.75.
THEOREM = 5.4
POSSIBLE = {"nothing carried": (-1, 0), "carried": (9, 10)}


@style.use_style
def draw_attention_places(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the attention share of each head by kind of token, for each seed."""
    table = _ranked(tables, tables["attention_places"])
    figure, drawn, panels = _panels(table)
    for axes, part in zip(drawn, panels, strict=True):
        _bars(axes, part.pivot(index="rank", columns="where", values="share"), KINDS)
        _heads(axes, part)
    _finish(figure, drawn, KINDS, "share of attention")
    return figure, table


@style.use_style
def draw_without_heads(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the right and the wrong digits without each head, for each seed."""
    table = tables["without_head"].assign(
        other=lambda table_: table_["n"] - table_["right"] - table_["carry"]
    )
    table = _ranked(tables, table)
    figure, drawn, panels = _panels(table)
    for axes, part in zip(drawn, panels, strict=True):
        _bars(axes, part.set_index("rank")[[*FAULTS]].div(part["n"].max()), FAULTS)
        _heads(axes, part)
    _finish(figure, drawn, FAULTS, "contexts of the middle of a sum")
    return figure, table


def draw_head_ranks(table: pd.DataFrame) -> pd.Series:
    """Return the order of the heads of each row and seed, by attention to the place just written.

    >>> two = pd.DataFrame({"row": "a", "seed": 0, "head": [0, 1], "where": BELOW,
    ...                     "share": [0.1, 0.4]})
    >>> draw_head_ranks(two).to_dict()
    {('a', 0, 0): 1, ('a', 0, 1): 0}
    """
    share = table[table["where"] == BELOW].set_index(["row", "seed", "head"])["share"]
    order = share.groupby(level=["row", "seed"]).rank(ascending=False, method="first")
    return order.astype(int) - 1


def _ranked(tables: load.ResultTables, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the `rank` of each head, "all heads" first, and `trained`.

    Heads without measured attention keep the order of their numbers.
    """
    keys = pd.MultiIndex.from_frame(table[["row", "seed", "head"]])
    rank = draw_head_ranks(tables["attention_places"]).reindex(keys).to_numpy(dtype=float)
    rank = np.where(table["head"] == NO_HEAD, NO_HEAD, rank)
    table = table.assign(rank=pd.Series(rank, index=table.index).fillna(table["head"]).astype(int))
    table = _trained(tables, table).drop(columns="profile")
    return table.sort_values(["row", "seed", "rank"], kind="stable").reset_index(drop=True)


def _trained(tables: load.ResultTables, table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(trained=table["row"].map(load.find_training_lengths(tables["cells"])))


def _panels(table: pd.DataFrame) -> tuple[Figure, list[Axes], list[pd.DataFrame]]:
    """Return a figure with one titled panel for each row and seed, and the rows of each panel."""
    several, panels, names = table["row"].nunique() > 1, [], []
    for (row, seed), part in table.groupby(["row", "seed"], sort=False):
        names.append(f"{style.choose_style(row).label}, seed {seed}" if several else f"seed {seed}")
        panels.append(part)
    lines = max(part["rank"].nunique() for part in panels)
    columns = 5 if len(panels) > 6 else 3
    size = (max(2.0, 7.4 / min(columns, len(panels))), 0.21 * lines + 0.55)
    figure, drawn = style.make_panels(len(panels), columns, size, sharex=True)
    for axes, name in zip(drawn, names, strict=True):
        axes.set_title(name, fontsize="small")
    return figure, drawn, panels


def _bars(axes: Axes, wide: pd.DataFrame, kinds: dict[str, tuple[str, str]]) -> None:
    """Draw the shares of each line side by side."""
    left = pd.Series(0.0, index=wide.index)
    for kind, (_, color) in kinds.items():
        axes.barh(wide.index, wide[kind], 0.74, left=left, color=color, linewidth=0)
        left += wide[kind]


def _heads(axes: Axes, part: pd.DataFrame) -> None:
    """Label the lines with the heads, the first at the top."""
    named = part.drop_duplicates("rank").set_index("rank")["head"]
    labels = ["all heads" if head == NO_HEAD else f"head {head + 1}" for head in named]
    if NO_HEAD in set(named):
        labels = [labels[0], *(f"no {name}" for name in labels[1:])]
    axes.set_yticks(named.index, labels)
    axes.set(xlim=(0, 1), xticks=[0, 0.5, 1])
    axes.set_ylim(named.index.max() + 0.5, named.index.min() - 0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)
    style.format_percent(axes.xaxis)


def _finish(
    figure: Figure, panels: list[Axes], kinds: dict[str, tuple[str, str]], label: str
) -> None:
    handles = [Patch(color=color, label=text, linewidth=0) for text, color in kinds.values()]
    columns = len(handles) if len(handles) < 4 else 2
    figure.legend(handles=handles, loc="outside upper center", ncols=columns)
    figure.supxlabel(label, fontsize="medium")


def group_carries(tables: load.ResultTables, keys: list[str]) -> pd.DataFrame:
    """Return in how many contexts the model adds a carry, of those where it adds a carry or none.

    Without the seed as a key, shares are means over seeds. In other contexts (`neither`) it
    predicts another digit than x + y or x + y + 1; this happens only where d cannot follow a and b.

    Args:
        tables: holds the table `carries`.
        keys: the columns that define a group.
    """
    table = tables["carries"].astype({"carry": int, "none": int})
    known = table["carry"] + table["none"]
    table = table.assign(
        difference=table["below"] - table["written"],
        contexts=table["n"],
        neither=table["n"] - known,
        n=known,
    )
    counts = table.groupby(keys, as_index=False)[["contexts", "neither"]].sum()
    score = pool_cells if "seed" in keys else load.average_seeds
    return _trained(tables, counts.merge(score(table, keys, "carry"), on=keys))


def find_change(part: pd.DataFrame) -> float:
    """Return the difference at which a model begins to carry in half of the contexts.

    >>> of = pd.DataFrame({"difference": [-1, 0, 4, 5], "accuracy": [0.0, 0.0, 0.25, 0.75]})
    >>> find_change(of)
    4.5
    """
    part = part.sort_values("difference")
    at, share = part["difference"].to_numpy(dtype=float), part["accuracy"].to_numpy(dtype=float)
    for index in range(1, len(at)):
        if share[index - 1] < 0.5 <= share[index]:
            rise = (0.5 - share[index - 1]) / (share[index] - share[index - 1])
            return float(at[index - 1] + rise * (at[index] - at[index - 1]))
    return float("nan")


@style.use_style
def draw_carries(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw where a carry is added, by digit sum and written digit, for the mean and each seed."""
    keys = ["row", "below", "written", "possible"]
    all_seeds, by_seed = (
        group_carries(tables, keys).assign(seed="all"),
        group_carries(tables, [*keys, "seed"]),
    )
    table = pd.concat([all_seeds, by_seed.astype({"seed": str})], ignore_index=True)
    lines = group_carries(tables, ["row", "difference", "seed"])
    means = group_carries(tables, ["row", "difference"])
    panels = list(table.groupby(["row", "seed"], sort=False))
    columns = 4 if len(panels) > 6 else 3
    figure, drawn = style.make_panels(len(panels), columns, (2.9, 1.85), sharex=True, sharey=True)
    figure.set_figheight(figure.get_figheight() + 0.45)  # for the labels right of the panels
    for axes, ((row, seed), part) in zip(drawn, panels, strict=True):
        selected = means if seed == "all" else lines[lines["seed"].astype(str) == seed]
        at = find_change(selected[selected["row"] == row])
        picture = _cells(axes, part, at)
        count = part["seeds"].max()
        name = f"mean of {count:.0f} seeds" if seed == "all" else f"seed {seed}"
        where = "no change" if np.isnan(at) else f"changes at {at:.1f}"
        axes.set_title(f"{name}: {where}", fontsize="small")
    figure.supxlabel("a + b, the digits of the place just written", fontsize="medium")
    figure.supylabel("d, the digit written", fontsize="medium")
    add_color_bar(figure, picture, drawn, "a carry is added")
    return figure, table


def _cells(axes: Axes, part: pd.DataFrame, change_at: float):
    """Draw one matrix, with possible cells framed and a line where carries begin."""
    square = part.pivot(index="written", columns="below", values="accuracy").sort_index()
    picture = draw_heatmap(axes, square.to_numpy(dtype=float), "cividis", Normalize(0, 1))
    for cell in part[part["possible"]].itertuples():
        corner = (cell.below - 0.5, cell.written - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, ec="#E8403A", linewidth=1.1))
    ends = np.array([-0.5, 18.5])
    axes.plot(ends, ends - change_at, color="white", linewidth=1.6, linestyle=(0, (4, 2)))
    axes.set(xlim=ends, ylim=(-0.5, 9.5), xticks=range(0, 19, 3), yticks=range(0, 10, 3))
    return picture


@style.use_style
def draw_carries_by_difference(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of added carries by a + b - d; real sums reach only four of its values."""
    table = group_carries(tables, ["row", "seed", "difference"])
    figure, (axes,) = style.make_panels(1, 1, (7.4, 3.5))
    for name, values in POSSIBLE.items():
        low, high = min(values) - 0.5, max(values) + 0.5
        axes.axvspan(low, high, color=style.TRAINED_COLOR, zorder=0, linewidth=0)
        axes.text((low + high) / 2, 1.1, name, ha="center", va="bottom", fontsize="small",
                  color="#555555")  # fmt: skip
    for row in load.list_rows(table):
        part = table[table["row"] == row]
        style.draw_seeds_and_median(axes, part, row, "difference", "accuracy")
        lost = part.assign(share=part["neither"] / part["contexts"])
        axes.plot(lost.groupby("difference")["share"].median(), color="#777777", ls=":", lw=1.6)
    axes.axvline(THEOREM, color="#009E73", linestyle=(0, (5, 2)), linewidth=1.4)
    least, most = table["difference"].min(), table["difference"].max()
    axes.set(xlim=(least, most), ylim=(-0.03, 1.06), xticks=range(least, most + 1, 3))
    axes.set(xlabel="a + b - d", ylabel="contexts")
    style.format_percent(axes.yaxis)
    _difference_legend(figure, load.list_rows(table)[0])
    return figure, table


def _difference_legend(figure: Figure, row: str) -> None:
    handles = [
        Line2D([], [], label="a carry is added, where\nx + y or x + y + 1 is predicted",
               **style.make_line_style(row, lw=2.2)),
        Line2D([], [], color="#777777", ls=":", lw=1.6, label="neither is predicted"),
        Line2D([], [], color="#009E73", ls=(0, (5, 2)), label="where the construction\nof cho2025 "
               "would change"),
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside right center")


@style.use_style
def draw_read_positions(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the accuracy of a linear probe before and after the feed-forward network."""
    table = _trained(tables, tables["read_positions"])
    table = load.score_seeds(table, ["row", "trained", "where", "what"], "right")
    rows = load.list_rows(table)
    figure, panels = style.make_panels(len(rows), 2, (6.2, 3.2), sharey=True)
    for axes, row in zip(panels, rows, strict=True):
        for number, what in enumerate(READ):
            _slope(axes, table[(table["row"] == row) & (table["what"] == what)], number, what)
        axes.set_xticks([0, 1], WHERE)
        axes.set(xlim=(-0.25, 1.25), ylim=(0, 1.04))
        axes.grid(visible=False, axis="x")
        style.format_percent(axes.yaxis)
        if len(rows) > 1:
            axes.set_title(style.choose_style(row).label, fontsize="small")
    panels[0].set_ylabel("contexts in which a linear map tells it")
    handles = [
        Line2D([], [], color=color, marker=marker, ms=5, label=label)
        for label, color, marker in READ.values()
    ]
    figure.legend(handles=handles, loc="outside right center")
    return figure, table


def _slope(axes: Axes, part: pd.DataFrame, number: int, what: str) -> None:
    """Draw one quantity before and after: the mean with its interval, and each seed."""
    _, color, marker = READ[what]
    part = part.assign(at=part["where"].map(WHERE.index) + 0.05 * (number - 1))
    mean, seeds = part[part["seed"] == "all"].sort_values("at"), part[part["seed"] != "all"]
    ends = [mean["accuracy"] - mean["low"], mean["high"] - mean["accuracy"]]
    axes.errorbar(mean["at"], mean["accuracy"], ends, color=color, marker=marker, ms=6, lw=1.8)
    axes.plot(seeds["at"], seeds["accuracy"], "o", ms=2.6, color=color, alpha=0.6)
