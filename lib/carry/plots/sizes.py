"""Numbers of parameters, by the number of recurrences."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from carry.plots import style


@style.use_style
def draw_parameter_counts(
    sizes: pd.DataFrame, stated: dict[int, int]
) -> tuple[Figure, pd.DataFrame]:
    """Draw millions of parameters by recurrences, next to those that a paper states.

    Args:
        sizes: `layers`, `recurrences` and `weights` of each model.
        stated: millions of parameters, by recurrences.
    """
    table = sizes.assign(stated=[1e6 * stated[times] for times in sizes["recurrences"]])
    figure, (axes,) = style.make_panels(1, 1, (6.4, 0.42 * len(table) + 1.0))
    names = [f"{size.layers} layers, run {size.recurrences} times" for size in table.itertuples()]
    names = [
        name.replace("run 1 times", "run once").replace("1 layers", "1 layer") for name in names
    ]
    axes.barh(names, table["weights"] / 1e6, 0.62, color=style.OTHER_COLOR, alpha=0.55)
    axes.plot(table["stated"] / 1e6, names, linestyle="none", **style.STATED_MARKER)
    for height, weights in enumerate(table["weights"] / 1e6):
        offset = {"xytext": (8, 0), "textcoords": "offset points"}
        axes.annotate(f"{weights:.1f}", (weights, height), va="center", fontsize="small", **offset)
    axes.invert_yaxis()
    axes.set_xlabel("millions of parameters")
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.1)
    style.draw_stated_legend(figure, "outside right center")
    return figure, table
