"""Accuracy, and errors by token, by the id at which problems start."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry.plots import load, style

COLUMNS = 3
SHOWN = 0.1  # wrong tokens for each response, from which errors have a pattern to show
COLORS = "viridis"  # lengths, from dark to light


def draw_accuracy_by_start(accuracy_by_start: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by first id, a panel for each row and a colour for each length.

    Lengths are multiples of the trained length. Thin lines are seeds, thick lines their median.

    Args:
        accuracy_by_start: the table of `carry.analyses.starts`.
    """
    name = f"correct {style.name_problems(load.list_rows(accuracy_by_start))}"
    return _draw_by_start(accuracy_by_start, "accuracy", name)


def draw_attention_by_start(attention_by_start: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw the same for attention to tokens without an id, of the head that attends most to them.

    That head is chosen for each seed by its mean over lengths and starts.

    Args:
        attention_by_start: the table of `carry.analyses.starts`.
    """
    head = ["row", "seed", "layer", "head"]
    means = attention_by_start.groupby(head, sort=False)["without_id"].mean()
    most = means.groupby(["row", "seed"], sort=False).idxmax()
    chosen = pd.MultiIndex.from_tuples(most, names=head)
    kept = attention_by_start.set_index(head).index.isin(chosen)
    name = "attention to tokens without an id"
    return _draw_by_start(attention_by_start[kept], "without_id", name)


@style.use_style
def _draw_by_start(table: pd.DataFrame, column: str, name: str) -> tuple[Figure, pd.DataFrame]:
    """Draw a column by first id; `name` is the label of its axis."""
    table = table.reset_index(drop=True)
    table = table.assign(times=(table["digits"] / table["trained"]).round(2))
    rows, times = load.list_rows(table), sorted(table["times"].unique())
    shades = matplotlib.colormaps[COLORS](np.linspace(0, 0.9, len(times)))
    colors = dict(zip(times, shades, strict=True))
    figure, panels = style.make_panels(len(rows), COLUMNS, (3.6, 3.2), sharey=True)
    for axes, row in zip(panels, rows, strict=True):
        of_row = table[table["row"] == row]
        for length, part in of_row.groupby("times"):
            seeds = part.pivot(index="id", columns="seed", values=column).sort_index()
            axes.plot(seeds, color=colors[length], linewidth=0.7, alpha=0.5)
            median = seeds.median(axis=1)
            axes.plot(median, color=colors[length], linewidth=2.0, marker="o", markersize=3.5)
        trained = style.describe_training_length(row, int(of_row["trained"].iloc[0]))
        axes.set(
            title=f"{style.choose_style(row).label}\n{trained}",
            xlabel="id at which the sum starts",
            ylim=(-0.03, 1.03),
        )
    panels[0].set_ylabel(name)
    style.format_percent(panels[0].yaxis)
    handles = [
        Line2D([], [], color=colors[length], lw=2.2, label=f"{length:g}") for length in times
    ]
    title = "length, times\nthe trained one"
    figure.legend(handles=handles, loc="outside right center", title=title, alignment="left")
    return figure, table


@style.use_style
def draw_errors_by_start(errors_by_start: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw the share of wrong tokens by slot of the response and first id, a panel for each row.

    They are means over seeds, at the first of the scored lengths at which a tenth of all responses
    or more has an error, or else at the longest.

    Args:
        errors_by_start: the table of `carry.analyses.starts`.
    """
    keys = ["row", "trained", "digits", "id", "token"]
    table = load.average_seeds(errors_by_start, keys, "wrong").rename(columns={"accuracy": "share"})
    rows = load.list_rows(errors_by_start)
    table = pd.concat([_choose_length(table[table["row"] == row]) for row in rows])
    figure, panels = style.make_panels(len(rows), COLUMNS, (4.2, 3.6))
    for axes, row in zip(panels, rows, strict=True):
        of_row = table[table["row"] == row]
        shares = of_row.pivot(index="id", columns="token", values="share")
        sns.heatmap(shares, ax=axes, vmin=0, vmax=1, cmap="rocket_r", cbar=axes is panels[-1])
        axes.tick_params("y", rotation=0, labelsize="small")
        digits, label = int(of_row["digits"].iloc[0]), style.choose_style(row).label
        axes.set(title=f"{label}, {digits} digits", xlabel="token of the answer")
        axes.set_ylabel("id at which the sum starts")
    return figure, table.reset_index(drop=True)


def _choose_length(table: pd.DataFrame) -> pd.DataFrame:
    """Return the part of the first length at which a tenth of the responses has an error."""
    worst = table.groupby("digits")["wrong"].sum() / table.groupby("digits")["n"].max()
    lengths = worst[worst / table["id"].nunique() >= SHOWN].index
    return table[table["digits"] == (lengths[0] if len(lengths) else table["digits"].max())]
