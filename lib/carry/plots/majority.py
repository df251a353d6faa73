"""Models of the noisy majority: share of perfect models, by size and by head selection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from carry.evaluation.failed_halving import zero_failed_models
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
NEARLY = 0.98  # accuracy that the thesis counts as nearly perfect


class Kind(NamedTuple):
    """Size and head selection of the models of a row."""

    width: int
    heads: int
    strategy: str


def classify_row(row: str) -> Kind:
    """Return the size of the models of a row, and how their heads are selected.

    >>> classify_row("noisy_majority_d8_a4_svc"), classify_row("noisy_majority_d2_a1").strategy
    (Kind(width=8, heads=4, strategy='svc'), '')
    """
    width, heads, *strategy = row.removeprefix("noisy_majority_d").split("_")
    return Kind(int(width), int(heads.removeprefix("a")), "_".join(strategy))


def accuracy_by_seed(tables: load.ResultTables, set_name: str = "test") -> pd.DataFrame:
    """Return the accuracy of each model on a set of strings: 0 if too many heads remain.

    Only the token after `=` counts, not the end of the response (5.2).
    """
    cells = tables["cells"][tables["cells"]["set"] == set_name]
    cells = zero_failed_models(cells, tables["curves"])
    sums = cells.groupby(["row", "trained", "seed"], sort=False)[["n", "first_right"]].sum()
    sums = sums.rename(columns={"first_right": "exact"}).reset_index()
    return add_interval(sums)


@style.use_style
def draw_perfect_shares(
    tables: load.ResultTables, stated: Mapping[str, float]
) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of perfect models next to the stated share.

    Args:
        stated: the share of the thesis, by row.
    """
    seeds = accuracy_by_seed(tables)
    seeds["perfect"], seeds["nearly"] = seeds["exact"] == seeds["n"], seeds["accuracy"] > NEARLY
    keys = ["row", "trained"]
    table = seeds.groupby(keys, sort=False)[["perfect", "nearly"]].sum()
    table["n"] = table["seeds"] = seeds.groupby(keys).size()
    table = add_interval(table.reset_index(), "perfect")
    table["stated"] = table["row"].map(stated)
    figure, (axes,) = style.make_panels(1, 1, (6.2, 0.42 * len(table) + 0.9))
    for place, row in enumerate(table.itertuples()):
        color = COLORS.get(classify_row(row.row).strategy, style.OTHER_COLOR)
        axes.barh(place, row.accuracy, color=color, alpha=0.75, height=0.7)
        axes.plot([row.low, row.high], [place, place], color="#444444", linewidth=1.5)
        if not np.isnan(row.stated):
            axes.plot(row.stated, place, **style.STATED_MARKER)
    axes.set_yticks(range(len(table)), [_label(row) for row in table["row"]])
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="models with every test string right")
    axes.grid(axis="y", visible=False)
    style.format_percent(axes.xaxis)
    return figure, table


