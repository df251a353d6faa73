"""What goes wrong: kinds of error out of distribution, by scheme."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from carry.evaluation.regions import add_region
from carry.plots import load, style

# Pale, so that nobody takes them for schemes (after Paul Tol's light colours), and hatched.
KINDS = {
    "exact": ("right", "#DDDDDD", ""),
    "stopped_early": ("stopped early", "#77AADD", ""),
    "stopped_late": ("stopped late", "#99DDFF", "..."),
    "lost_carry": ("lost a carry", "#EE8866", ""),
    "carry_from_nowhere": ("carried from nowhere", "#EEDD88", "///"),
    "misaligned": ("misaligned", "#44BB99", "xxx"),
    "other": ("other", "#FFAABB", ""),
}


@style.styled
def by_kind(cells: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw how out-of-distribution answers end, all seeds together: right, or wrong in which way.

    Each row starts where it does better in distribution.
    """
    here = add_region(load.at_start(cells, load.starts(cells)))
    here = here[(here["set"] == "grid") & (here["region"] == "out of distribution")]
    grouped = here.groupby(["row", "start"], sort=False)
    table = grouped[[*KINDS, "n"]].sum().join(grouped["seed"].nunique().rename("seeds"))
    table = table.reset_index()
    shares = table[list(KINDS)].div(table["n"], axis=0)
    rows = load.rows(table)
    figure, (axes,) = style.panels(1, 1, (8.2, 0.3 * len(rows) + 1.1))
    left = pd.Series(0.0, index=table.index)
    for kind, (label, color, hatch) in KINDS.items():
        axes.barh(
            rows, shares[kind], 0.74, left=left, label=label, color=color, hatch=hatch,
            edgecolor="white", linewidth=0.4,
        )  # fmt: skip
        left = left + shares[kind]
    axes.set_yticks(range(len(rows)), [style.look(row).label for row in rows])
    axes.set(xlim=(0, 1), ylim=(len(rows) - 0.5, -0.5))
    axes.set_xlabel(f"{style.problems(rows)} beyond the training lengths")
    style.percent(axes.xaxis)
    axes.grid(visible=False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")
    return figure, table
