"""Sums inside a line of other text: accuracy by amount of text and number of sums."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from carry.plots import load, style

ROWS = {
    "addition_line_abacus_relative_text": ("Abacus, one sum", "#E69F00", "-"),
    "addition_line_relative_text": ("coupled, one sum", "#0072B2", "-"),
    "addition_line_abacus_relative": ("Abacus, two sums", "#E69F00", ":"),
    "addition_line_relative": ("coupled, two sums", "#0072B2", ":"),
    "addition_line_rows_relative": ("coupled at two levels, two sums", "#009E73", "-"),
}


@style.use_style
def draw_accuracy_in_lines(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by the characters before a sum, and by the sums in its line."""
    table = tables["lines"][tables["lines"]["digits"] == tables["lines"]["digits"].min()]
    figure, (text, sums) = style.make_panels(2, 2, (3.6, 2.9), sharey=True)
    for axes, part, x in ((text, table[table["sums"] == 1], "characters"),
                         (sums, table[table["characters"] == 0], "sums")):  # fmt: skip
        for row in load.list_rows(part):
            _, color, dashes = ROWS[row]
            wide = part[part["row"] == row].pivot(index=x, columns="seed", values="accuracy")
            axes.plot(wide, color=color, linestyle=dashes, linewidth=0.7, alpha=0.5)
            axes.plot(wide.median(axis=1), color=color, linestyle=dashes, linewidth=2.2)
    text.set_xscale("symlog", linthresh=10)
    text.set_xticks([0, 10, 100, 1000], ["0", "10", "100", "1,000"])
    text.set_xlabel("letters and spaces before the sum")
    sums.set_xscale("log")
    sums.set_xticks([1, 2, 5, 20], ["1", "2", "5", "20"])
    for axes in (text, sums):
        axes.minorticks_off()
    sums.set_xlabel("sums in the line")
    text.set_ylabel("exact match")
    text.set_ylim(-0.04, 1.04)
    style.format_percent(text.yaxis)
    for row in load.list_rows(table):
        label, color, dashes = ROWS[row]
        text.plot([], [], color=color, linestyle=dashes, linewidth=2.2, label=label)
    figure.legend(loc="outside upper center", ncols=3)
    return figure, table
