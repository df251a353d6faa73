"""Single heads of the noisy majority: what they find, where they look, what sets of them know."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from carry.evaluation.intervals import add_interval
from carry.plots import load, style

# The two majorities; no scheme is meant.
ZEROS, ONES = "#4C78A8", "#E45756"
SHADES = "viridis"
CHANCE = Normalize(0.5, 1.0, clip=True)  # what is told apart, from chance on
KNOWN = {"separation": "separation accuracy", "learned": "learned accuracy"}
SIZES = {1: "single heads", 2: "pairs", 3: "triples"}


@style.styled
def outputs(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw what the two best and the two worst heads of a model find in test strings.

    Arrows are the values of the tokens 0, 1 and 2, between which all that a head finds lies.
    """
    known, found = (of[of["seed"] == 0] for of in (tables.ratios, tables.outputs))
    ranked = known.sort_values("separation", ascending=False, kind="stable")["head"].tolist()
    chosen = list(dict.fromkeys([*ranked[:2], *ranked[-2:]]))
    figure, drawn = style.panels(len(chosen), 4, (2.5, 2.7))
    for axes, head in zip(drawn, chosen, strict=True):
        of = known[known["head"] == head].iloc[0]
        dots = found[found["head"] == head]
        for token in range(3):
            end = (of[f"value_{token}_0"], of.get(f"value_{token}_1", 0.0))
            axes.annotate("", end, (0, 0), arrowprops={"arrowstyle": "->", "color": "#777777"})
            axes.text(*end, str(token), ha="center", va="bottom", fontsize="large")
            axes.plot(*end, alpha=0)  # so that the arrow is inside
        more = dots["ones"] > dots["zeros"]
        for kind, color in ((~more, ZEROS), (more, ONES)):
            axes.scatter(dots["x"][kind], dots["y"][kind], s=5, color=color, rasterized=True)
        axes.set_title(f"head {head}: {of['separation']:.1%}", fontsize="medium")
        axes.margins(0.15)
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
    handles = [
        matplotlib.lines.Line2D([], [], marker="o", linestyle="none", color=color, label=text)
        for color, text in ((ZEROS, "as many zeros, or more"), (ONES, "more ones"))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    kept = found[found["head"].isin(chosen)].reset_index(drop=True)
    return figure, kept


@style.styled
def ratios(tables: load.Tables, count: int = 3) -> tuple[Figure, pd.DataFrame]:
    """Draw where heads look, and how much they tell: a panel for each of some models."""
    table = tables.ratios[tables.ratios["seed"] < count].reset_index(drop=True)
    seeds = sorted(table["seed"].unique())
    figure, drawn = style.panels(len(seeds), 3, (2.9, 2.7), sharex=True, sharey=True)
    for axes, seed in zip(drawn, seeds, strict=True):
        of = table[table["seed"] == seed]
        axes.axvline(1, color="#AAAAAA", linewidth=1, zorder=0)
        dots = axes.scatter(
            of["w01"], of["w02"], c=of["separation"], cmap=SHADES, norm=CHANCE, s=34,
            edgecolor="#444444", linewidth=0.5,
        )  # fmt: skip
        axes.set(xscale="log", yscale="log", title=f"seed {seed}", xlabel="$w_{01}$: zero to one")
    drawn[0].set_ylabel("$w_{02}$: zero to two")
    _bar(figure, dots, drawn, KNOWN["separation"])
    return figure, _counted(table, "separation")


@style.styled
def by_hand(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw what heads tell if they looked as told: the mean over heads, and their quartiles."""
    table = tables.by_hand
    figure, drawn = style.panels(2, 2, (3.4, 2.7), sharey=True)
    parts = []
    endless = np.isinf(table["w02"])
    for axes, part, by, words in (
        (drawn[0], table[endless], "w01", "$w_{01}$, if no two is looked at"),
        (drawn[1], table[~endless], "w02", "$w_{02}$, if $w_{01}$ = 1"),
    ):
        grouped = part.groupby(by)["separation"]
        low, middle, high = (grouped.quantile(share) for share in (0.25, 0.5, 0.75))
        mean = grouped.mean()
        axes.fill_between(mean.index, low, high, color=style.SHADE)
        axes.plot(mean.index, mean, color=ZEROS, marker="o", ms=3.5, label="mean")
        axes.plot(middle.index, middle, color="#444444", linestyle=":", label="median")
        axes.set(xscale="log", xlabel=words)
        style.percent(axes.yaxis)
        counts = {"heads": grouped.size(), "n": part.groupby(by)["n"].sum()}
        made = pd.DataFrame({"mean": mean, "low": low, "high": high, **counts})
        parts.append(made.rename_axis("ratio").reset_index().assign(set=by))
    drawn[0].set_ylabel("separation accuracy of a head")
    figure.legend(*drawn[0].get_legend_handles_labels(), loc="outside right center")
    return figure, pd.concat(parts, ignore_index=True)


@style.styled
def pairs(tables: load.Tables, of: str, count: int = 3) -> tuple[Figure, pd.DataFrame]:
    """Draw what pairs of heads know, heads in the order of what each knows alone.

    Args:
        of: `separation` or `learned`.
        count: how many models, a panel each.
    """
    table = tables.separations
    table = table[(table["size"] <= 2) & (table["seed"] < count)]
    table = table[table["seed"].isin(table.loc[table["size"] == 2, "seed"])]
    seeds = sorted(table["seed"].unique())
    figure, drawn = style.panels(len(seeds), 3, (3.0, 2.9))
    for axes, seed in zip(drawn, seeds, strict=True):
        order, matrix = matrix_of(table[table["seed"] == seed], of)
        shown = axes.imshow(matrix, cmap=SHADES, norm=CHANCE)
        axes.set_xticks(range(len(order)), order, fontsize=6)
        axes.set_yticks(range(len(order)), order, fontsize=6)
        axes.set(title=f"seed {seed}", xlabel="head")
        axes.grid(visible=False)
        axes.tick_params(length=0)
    drawn[0].set_ylabel("head")
    _bar(figure, shown, drawn, KNOWN[of])
    return figure, _counted(table.reset_index(drop=True), of)


def matrix_of(table: pd.DataFrame, of: str) -> tuple[list[int], np.ndarray]:
    """Return the heads of one model by what each knows, best first, and what pairs know.

    >>> table = pd.DataFrame({"heads": ["0", "1", "0 1"], "knows": [0.5, 1, 0.9]})
    >>> order, matrix = matrix_of(table, "knows")
    >>> order, matrix.tolist()
    ([1, 0], [[1.0, 0.9], [0.9, 0.5]])
    """
    sets = [tuple(map(int, heads.split())) for heads in table["heads"]]
    known = dict(zip(sets, table[of], strict=True))
    order = sorted((some[0] for some in known if len(some) == 1), key=lambda at: -known[at,])
    return order, np.array([
        [known[(one,) if one == two else tuple(sorted((one, two)))] for two in order]
        for one in order
    ])  # fmt: skip


@style.styled
def sets(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw how many sets of one, two and three heads know so much, by both accuracies."""
    table = tables.separations
    table = table[table["seed"].isin(table.loc[table["size"] == 3, "seed"])]
    seeds = table["seed"].nunique()
    levels = np.linspace(0.5, 1, 101).round(3)
    figure, drawn = style.panels(2, 2, (3.2, 2.7), sharey=True)
    shades = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.8, len(SIZES)))
    parts = []
    for axes, (of, words) in zip(drawn, KNOWN.items(), strict=True):
        for (size, name), color in zip(SIZES.items(), shades, strict=True):
            known, names = table.loc[table["size"] == size, of], {"knows": of, "size": size}
            parts.append(load.at_least(known, levels, "sets", **names, seeds=seeds))
            axes.plot(levels, parts[-1]["accuracy"], color=color, label=name)
        axes.set(xlabel=words, ylim=(-0.03, 1.03))
        style.percent(axes.xaxis)
        style.percent(axes.yaxis)
    drawn[0].set_ylabel("sets that reach it")
    figure.legend(*drawn[0].get_legend_handles_labels(), loc="outside right center")
    return figure, pd.concat(parts, ignore_index=True)


def _counted(table: pd.DataFrame, of: str) -> pd.DataFrame:
    """Return shares of `n` strings with their interval."""
    hits = (table[of] * table["n"]).round()
    return add_interval(table.assign(right=hits), "right").drop(columns="right")


def _bar(figure: Figure, shown: object, drawn: list[Axes], label: str) -> None:
    bar = figure.colorbar(shown, ax=drawn, label=label, shrink=0.85)
    style.percent(bar.ax.yaxis)
