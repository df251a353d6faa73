"""Attention maps of heads, and the share of attention on the digits that a sum needs."""

from __future__ import annotations

import textwrap

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from carry.plots import load, style

HEAD = ["row", "seed", "layer", "head"]
CLIPPED = 0.01  # smaller weights are black, as in the paper
INCH = 0.05  # of a token: its character must fit
LONGEST = 130  # tokens; longer problems are labelled by their numbers only

# The digits that determine a digit of the sum, and other targets of attention. Pale and hatched, so
# that nobody takes them for schemes (after Paul Tol's light colours).
NEEDED = {
    "operand": ("operand to be added", "#77AADD", ""),
    "sum so far": ("sum so far", "#EE8866", ""),
    "carry": ("the place below, for the carry", "#EEDD88", "///"),
    "first token": ("first token", "#DDDDDD", ""),
    "other": ("anything else", "#FFFFFF", "xxx"),
}


@style.use_style
def draw_attention_maps(
    attention: pd.DataFrame, heads: pd.DataFrame, tokens: pd.DataFrame, most: int = 4
) -> tuple[Figure, pd.DataFrame]:
    """Draw the attention of each response token to all tokens, next to the construction `BY_HAND`.

    The drawn heads are those of each row's first seed with the most attention on needed digits.

    Args:
        attention: mean attention by query and key.
        heads: share of attention by kind of needed token.
        tokens: the tokens of one problem, for the axes.
        most: largest number of heads of each row.
    """
    chosen = _choose(heads, most)
    parts, drawn_as = [], []
    for row, group in chosen.groupby("row", sort=False):
        row_tokens = tokens[(tokens["row"] == row) & (tokens["seed"] == group["seed"].iloc[0])]
        signs = row_tokens.sort_values("at")["token"].tolist()
        begins = signs.index("=")
        for head in group.itertuples():
            keys = [attention[name] == getattr(head, name) for name in HEAD]
            part = attention[np.logical_and.reduce(keys)]
            inside = (part["query"] >= begins) & (part["query"] < len(signs) - 1)
            parts.append(part[inside])
            drawn_as.append((head, signs, begins))
    if chosen["row"].nunique() == 2:  # side by side, not one below the other
        half = int((chosen["row"] == chosen["row"].iloc[0]).sum())
        order = [
            at for pair in zip(range(half), range(half, len(parts)), strict=False) for at in pair
        ]
        order += [at for at in range(len(parts)) if at not in order]
    else:
        order = list(range(len(parts)))
    width = max(len(signs) for _, signs, _ in drawn_as)
    height = max(len(signs) - begins for _, signs, begins in drawn_as)
    inch = INCH * min(1, LONGEST / width)
    # Room for the labels and the colour bar.
    size = (max(2.6, inch * width + 0.7), max(1.3, inch * height + 0.75))
    figure, panels = style.make_panels(len(order), 2, size)
    for axes, at in zip(panels, order, strict=True):
        head, signs, begins = drawn_as[at]
        picture = draw_attention_map(axes, parts[at], signs, begins)
        row_tokens = tokens[(tokens["row"] == head.row) & (tokens["seed"] == head.seed)]
        _numbers(axes, row_tokens.sort_values("at"), begins)
        name = (
            "Theorem 4.1" if head.row == load.CONSTRUCTION else style.choose_style(head.row).label
        )
        which = f"layer {head.layer + 1}, head {head.head + 1}"
        title = f"{name}\n{which}: {head.share:.0%} on digits needed"
        axes.set_title(title, fontsize="small", loc="left", pad=11)
    bar = figure.colorbar(picture, ax=panels, shrink=0.6, aspect=30)
    bar.set_label("mean attention")
    bar.outline.set_visible(False)
    style.format_percent(bar.ax.yaxis)
    table = pd.concat(parts)
    return figure, table[table["weight"] >= CLIPPED].reset_index(drop=True)


