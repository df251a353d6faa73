"""Heads of the noisy majority: outputs, attention ratios, and separation by sets of heads."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from carry.evaluation.intervals import add_interval
from carry.plots import load, style

# The two majorities; these colours mean no scheme.
ZEROS, ONES = "#4C78A8", "#E45756"
SHADES = "viridis"
CHANCE = Normalize(0.5, 1.0, clip=True)  # separation, from chance on
KNOWN = {"separation": "separation accuracy", "learned": "learned accuracy"}
SIZES = {1: "single heads", 2: "pairs", 3: "triples"}


@style.use_style
def draw_head_outputs(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the outputs of the two best and the two worst heads of a model for test strings.

    Arrows are the values of the tokens 0, 1 and 2; every output lies between them.
    """
    ratios, outputs = (ratio[ratio["seed"] == 0] for ratio in (tables["ratios"], tables["outputs"]))
    ranked = ratios.sort_values("separation", ascending=False, kind="stable")["head"].tolist()
    chosen = list(dict.fromkeys([*ranked[:2], *ranked[-2:]]))
    figure, panels = style.make_panels(len(chosen), 4, (2.5, 2.7))
    for axes, head in zip(panels, chosen, strict=True):
        ratio = ratios[ratios["head"] == head].iloc[0]
        dots = outputs[outputs["head"] == head]
        for token in range(3):
            end = (ratio[f"value_{token}_0"], ratio.get(f"value_{token}_1", 0.0))
            axes.annotate("", end, (0, 0), arrowprops={"arrowstyle": "->", "color": "#777777"})
            axes.text(*end, str(token), ha="center", va="bottom", fontsize="large")
            axes.plot(*end, alpha=0)  # extends the axes to hold the arrow
        more = dots["ones"] > dots["zeros"]
        for kind, color in ((~more, ZEROS), (more, ONES)):
            axes.scatter(dots["x"][kind], dots["y"][kind], s=5, color=color, rasterized=True)
        axes.set_title(f"head {head}: {ratio['separation']:.1%}", fontsize="medium")
        axes.margins(0.15)
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
    handles = [
        matplotlib.lines.Line2D([], [], marker="o", linestyle="none", color=color, label=text)
        for color, text in ((ZEROS, "as many zeros, or more"), (ONES, "more ones"))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    kept = outputs[outputs["head"].isin(chosen)].reset_index(drop=True)
    return figure, kept


@style.use_style
def draw_attention_ratios(tables: load.ResultTables, count: int = 3) -> tuple[Figure, pd.DataFrame]:
    """Draw attention ratios and separation of heads, one panel for each model."""
    table = tables["ratios"][tables["ratios"]["seed"] < count].reset_index(drop=True)
    seeds = sorted(table["seed"].unique())
    figure, panels = style.make_panels(len(seeds), 3, (2.9, 2.7), sharex=True, sharey=True)
    for axes, seed in zip(panels, seeds, strict=True):
        part = table[table["seed"] == seed]
        axes.axvline(1, color="#AAAAAA", linewidth=1, zorder=0)
        dots = axes.scatter(
            part["w01"], part["w02"], c=part["separation"], cmap=SHADES, norm=CHANCE, s=34,
            edgecolor="#444444", linewidth=0.5,
        )  # fmt: skip
        axes.set(xscale="log", yscale="log", title=f"seed {seed}", xlabel="$w_{01}$: zero to one")
    panels[0].set_ylabel("$w_{02}$: zero to two")
    _bar(figure, dots, panels, KNOWN["separation"])
    return figure, _counted(table, "separation")


@style.use_style
def draw_constructed_separations(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the separation of heads with constructed attention: mean and quartiles over heads."""
    table = tables["by_hand"]
    figure, panels = style.make_panels(2, 2, (3.4, 2.7), sharey=True)
    parts = []
    endless = np.isinf(table["w02"])
    for axes, part, by, words in (
        (panels[0], table[endless], "w01", "$w_{01}$, if no two is looked at"),
        (panels[1], table[~endless], "w02", "$w_{02}$, if $w_{01}$ = 1"),
    ):
        grouped = part.groupby(by)["separation"]
        low, middle, high = (grouped.quantile(share) for share in (0.25, 0.5, 0.75))
        mean = grouped.mean()
        axes.fill_between(mean.index, low, high, color=style.TRAINED_COLOR)
        axes.plot(mean.index, mean, color=ZEROS, marker="o", ms=3.5, label="mean")
        axes.plot(middle.index, middle, color="#444444", linestyle=":", label="median")
        axes.set(xscale="log", xlabel=words)
        style.format_percent(axes.yaxis)
        counts = {"heads": grouped.size(), "n": part.groupby(by)["n"].sum()}
        summary = pd.DataFrame({"mean": mean, "low": low, "high": high, **counts})
        parts.append(summary.rename_axis("ratio").reset_index().assign(set=by))
    panels[0].set_ylabel("separation accuracy of a head")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    return figure, pd.concat(parts, ignore_index=True)


@style.use_style
def draw_head_pairs(
    tables: load.ResultTables, column: str, count: int = 3
) -> tuple[Figure, pd.DataFrame]:
    """Draw the accuracy of pairs of heads, with heads ordered by their own accuracy.

    Args:
        column: `separation` or `learned`.
        count: number of models, one panel each.
    """
    table = tables["separations"]
    table = table[(table["size"] <= 2) & (table["seed"] < count)]
    table = table[table["seed"].isin(table.loc[table["size"] == 2, "seed"])]
    seeds = sorted(table["seed"].unique())
    figure, panels = style.make_panels(len(seeds), 3, (3.0, 2.9))
    for axes, seed in zip(panels, seeds, strict=True):
        order, matrix = pair_matrix(table[table["seed"] == seed], column)
        image = axes.imshow(matrix, cmap=SHADES, norm=CHANCE)
        axes.set_xticks(range(len(order)), order, fontsize=6)
        axes.set_yticks(range(len(order)), order, fontsize=6)
        axes.set(title=f"seed {seed}", xlabel="head")
        axes.grid(visible=False)
        axes.tick_params(length=0)
    panels[0].set_ylabel("head")
    _bar(figure, image, panels, KNOWN[column])
    return figure, _counted(table.reset_index(drop=True), column)


def pair_matrix(table: pd.DataFrame, column: str) -> tuple[list[int], np.ndarray]:
    """Return the heads of one model, best first, and the matrix of pair accuracies.

    >>> table = pd.DataFrame({"heads": ["0", "1", "0 1"], "knows": [0.5, 1, 0.9]})
    >>> order, matrix = pair_matrix(table, "knows")
    >>> order, matrix.tolist()
    ([1, 0], [[1.0, 0.9], [0.9, 0.5]])
    """
    sets = [tuple(map(int, heads.split())) for heads in table["heads"]]
    scores = dict(zip(sets, table[column], strict=True))
    order = sorted(
        (subset[0] for subset in scores if len(subset) == 1), key=lambda at: -scores[at,]
    )
    return order, np.array([
        [scores[(one,) if one == two else tuple(sorted((one, two)))] for two in order]
        for one in order
    ])  # fmt: skip


@style.use_style
def draw_head_sets(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the distribution of both accuracies over sets of one, two and three heads."""
    table = tables["separations"]
    table = table[table["seed"].isin(table.loc[table["size"] == 3, "seed"])]
    seeds = table["seed"].nunique()
    levels = np.linspace(0.5, 1, 101).round(3)
    figure, panels = style.make_panels(2, 2, (3.2, 2.7), sharey=True)
    shades = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.8, len(SIZES)))
    parts = []
    for axes, (column, words) in zip(panels, KNOWN.items(), strict=True):
        for (size, name), color in zip(SIZES.items(), shades, strict=True):
            scores, names = (
                table.loc[table["size"] == size, column],
                {"knows": column, "size": size},
            )
            parts.append(load.count_reaching_levels(scores, levels, "sets", **names, seeds=seeds))
            axes.plot(levels, parts[-1]["accuracy"], color=color, label=name)
        axes.set(xlabel=words, ylim=(-0.03, 1.03))
        style.format_percent(axes.xaxis)
        style.format_percent(axes.yaxis)
    panels[0].set_ylabel("sets that reach it")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    return figure, pd.concat(parts, ignore_index=True)


def _counted(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return shares of `n` strings with their intervals."""
    hits = (table[column] * table["n"]).round()
    return add_interval(table.assign(right=hits), "right").drop(columns="right")


def _bar(figure: Figure, image: object, panels: list[Axes], label: str) -> None:
    bar = figure.colorbar(image, ax=panels, label=label, shrink=0.85)
    style.format_percent(bar.ax.yaxis)
