"""Attention of heads: maps from each response token to all before it, and shares of one query."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from carry.plots import style

CLIPPED = 0.01  # smaller weights are black, as in the paper
GROUPS = {  # of `carry.interpretability.far_ids.group_differences`
    "signs": "#BBBBBB",
    "same or neighbouring id": "#0173B2",
    "as far as in training": "#9CC9E8",
    "farther": "#DE8F05",
}
LEAST_SPACE = 5.0  # points of a token on an axis; with less, numbers alone are named


def draw_attention_shares(table: pd.DataFrame) -> sns.FacetGrid | None:
    """Draw what each head of a model attends to as a stacked bar, in a panel for each length.

    The table has `digits`, `layer`, `head`, `to` (one of `GROUPS`) and `attention`.
    """
    if table.empty:
        return None
    table = table.assign(head=table["layer"].astype(str) + "." + table["head"].astype(str))
    grid = sns.FacetGrid(table, col="digits", height=2.6, aspect=1.15)
    for digits, axes in grid.axes_dict.items():
        part = table[table["digits"] == digits]
        shares = part.pivot(index="head", columns="to", values="attention").fillna(0.0)
        shares.plot.bar(stacked=True, ax=axes, color=GROUPS, legend=False, width=0.85)
        axes.set(title=f"{digits} digits", xlabel="layer.head", ylabel="attention", ylim=(0, 1))
        axes.tick_params(axis="x", rotation=90, labelsize=7)
    bars = {name: Rectangle((0, 0), 1, 1, color=color) for name, color in GROUPS.items()}
    grid.add_legend(bars, title="attention to", label_order=[*GROUPS])
    return grid


def draw_attention_maps(
    attention: pd.DataFrame, tokens: pd.DataFrame, **settings: Any
) -> sns.FacetGrid | None:
    """Draw the attention of each token of the response to all tokens, one head in each panel.

    Both axes name the numbers, as `name_numbers` does, and have their tokens where these fit.

    `attention` has `row`, `seed`, `query`, `key`, `weight` and `panel`; `tokens` has `at`, `token`
    and `number` of one problem of each `row` and `seed`. `settings` are those of
    `seaborn.FacetGrid`.
    """
    if attention.empty:
        return None
    grid = sns.FacetGrid(attention, col="panel", sharex=False, sharey=False, **settings)
    for panel, axes in grid.axes_dict.items():
        part = attention[attention["panel"] == panel]
        same = (tokens["row"] == part["row"].iloc[0]) & (tokens["seed"] == part["seed"].iloc[0])
        image = _draw_map(axes, part, tokens[same].sort_values("at"))
        axes.set_title(panel, fontsize="small")
    grid.figure.supxlabel("attended token", fontsize="medium")
    grid.figure.supylabel("token that predicts the next one", fontsize="medium")
    grid.figure.set_layout_engine("constrained")
    style.add_color_bar(grid, image, "mean attention", shrink=0.6)
    return grid


def name_numbers(tokens: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of a problem: the first and last token of each, by name.

    Operands are a1, a2, ...; written numbers are s0, s1, ..., and s if there is one alone.

    >>> numbers = [1, 0, 2, 0, 3, 3]
    >>> table = pd.DataFrame({"at": range(6), "token": list("8+9=71"), "number": numbers})
    >>> name_numbers(table).values.tolist()
    [['a1', 0, 0], ['a2', 2, 2], ['s', 4, 5]]
    """
    begins = tokens.loc[tokens["token"] == "=", "at"].iloc[0]
    ends = tokens[tokens["number"] > 0].groupby("number")["at"].agg(["min", "max"])
    written = ends["min"] > begins
    names = [f"a{number}" for number in range(1, int((~written).sum()) + 1)]
    many = int(written.sum())
    names += ["s"] if many == 1 else [f"s{number}" for number in range(many)]
    ends.insert(0, "name", names)
    return ends


def _draw_map(axes: Axes, part: pd.DataFrame, tokens: pd.DataFrame) -> AxesImage:
    """Draw the attention of one head; return the image."""
    begins, end = tokens.loc[tokens["token"] == "=", "at"].iloc[0], len(tokens) - 1
    inside = part[(part["query"] >= begins) & (part["query"] < end)]
    square = inside.pivot(index="query", columns="key", values="weight").sort_index()
    weights = square.reindex(columns=range(len(tokens))).to_numpy(dtype=float)
    image = axes.imshow(
        np.where(weights < CLIPPED, 0, np.nan_to_num(weights)), norm=PowerNorm(0.5, 0, 1),
        cmap="inferno", aspect="auto", interpolation="none",
        extent=(-0.5, end + 0.5, end - 0.5, begins - 0.5),
    )  # fmt: skip
    numbers, signs = name_numbers(tokens), tokens["token"].tolist()
    width, height = axes.get_window_extent().size * 72 / axes.figure.dpi
    for axis, least, draw in ((axes.xaxis, 0, axes.axvline), (axes.yaxis, begins, axes.axhline)):
        visible = numbers[numbers["min"] >= least]
        axis.set_ticks((visible["min"] + visible["max"]) / 2, visible["name"])
        for edge in visible["max"]:
            draw(edge + 0.5, color="#777777", linewidth=0.4)
        inches = width if axis is axes.xaxis else height
        if inches / (end + 1 - least) >= LEAST_SPACE:
            axis.remove_overlapping_locs = False  # else those at the middle of a number vanish
            axis.set_ticks(range(least, end), signs[least:end], minor=True, family="monospace")
            axis.set_tick_params(which="major", pad=13)
    axes.tick_params(which="both", length=0, labelsize=7)
    axes.set(xlabel="", ylabel="")
    style.strip_axes(axes)
    return image
