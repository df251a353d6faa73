"""How many weights a model has, by how often its block of layers is run."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from carry.plots import style


@style.styled
def by_recurrences(sizes: pd.DataFrame, stated: dict[int, int]) -> tuple[Figure, pd.DataFrame]:
    """Draw millions of weights by recurrences, beside those that a paper states.

    Args:
        sizes: `layers`, `recurrences` and `weights` of each model.
        stated: millions, by recurrences.
    """
    table = sizes.assign(stated=[1e6 * stated[times] for times in sizes["recurrences"]])
    figure, (axes,) = style.panels(1, 1, (6.4, 0.42 * len(table) + 1.0))
    names = [f"{of.layers} layers, run {of.recurrences} times" for of in table.itertuples()]
    names = [
        name.replace("run 1 times", "run once").replace("1 layers", "1 layer") for name in names
    ]
    axes.barh(names, table["weights"] / 1e6, 0.62, color=style.OTHER, alpha=0.55)
    axes.plot(table["stated"] / 1e6, names, linestyle="none", **style.STATED)
    for height, weights in enumerate(table["weights"] / 1e6):
        axes.annotate(f"{weights:.1f}", (weights, height), (8, 0), textcoords="offset points",
                      va="center", fontsize="small")  # fmt: skip
    axes.invert_yaxis()
    axes.set_xlabel("millions of weights")
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.1)
    style.stated_legend(figure, "outside right center")
    return figure, table