@style.use_style
def draw_reached_accuracy(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of models that reach each accuracy, one panel for each model size."""
    seeds = accuracy_by_seed(tables)
    sizes = list(
        dict.fromkeys(
            (classify_row(row).width, classify_row(row).heads) for row in load.list_rows(seeds)
        )
    )
    levels = np.round(np.linspace(0.98, 1, 81), 5)
    figure, panels = style.make_panels(len(sizes), 3, (3.0, 2.8), sharey=True)
    parts = []
    for axes, size in zip(panels, sizes, strict=True):
        for row in load.list_rows(seeds):
            if classify_row(row)[:2] != size:
                continue
            part = seeds[seeds["row"] == row]
            names = {"row": row, "seeds": len(part), "trained": part["trained"].iloc[0]}
            parts.append(load.count_reaching_levels(part["accuracy"], levels, "models", **names))
            line_style = {
                "color": COLORS[classify_row(row).strategy],
                "label": STRATEGIES[classify_row(row).strategy],
            }
            axes.plot(levels, parts[-1]["accuracy"], **line_style)
        axes.set(title=f"d = {size[0]}, a = {size[1]}", xlabel="test accuracy", ylim=(-0.03, 1.03))
        axes.set_xticks([0.98, 0.99, 1.0])
        style.format_percent(axes.xaxis)
        style.format_percent(axes.yaxis)
    panels[0].set_ylabel("models that reach it")
    both = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in panels]
    handles_by_label = {text: line for pairs in both for line, text in pairs}
    figure.legend(handles_by_label.values(), handles_by_label, loc="outside right center")
    return figure, pd.concat(parts, ignore_index=True)


@style.use_style
def draw_accuracy_spread(
    tables: load.ResultTables, label: Callable[[str], str]
) -> tuple[Figure, pd.DataFrame]:
    """Draw the accuracy of each model on longer and on the longest strings, by row.

    Args:
        label: returns the label of a row.
    """
    table = pd.concat(
        [
            accuracy_by_seed(tables, set_name).assign(set=set_name)
            for set_name in ("validation", "test")
        ],
        ignore_index=True,
    )
    rows = load.list_rows(table)
    figure, (axes,) = style.make_panels(1, 1, (1.1 * len(rows) + 2.6, 2.9))
    colors = {"validation": "#9ECAE1", "test": "#08519C"}
    for number, (set_name, color) in enumerate(colors.items()):
        for place, row in enumerate(rows):
            part = table[(table["row"] == row) & (table["set"] == set_name)]
            at = place + 0.36 * (number - 0.5)
            across = at + np.linspace(-0.11, 0.11, len(part))
            axes.plot(across, part["accuracy"], "o", ms=3, color=color, alpha=0.75)
            axes.plot([at - 0.14, at + 0.14], [part["accuracy"].median()] * 2, color=color, lw=2)
        axes.plot([], [], "o", color=color, label=set_name)
    axes.set_xticks(range(len(rows)), [label(row) for row in rows])
    axes.set_ylabel("strings right")
    axes.grid(axis="x", visible=False)
    style.format_percent(axes.yaxis)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")
    return figure, table


def label_size(row: str) -> str:
    """Return the model size of a row, in two lines.

    >>> label_size("noisy_majority_d8_a4_svc")
    'd = 8\\na = 4'
    """
    return "d = {}\na = {}".format(*classify_row(row)[:2])


def label_rate(row: str) -> str:
    """Return the learning rate of a row; the plain row has the rate of the thesis.

    >>> label_rate("noisy_majority_d2_a1_rate_3e_3"), label_rate("noisy_majority_d2_a1")
    ('0.003', '0.001')
    """
    _, _, text = row.partition("_rate_")
    rate = f"{float(text.replace('e_', 'e-')):g}" if text else "0.001"
    return rate + ("\nRMS norm" if "_rms" in row else "")


@style.use_style
def draw_one_or_many_heads(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of models, and of their single heads, that reach each accuracy, by row."""
    seeds, heads = accuracy_by_seed(tables), tables["separations"]
    heads = heads[(heads["size"] == 1) & heads["row"].isin(load.list_rows(seeds))]
    levels = np.linspace(0.5, 1, 101).round(3)
    figure, panels = style.make_panels(2, 2, (3.2, 2.7), sharey=True)
    parts = []
    for axes, table_, column, words in (
        (panels[0], seeds, "accuracy", "test accuracy of a model"),
        (panels[1], heads, "separation", "separation accuracy of a head"),
    ):
        for row, color in zip(load.list_rows(seeds), ("#08519C", "#E6843B"), strict=False):
            values = table_.loc[table_["row"] == row, column]
            if values.empty:  # a row without an analysis of its heads
                continue
            names = {"row": row, "of": column, "seeds": table_.loc[values.index, "seed"].nunique()}
            parts.append(load.count_reaching_levels(values, levels, "reach it", **names))
            axes.plot(levels, parts[-1]["accuracy"], color=color, label=_heads(row))
        axes.set(xlabel=words, ylim=(-0.03, 1.03))
        style.format_percent(axes.xaxis)
        style.format_percent(axes.yaxis)
    panels[0].set_ylabel("share that reach it")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    trained = load.find_training_lengths(seeds)
    table = pd.concat(parts, ignore_index=True)
    return figure, table.assign(trained=table["row"].map(trained))


def _heads(row: str) -> str:
    count = classify_row(row).heads
    return f"d = {classify_row(row).width}, {count} head{'s' if count > 1 else ''}"


@style.use_style
def draw_halvings(tables: load.ResultTables, count: int = 3) -> tuple[Figure, pd.DataFrame]:
    """Draw the held-out accuracy of some models over training, with the steps that drop heads."""
    row = load.list_rows(tables["curves"])[0]
    curves = tables["curves"][(tables["curves"]["row"] == row) & (tables["curves"]["seed"] < count)]
    there = curves["seed"].nunique()
    figure, panels = style.make_panels(there, there, (2.9, 2.5), sharex=True, sharey=True)
    for axes, (seed, curve) in zip(panels, curves.groupby("seed"), strict=True):
        axes.plot(
            curve["step"], curve["exact"], color=COLORS[classify_row(row).strategy], linewidth=1
        )
        dropped = curve[curve["heads"].diff() < 0]
        for step in dropped["step"]:
            axes.axvline(step, color="#444444", linestyle="--", linewidth=1)
        axes.set(title=f"seed {seed}: {int(curve['heads'].iloc[-1])} left", xlabel="steps")
        style.format_percent(axes.yaxis)
    panels[0].set_ylabel("held-out strings right")
    table = curves[["row", "seed", "step", "exact", "heads"]].reset_index(drop=True)
    return figure, table


def _label(row: str) -> str:
    """Return the label of a row.

    >>> _label("noisy_majority_d8_a4_svc")
    'd = 8, a = 4, halved by SVC'
    """
    width, heads, strategy = classify_row(row)
    return f"d = {width}, a = {heads}, {STRATEGIES.get(strategy, strategy)}"
