"""Kinds of mistakes out of distribution, by row."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from carry.evaluation.regions import add_region
from carry.plots import load, style

# Label, colour and hatch of each kind. The colours are pale (after Paul Tol's light colours), so
# that readers do not take them for schemes.
KINDS = {
    "exact": ("right", "#DDDDDD", ""),
    "stopped_early": ("stopped early", "#77AADD", ""),
    "stopped_late": ("stopped late", "#99DDFF", "..."),
    "lost_carry": ("lost a carry", "#EE8866", ""),
    "carry_from_nowhere": ("added a carry", "#EEDD88", "///"),
    "misaligned": ("misaligned", "#44BB99", "xxx"),
    "other": ("other", "#FFAABB", ""),
}


@style.use_style
def draw_mistake_kinds(cells: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw the shares of correct answers and of each kind of mistake out of distribution.

    All seeds are pooled. All rows have one start of ids (`load.choose_starts`).
    """
    cells = add_region(load.select_start(cells, load.choose_starts(cells)))
    cells = cells[(cells["set"] == "grid") & (cells["region"] == "out of distribution")]
    by_row = cells.groupby(["row", "start"], sort=False)
    table = by_row[[*KINDS, "n"]].sum().join(by_row["seed"].nunique().rename("seeds"))
    table = table.reset_index()
    shares = table[list(KINDS)].div(table["n"], axis=0)
    rows = load.list_rows(table)
    figure, (axes,) = style.make_panels(1, 1, (8.2, 0.3 * len(rows) + 1.1))
    left = pd.Series(0.0, index=table.index)
    for kind, (label, color, hatch) in KINDS.items():
        bars = {"label": label, "color": color, "hatch": hatch, "edgecolor": "white"}
        axes.barh(rows, shares[kind], 0.74, left=left, linewidth=0.4, **bars)
        left = left + shares[kind]
    axes.set_yticks(range(len(rows)), [style.choose_style(row).label for row in rows])
    axes.set(xlim=(0, 1), ylim=(len(rows) - 0.5, -0.5))
    from_start = load.describe_starts(table["start"].unique())
    axes.set_xlabel(f"{style.name_problems(rows)} beyond the training lengths{from_start}")
    style.format_percent(axes.xaxis)
    axes.grid(visible=False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")
    return figure, table
