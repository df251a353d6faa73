"""Models of the noisy majority: how many become perfect, by how their heads were chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from carry.evaluation.failed_halving import without_failed
from carry.evaluation.intervals import add_interval
from carry.plots import load, style

STRATEGIES = {
    "": "plain",
    "masked": "one head from the start",
    "random": "halved, any heads",
    "svc": "halved by SVC",
    "shapley": "halved by Shapley values",
}
COLORS = dict(zip(STRATEGIES, sns.color_palette("colorblind"), strict=False))
NEARLY = 0.98  # the thesis looks at what is above


class Kind(NamedTuple):
    """What the name of a row says of its models."""

    width: int
    heads: int
    strategy: str


def kind(row: str) -> Kind:
    """Return how large the models of a row are, and how their heads are chosen.

    >>> kind("noisy_majority_d8_a4_svc"), kind("noisy_majority_d2_a1").strategy
    (Kind(width=8, heads=4, strategy='svc'), '')
    """
    width, heads, *strategy = row.removeprefix("noisy_majority_d").split("_")
    return Kind(int(width), int(heads.removeprefix("a")), "_".join(strategy))


def of_seeds(tables: load.Tables, of: str = "test") -> pd.DataFrame:
    """Return the accuracy of each model on a set of strings: 0 if it has too many heads left.

    That is what is said behind `=`; whether the end follows does not count (5.2).
    """
    cells = tables.cells[tables.cells["set"] == of]
    cells = without_failed(cells, tables.curves, cells["profile"].iloc[0])
    found = cells.groupby(["row", "trained", "seed"], sort=False)[["n", "first_right"]].sum()
    found = found.rename(columns={"first_right": "exact"}).reset_index()
    return add_interval(found)


@style.styled
def perfect(tables: load.Tables, stated: Mapping[str, float]) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of models that are perfect, beside what is stated.

    Args:
        stated: the thesis's share, by row.
    """
    seeds = of_seeds(tables)
    seeds["perfect"], seeds["nearly"] = seeds["exact"] == seeds["n"], seeds["accuracy"] > NEARLY
    keys = ["row", "trained"]
    table = seeds.groupby(keys, sort=False)[["perfect", "nearly"]].sum()
    table["n"] = table["seeds"] = seeds.groupby(keys).size()
    table = add_interval(table.reset_index(), "perfect")
    table["stated"] = table["row"].map(stated)
    figure, (axes,) = style.panels(1, 1, (6.2, 0.42 * len(table) + 0.9))
    for place, row in enumerate(table.itertuples()):
        color = COLORS.get(kind(row.row).strategy, style.OTHER)
        axes.barh(place, row.accuracy, color=color, alpha=0.75, height=0.7)
        axes.plot([row.low, row.high], [place, place], color="#444444", linewidth=1.5)
        if not np.isnan(row.stated):
            axes.plot(row.stated, place, **style.STATED)
    axes.set_yticks(range(len(table)), [_label(row) for row in table["row"]])
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="models with every test string right")
    axes.grid(axis="y", visible=False)
    style.percent(axes.xaxis)
    return figure, table