def _choose(heads: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return the heads of each row's first seed with the most attention on needed digits."""
    first = heads[heads["seed"] == heads.groupby("row")["seed"].transform("min")]
    useful = first[~first["needed"].isin(["first token", "other"])]
    share = useful.groupby(HEAD, sort=False)["share"].sum().reset_index()
    best = share.sort_values("share", ascending=False, kind="stable").groupby("row").head(most)
    chosen = best.sort_values(["layer", "head"], kind="stable")
    rows = sorted(load.list_rows(heads), key=lambda row: row == load.CONSTRUCTION)
    return load.select_rows(chosen, rows)


def draw_attention_map(
    axes: Axes, part: pd.DataFrame, signs: list[str], begins: int, size: float = 3.4
) -> AxesImage:
    """Draw the attention of one head, with the tokens on both axes in a given font size."""
    square = part.pivot(index="query", columns="key", values="weight").sort_index()
    weights = square.reindex(columns=range(len(signs))).to_numpy(dtype=float)
    colors = matplotlib.colormaps["inferno"].with_extremes(bad="black")
    picture = axes.imshow(
        np.where(weights < CLIPPED, np.nan, weights), norm=PowerNorm(0.5, 0, 1), cmap=colors,
        aspect="equal", interpolation="none",
        extent=(-0.5, len(signs) - 0.5, len(signs) - 1.5, begins - 0.5),
    )  # fmt: skip
    text_style = {"fontsize": size, "family": "monospace"}
    label_all = len(signs) <= LONGEST
    axes.set_xticks(
        range(len(signs)) if label_all else [], signs if label_all else [], **text_style
    )
    rows = range(begins, len(signs) - 1)
    axes.set_yticks(rows if label_all else [], signs[begins:-1] if label_all else [], **text_style)
    axes.tick_params(length=0, pad=1)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return picture


def _numbers(axes: Axes, tokens: pd.DataFrame, begins: int) -> None:
    """Mark the numbers: a1, a2, ... in the question, s0, s1, ... in the response."""
    operands = int(tokens.loc[tokens["at"] < begins, "number"].max())
    written = sorted(set(tokens.loc[tokens["at"] > begins, "number"]) - {0})
    first = 0 if len(written) > operands else 1  # running sums may start with 0
    for number, part in tokens[tokens["number"] > 0].groupby("number"):
        in_response = number > operands
        name = f"s{number - operands - 1 + first}" if in_response else f"a{number}"
        name = "s" if len(written) == 1 and in_response else name
        middle, edge = part["at"].mean(), part["at"].max() + 0.5
        text_style = {"color": "#555555", "fontsize": 6, "ha": "center", "va": "center"}
        axes.text(middle, begins - 2.2, name, **text_style)
        axes.axvline(edge, color="#666666", linewidth=0.3)
        if in_response:
            axes.text(-3.6, middle, name, **text_style)
            axes.axhline(edge, color="#666666", linewidth=0.3)


@style.use_style
def draw_attention_shares(heads: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw the shares of attention by kind of needed token, for each head and seed.

    The construction `BY_HAND` comes first. Equal head numbers of two seeds are unrelated.
    """
    rows = sorted(load.list_rows(heads), key=lambda row: row != load.CONSTRUCTION)
    table = load.select_rows(heads, rows).reset_index(drop=True)
    wide = table.pivot_table(index=HEAD, columns="needed", values="share", sort=False)
    bars = [wide.loc[row] for row in rows]
    longest = max(map(len, bars))
    size = (max(3.0, 4.6 / len(rows)), max(1.9, 0.13 * longest + 1.0))
    figure, panels = style.make_panels(len(rows), 3, size, sharex=True)
    for axes, row, bar in zip(panels, rows, bars, strict=True):
        left = np.zeros(len(bar))
        for name, (label, color, hatch) in NEEDED.items():
            share = bar[name].to_numpy(dtype=float) if name in bar else np.zeros(len(bar))
            axes.barh(
                range(len(bar)), share, 0.8, left=left, label=label, color=color, hatch=hatch,
                edgecolor="#AAAAAA" if name == "other" else "white", linewidth=0.4,
            )  # fmt: skip
            left = left + share
        several = bar.index.get_level_values("seed").nunique() > 1
        names = [
            (f"seed {seed}: " if several else "") + f"{layer + 1}.{head + 1}"
            for seed, layer, head in bar.index
        ]
        axes.set_yticks(range(len(bar)), names, fontsize=6)
        axes.set(xlim=(0, 1), ylim=(longest - 0.4, -0.6), xticks=[0, 0.5, 1])
        title = "Theorem 4.1" if row == load.CONSTRUCTION else style.choose_style(row).label
        axes.set_title(textwrap.fill(title, 26), fontsize="medium")
        axes.grid(visible=False)
        axes.tick_params(axis="y", length=0)
        style.format_percent(axes.xaxis)
    figure.supxlabel("attention where digits of sums are predicted", fontsize="medium")
    figure.supylabel("layer.head", fontsize="medium")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    return figure, table
