"""How every figure looks: one colour for each scheme, safe for colour-blind readers.

What a row is called and how it is drawn follows from its name alone, `task_scheme_variant`:

    addition_abacus           Abacus             blue
    addition_abacus_looped    Abacus, looped     blue, dashed
    addition_abacus_fire      Abacus + FIRE      light blue
    addition_new_idea         New idea           grey, until it is given a colour here
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from carry import paths

# Near to Okabe and Ito's colours. Under simulated protanopia, deuteranopia and tritanopia the
# nearest two stay 15 apart in CIELAB (a test measures it).
SCHEMES = {
    "nope": ("NoPE", "#000000"),
    "learned": ("Learned index", "#EDB120"),
    "sinusoidal": ("Sinusoidal", "#999933"),
    "rope": ("RoPE", "#CC79A7"),
    "fire": ("FIRE", "#C8102E"),
    "randomized": ("Randomized", "#C0C0C0"),
    "abacus": ("Abacus", "#0072B2"),
    "abacus_fire": ("Abacus + FIRE", "#56B4E9"),
    "coupled": ("Coupled", "#009E73"),
    "relative": ("Abacus read relatively", "#882255"),
}
OTHER = "#808080"
TASKS = ("addition", "multiplication", "parity", "sorting", "bitwise_or")

# A second sign besides the colour, for variants of a scheme; any other variant is dotted.
SOLID, DOTTED = (1.0, 0.0), (1.0, 1.0)
VARIANTS = {"looped": (4.0, 1.5), "injected": (5.0, 1.0, 1.0, 1.0)}

SHADE = "#ECECEC"  # the training range
SETTINGS = {
    **sns.axes_style("ticks"),
    **sns.plotting_context("notebook", font_scale=0.8),
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}
# Letters as outlines and a fixed salt: the same bytes on every run and without any font.
WRITING = {"svg.fonttype": "path", "svg.hashsalt": "carry", "savefig.dpi": 150}


class Look(NamedTuple):
    """How a row is drawn."""

    label: str
    color: str
    dashes: tuple[float, ...]


def look(row: str) -> Look:
    """Return label, colour and dashes of a row, from its name.

    >>> look("addition_abacus").label, look("multiplication_abacus_looped").label
    ('Abacus', 'Abacus, looped')
    >>> look("addition_new_idea")
    Look(label='New idea', color='#808080', dashes=(1.0, 0.0))
    """
    name = row
    for task in TASKS:
        name = name.removeprefix(f"{task}_")
    for scheme in sorted(SCHEMES, key=len, reverse=True):
        if name == scheme or name.startswith(f"{scheme}_"):
            label, color = SCHEMES[scheme]
            variant = name.removeprefix(scheme).strip("_").replace("_", " ")
            if not variant:
                return Look(label, color, SOLID)
            return Look(f"{label}, {variant}", color, VARIANTS.get(variant, DOTTED))
    return Look(name.replace("_", " ").capitalize(), OTHER, SOLID)


def line(row: str, **more: Any) -> dict[str, Any]:
    """Return what matplotlib needs to draw a row's line."""
    seen = look(row)
    style = "-" if seen.dashes == SOLID else (0, seen.dashes)
    return {"color": seen.color, "linestyle": style, **more}


def styled(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Let a figure be drawn in this style, and leave matplotlib's settings as they were."""

    @wraps(draw)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with matplotlib.rc_context(SETTINGS):
            return draw(*args, **kwargs)

    return inside


def legend(
    figure: Figure,
    rows: list[str],
    place: str = "outside right center",
    trained: dict[str, int] | None = None,
) -> None:
    """Name the rows once for the whole figure, and what they were trained to if that differs."""
    trained = trained if trained and len(set(trained.values())) > 1 else {}
    labels = {
        row: look(row).label + (f" (to {trained[row]})" if row in trained else "") for row in rows
    }
    handles = [Line2D([], [], label=labels[row], **line(row, linewidth=2.2)) for row in rows]
    figure.legend(handles=handles, loc=place, handlelength=2.6)


def seeds_and_median(axes: Axes, table: pd.DataFrame, row: str, x: str, y: str) -> None:
    """Draw a thin line for each seed, and a thick one for their median where all have a value."""
    wide = table.pivot_table(index=x, columns="seed", values=y, aggfunc="mean").sort_index()
    for seed in wide:
        axes.plot(wide[seed].dropna(), **line(row, linewidth=0.7, alpha=0.5))
    whole = wide.dropna()
    axes.plot(whole.median(axis=1), **line(row, linewidth=2.2))


def percent(axis: Any) -> None:
    """Write shares as percent on an axis."""
    axis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0))


def panels(count: int, columns: int, size: tuple[float, float], **more: Any):
    """Return a figure and its panels in rows of `columns`, the empty ones at the end removed."""
    columns = max(1, min(columns, count))
    lines = max(1, -(-count // columns))
    figure, grid = plt.subplots(
        lines,
        columns,
        figsize=(size[0] * columns, size[1] * lines),
        squeeze=False,
        layout="constrained",
        **more,
    )
    for axes in grid.flat[count:]:
        axes.remove()
    return figure, list(grid.flat[:count])


def save(figure: Figure, name: str, table: pd.DataFrame, folder: Path) -> Path:
    """Write NAME.svg, NAME.png and NAME.csv, the table behind the figure; return the svg's path.

    The bytes depend on figure and table alone: no date, no version and no random names in them.
    """
    svg = Path(folder) / f"{name}.svg"
    with matplotlib.rc_context({**SETTINGS, **WRITING}):
        with paths.atomically(svg) as draft:
            figure.savefig(draft, metadata={"Date": None, "Creator": None})
        with paths.atomically(svg.with_suffix(".png")) as draft:
            figure.savefig(draft, metadata={"Software": None})
    with paths.atomically(svg.with_suffix(".csv")) as draft:
        table.to_csv(draft, index=False, float_format="%.6g", lineterminator="\n")
    return svg