@style.styled
def reaching(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of models that reach an accuracy, for each size of models a panel."""
    seeds = of_seeds(tables)
    sizes = list(dict.fromkeys((kind(row).width, kind(row).heads) for row in load.rows(seeds)))
    levels = np.round(np.linspace(0.98, 1, 81), 5)
    figure, drawn = style.panels(len(sizes), 3, (3.0, 2.8), sharey=True)
    parts = []
    for axes, size in zip(drawn, sizes, strict=True):
        for row in load.rows(seeds):
            if kind(row)[:2] != size:
                continue
            own = seeds[seeds["row"] == row]
            names = {"row": row, "seeds": len(own), "trained": own["trained"].iloc[0]}
            parts.append(load.at_least(own["accuracy"], levels, "models", **names))
            look = {"color": COLORS[kind(row).strategy], "label": STRATEGIES[kind(row).strategy]}
            axes.plot(levels, parts[-1]["accuracy"], **look)
        axes.set(title=f"d = {size[0]}, a = {size[1]}", xlabel="test accuracy", ylim=(-0.03, 1.03))
        axes.set_xticks([0.98, 0.99, 1.0])
        style.percent(axes.xaxis)
        style.percent(axes.yaxis)
    drawn[0].set_ylabel("models that reach it")
    both = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in drawn]
    shown = {text: line for of in both for line, text in of}
    figure.legend(shown.values(), shown, loc="outside right center")
    return figure, pd.concat(parts, ignore_index=True)


@style.styled
def spread(tables: load.Tables, label: Callable[[str], str]) -> tuple[Figure, pd.DataFrame]:
    """Draw each model's accuracy on longer and on the longest strings, by row.

    Args:
        label: what a row is called.
    """
    table = pd.concat(
        [of_seeds(tables, of).assign(set=of) for of in ("validation", "test")], ignore_index=True
    )
    rows = load.rows(table)
    figure, (axes,) = style.panels(1, 1, (1.1 * len(rows) + 2.6, 2.9))
    colors = {"validation": "#9ECAE1", "test": "#08519C"}
    for number, (of, color) in enumerate(colors.items()):
        for place, row in enumerate(rows):
            own = table[(table["row"] == row) & (table["set"] == of)]
            at = place + 0.36 * (number - 0.5)
            across = at + np.linspace(-0.11, 0.11, len(own))
            axes.plot(across, own["accuracy"], "o", ms=3, color=color, alpha=0.75)
            axes.plot([at - 0.14, at + 0.14], [own["accuracy"].median()] * 2, color=color, lw=2)
        axes.plot([], [], "o", color=color, label=of)
    axes.set_xticks(range(len(rows)), [label(row) for row in rows])
    axes.set_ylabel("strings right")
    axes.grid(axis="x", visible=False)
    style.percent(axes.yaxis)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")
    return figure, table


def size(row: str) -> str:
    """Return how large the models of a row are, in two lines.

    >>> size("noisy_majority_d8_a4_svc")
    'd = 8\\na = 4'
    """
    return "d = {}\na = {}".format(*kind(row)[:2])


def rate(row: str) -> str:
    """Return the learning rate of a row; the plain one has that of the thesis.

    >>> rate("noisy_majority_d2_a1_rate_3e_3"), rate("noisy_majority_d2_a1")
    ('0.003', '0.001')
    """
    _, _, said = row.partition("_rate_")
    rate = f"{float(said.replace('e_', 'e-')):g}" if said else "0.001"
    return rate + ("\nRMS norm" if "_rms" in row else "")


@style.styled
def one_or_many(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw how many models, and how many of their heads, reach an accuracy, by row."""
    seeds, heads = of_seeds(tables), tables.separations
    heads = heads[(heads["size"] == 1) & heads["row"].isin(load.rows(seeds))]
    levels = np.linspace(0.5, 1, 101).round(3)
    figure, drawn = style.panels(2, 2, (3.2, 2.7), sharey=True)
    parts = []
    for axes, of, column, words in (
        (drawn[0], seeds, "accuracy", "test accuracy of a model"),
        (drawn[1], heads, "separation", "separation accuracy of a head"),
    ):
        for row, color in zip(load.rows(seeds), ("#08519C", "#E6843B"), strict=False):
            known = of.loc[of["row"] == row, column]
            if known.empty:  # a row that nothing looked into
                continue
            names = {"row": row, "of": column, "seeds": of.loc[known.index, "seed"].nunique()}
            parts.append(load.at_least(known, levels, "reach it", **names))
            axes.plot(levels, parts[-1]["accuracy"], color=color, label=_heads(row))
        axes.set(xlabel=words, ylim=(-0.03, 1.03))
        style.percent(axes.xaxis)
        style.percent(axes.yaxis)
    drawn[0].set_ylabel("share that reach it")
    figure.legend(*drawn[0].get_legend_handles_labels(), loc="outside right center")
    trained = load.lengths(seeds)
    table = pd.concat(parts, ignore_index=True)
    return figure, table.assign(trained=table["row"].map(trained))


def _heads(row: str) -> str:
    count = kind(row).heads
    return f"d = {kind(row).width}, {count} head{'s' if count > 1 else ''}"


@style.styled
def halvings(tables: load.Tables, count: int = 3) -> tuple[Figure, pd.DataFrame]:
    """Draw the held-out accuracy of some models over training, and where heads are dropped."""
    row = load.rows(tables.curves)[0]
    curves = tables.curves[(tables.curves["row"] == row) & (tables.curves["seed"] < count)]
    there = curves["seed"].nunique()
    figure, drawn = style.panels(there, there, (2.9, 2.5), sharex=True, sharey=True)
    for axes, (seed, of) in zip(drawn, curves.groupby("seed"), strict=True):
        axes.plot(of["step"], of["exact"], color=COLORS[kind(row).strategy], linewidth=1)
        dropped = of[of["heads"].diff() < 0]
        for step in dropped["step"]:
            axes.axvline(step, color="#444444", linestyle="--", linewidth=1)
        axes.set(title=f"seed {seed}: {int(of['heads'].iloc[-1])} left", xlabel="steps")
        style.percent(axes.yaxis)
    drawn[0].set_ylabel("held-out strings right")
    table = curves[["row", "seed", "step", "exact", "heads"]].reset_index(drop=True)
    return figure, table


def _label(row: str) -> str:
    """Return a row in words.

    >>> _label("noisy_majority_d8_a4_svc")
    'd = 8, a = 4, halved by SVC'
    """
    width, heads, strategy = kind(row)
    return f"d = {width}, a = {heads}, {STRATEGIES.get(strategy, strategy)}"
