"""Addition trained alone or mixed with sub-tasks, by model width and training problems."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from carry.plots import load, style
from carry.plots.inside import CHANGES, add_color_bar, draw_heatmap
from carry.plots.lengths import make_length_table
from carry.plots.parts import SEEN, UNSEEN, WAYS, compare_parts

ROW = re.compile(r"addition_equal_(alone|parts)_((\d+)([km]))_width_(\d+)")
FEW = {"k": 1_000, "m": 1_000_000}
CERTAIN = 0.05  # differences that are marked
LINES = {SEEN: "trained lengths", UNSEEN: "never trained"}


def parse_sized_row(row: str) -> tuple[str, str]:
    """Return the size of a row, and whether it trains on addition alone or with parts.

    >>> parse_sized_row("addition_equal_parts_10k_width_64")
    ('10k 64', 'parts')
    """
    way, size, _, _, width = ROW.fullmatch(row).groups()
    return f"{size} {width}", way


@style.use_style
def draw_size_grid(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw accuracy by width and number of problems for both ways, and their difference."""
    table = compare_sizes(compare_parts(make_length_table(tables), parse_sized_row))
    sizes, widths = (sorted(map(int, table[key].unique())) for key in ("problems", "width"))
    size = (0.4 * len(widths) + 0.8, 0.36 * len(sizes) + 0.9)
    figure, panels = style.make_panels(6, 3, size, sharex=True, sharey=True)
    most = max(0.05, float(table["difference"].abs().max()))
    kinds = [("alone", "accuracy"), ("parts", "accuracy"), ("parts", "difference")]
    for number, axes in enumerate(panels):
        which, (way, column) = list(LINES)[number // 3], kinds[number % 3]
        part = table[(table["lengths"] == which) & (table["way"] == way)]
        square = part.pivot(index="problems", columns="width", values=column)
        square = square.reindex(index=sizes, columns=widths).to_numpy(dtype=float)
        if column == "accuracy":
            shares = draw_heatmap(axes, square, "viridis", Normalize(0, 1))
        else:
            changes = draw_heatmap(axes, square, CHANGES, Normalize(-most, most), "{:+.0f}")
            _certain(axes, part, sizes, widths)
        title = WAYS[way] if column == "accuracy" else "what the parts change"
        axes.set_title(title if number < 3 else "", fontsize="medium")
        axes.set_xticks(range(len(widths)), widths, rotation=90)
        axes.set_yticks(range(len(sizes)), [f"{of:,}" for of in sizes])
        axes.set_ylabel(LINES[which] if number % 3 == 0 else "")
    figure.supxlabel("width of the model", fontsize="medium")
    figure.supylabel("problems in training", fontsize="medium")
    bar = add_color_bar(figure, changes, panels, "difference (points)")
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f}")
    add_color_bar(figure, shares, panels, "exact match")
    return figure, table


def compare_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the number of training `problems` and the `width` of each row."""
    matches = [ROW.fullmatch(row).groups() for row in table["row"]]
    problems = [int(count) * FEW[unit] for _, _, count, unit, _ in matches]
    table = table.assign(problems=problems, width=[int(width) for *_, width in matches])
    return table[table["lengths"].isin(LINES)].drop(columns="positions").reset_index(drop=True)


def _certain(axes: Axes, part: pd.DataFrame, sizes: list[int], widths: list[int]) -> None:
    """Frame the significant differences."""
    for record in part[part["p"] < CERTAIN].itertuples():
        at = widths.index(record.width) - 0.5, sizes.index(record.problems) - 0.5
        corners = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]) * 0.94 + 0.03 + at
        axes.plot(*corners.T, color="#222222", linewidth=1)
