"""How every figure looks: one colour for each scheme, safe for colour-blind readers.

What a row is called and how it is drawn follows from its name alone, `task_scheme_variant`:

    addition_abacus             Abacus                    blue
    addition_abacus_looped      Abacus, looped            blue, dashed
    addition_abacus_looped_4    Abacus, looped 4 times    blue, dashed more finely
    addition_abacus_fire        Abacus + FIRE             light blue
    parity_fire_scratchpad      FIRE, scratchpad          red, with long dashes
    addition_equal_alibi        ALiBi                     light green (operands equally long)
    addition_new_idea           New idea                  grey, until it is given a colour here
"""

from __future__ import annotations

import re
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

from carry.config import paths

# Near to Okabe and Ito's colours. Under simulated protanopia, deuteranopia and tritanopia the
# nearest two stay 15 apart in CIELAB (a test measures it).
SCHEMES = {
    "nope": ("NoPE", "#000000"),
    "learned": ("Learned index", "#EDB120"),
    "sinusoidal": ("Sinusoidal", "#999933"),
    "rope": ("RoPE", "#CC79A7"),
    "fire": ("FIRE", "#C8102E"),
    "randomized": ("Randomized", "#C0C0C0"),
    "randomized_fire": ("Randomized FIRE", "#9758FF"),
    "abacus": ("Abacus", "#0072B2"),
    "abacus_fire": ("Abacus + FIRE", "#56B4E9"),
    "abacus_rope": ("Abacus + RoPE", "#2A189F"),
    "coupled": ("Coupled", "#009E73"),
    "relative": ("Abacus read relatively", "#882255"),
    "shaw": ("Shaw", "#550061"),
    "t5": ("T5", "#0C550C"),
    "alibi": ("ALiBi", "#9EDB92"),
}
OTHER = "#808080"

# A number that a paper states, beside ours.
STATED = {"marker": "D", "markersize": 5.5, "color": "white", "markeredgecolor": "#222222"}

# What a task's problems are called, and what its training length counts.
TASKS = {
    "addition": ("sums", "{0} digits"),
    "multiplication": ("products", "{0} digits"),
    "parity": ("answers", "{0} bits"),
    "sorting": ("lists", "{0} numbers of {0} digits"),
    "bitwise_or": ("answers", "{0} bits"),
    "multi_operand_addition": ("sums", "{0} operands of {0} digits"),
    "modular_addition": ("sums", "numbers of {0} digits"),
    "noisy_majority": ("strings", "{0} symbols"),
    "copying": ("strings", "{0} digits"),
    "reversing": ("strings", "{0} digits"),
}

EQUAL = "equal_"  # after the task: rows of operands that are as long as each other

# A second sign besides the colour, for variants of a scheme: dashes of lines and hatches of bars.
SOLID, DOTTED = (1.0, 0.0), (1.0, 1.0)
VARIANTS = {
    "injected": (5.0, 1.0, 1.0, 1.0),
    "looped": (4.0, 1.5),
    "looped_4": (2.6, 1.3),
    "looped_8": (1.7, 1.1),
    "looped_16": (0.8, 0.9),
    "far": (7.0, 1.2, 1.5, 1.2),
    "scratchpad": (5.5, 1.2),
}
HATCHES = {SOLID: "", DOTTED: r"\\\\", VARIANTS["injected"]: "...."}  # what is looped: ////
# How the parts of a variant are said; parts that are not here are said as they stand.
PARTS = {
    "scratchpad_padded": "scratchpad, zeros in front",
    "injected": "injected",
    "looped": "looped",
    "far": "more ids",
    "everything": "loss on the question too",
    "noise": "random padding",
    "entrance": "entrance",
    "divided": "gradient divided",
    "hints": "index hints",
    "scratchpad": "scratchpad",
    "spare": "zeros to spare",
    "unpadded": "no zeros in front",
    "reversed": "question reversed",
    "plain": "nothing reversed",
    "from_first": "sums from the first operand",
    "narrow_heads": "heads half as wide",
    "wide_heads": "heads twice as wide",
    "gap": "a larger gap",
    "longer": "no gap",
    "padded": "nothing reversed, zeros in front",
    "operands": "operands reversed",
    "both": "both reversed",
    "spaces": "random spaces",
    "worded": "steps in words",
    "dear": "at five times the price",
    "carries": "its carries alone",
    "digits": "its digit sums alone",
    "backwards": "its numbers backwards",
    "aligned": "its digits in pairs",
}
# Whose ids are coupled where they are read relatively: levels or letters that Abacus does not have.
COUPLED_PARTS = {"scratchpad", "scratchpad_padded", "carries", "digits", "backwards", "aligned"}
COUPLED_TASKS = {"copying", "reversing"}
COUNTED = r"looped_\d+|\d+l\d+h|width_\d+|\d+[km]"
PART = re.compile(rf"(?:^|_)({COUNTED}|{'|'.join(PARTS)})(?=_|$)")

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

    >>> look("addition_abacus").label, look("multiplication_abacus_looped_4").label
    ('Abacus', 'Abacus, looped 4 times')
    >>> look("multi_operand_addition_coupled_scratchpad_1l4h_wide_heads").label
    'Coupled, scratchpad, 1 layer of 4 heads, heads twice as wide'
    >>> look("addition_new_idea")
    Look(label='New idea', color='#808080', dashes=(1.0, 0.0))
    """
    name = row.removeprefix(f"{task(row)}_").removeprefix(EQUAL)
    for scheme in sorted(SCHEMES, key=len, reverse=True):
        if name == scheme or name.startswith(f"{scheme}_"):
            label, color = SCHEMES[scheme]
            parts = PART.split(name.removeprefix(scheme))
            parts = [part.strip("_") for part in parts if part.strip("_")]
            coupled = task(row) in COUPLED_TASKS or COUPLED_PARTS & {*parts}
            if scheme == "relative" and coupled:
                label = "Coupled read relatively"
            known = [VARIANTS[part] for part in parts if part in VARIANTS]
            words = [label, *(_said(part) for part in parts)]
            return Look(", ".join(words), color, [DOTTED, *known][-1] if parts else SOLID)
    return Look(name.replace("_", " ").capitalize(), OTHER, SOLID)


def _said(part: str) -> str:
    """Return a part of a variant in words.

    >>> _said("looped_4"), _said("6l8h"), _said("100k"), _said("10m")
    ('looped 4 times', '6 layers of 8 heads', '100,000 problems', '10 million problems')
    """
    if looped := re.fullmatch(r"looped_(\d+)", part):
        return f"looped {looped[1]} times"
    if shape := re.fullmatch(r"(\d+)l(\d+)h", part):
        return f"{shape[1]} {'layer' if shape[1] == '1' else 'layers'} of {shape[2]} heads"
    if count := re.fullmatch(r"(\d+)([km])", part):
        return f"{count[1]}{',000' if count[2] == 'k' else ' million'} problems"
    return PARTS.get(part, part.replace("_", " "))


def task(row: str) -> str:
    """Return the task of a row, from its name; nothing if there is no such task.

    >>> task("bitwise_or_fire"), task("mine")
    ('bitwise_or', '')
    """
    return next((name for name in TASKS if row.startswith(f"{name}_")), "")


def hatch(row: str) -> str:
    """Return the hatch of a row's bar, which tells architectures apart as dashes do lines."""
    return HATCHES.get(look(row).dashes, "////")


def problems(rows: list[str]) -> str:
    """Return what the problems of some rows are called.

    >>> problems(["addition_nope"]), problems(["addition_nope", "mine"])
    ('sums', 'problems')
    """
    nouns = {TASKS[task(row)][0] if task(row) else "problems" for row in rows}
    return nouns.pop() if len(nouns) == 1 else "problems"


def reached(row: str, length: int) -> str:
    """Return what a row was trained to.

    >>> reached("addition_nope", 5), reached("sorting_fire", 10)
    ('trained to 5 digits', 'trained to 10 numbers of 10 digits')
    """
    return "trained to " + TASKS.get(task(row), ("", "{0} digits"))[1].format(length)


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
    """Name the rows once for the whole figure, and what they were trained to."""
    lengths = trained or {}
    differ = len(set(lengths.values())) > 1
    labels = {
        row: look(row).label + (f" (to {lengths[row]})" if differ and row in lengths else "")
        for row in rows
    }
    handles = [Line2D([], [], label=labels[row], **line(row, linewidth=2.2)) for row in rows]
    shared = reached(rows[0], lengths[rows[0]]) if lengths and not differ else None
    figure.legend(handles=handles, loc=place, handlelength=2.6, title=shared, alignment="left")


def stated_legend(figure: Figure, place: str) -> None:
    """Say what the marks of stated numbers are."""
    handle = Line2D([], [], linestyle="none", label="stated in the paper", **STATED)
    figure.legend(handles=[handle], loc=place)


def seeds_and_median(axes: Axes, table: pd.DataFrame, row: str, x: str, y: str) -> None:
    """Draw a thin line for each seed, and a thick one for their median where all have a value."""
    wide = table.pivot_table(index=x, columns="seed", values=y, aggfunc="mean").sort_index()
    for seed in wide:
        axes.plot(wide[seed].dropna(), **line(row, linewidth=0.7, alpha=0.5))
    whole = wide.dropna()
    axes.plot(whole.median(axis=1), **line(row, linewidth=2.2))


def all_and_seeds(axes: Axes, table: pd.DataFrame, row: str) -> None:
    """Draw accuracy over `at`: all seeds together with their interval, and the seeds as dots."""
    pooled = table[table["seed"] == "all"].sort_values("at")
    seeds, color = table[table["seed"] != "all"], look(row).color
    ends = [pooled["accuracy"] - pooled["low"], pooled["high"] - pooled["accuracy"]]
    axes.errorbar(pooled["at"], pooled["accuracy"], ends, fmt="none", ecolor=color, elinewidth=1.2)
    axes.plot(pooled["at"], pooled["accuracy"], marker="o", ms=4.5, **line(row, linewidth=1.6))
    axes.plot(seeds["at"], seeds["accuracy"], "o", ms=2.4, color=color, alpha=0.6)


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
        with paths.write_atomically(svg) as draft:
            figure.savefig(draft, metadata={"Date": None, "Creator": None})
        with paths.write_atomically(svg.with_suffix(".png")) as draft:
            figure.savefig(draft, metadata={"Software": None})
    with paths.write_atomically(svg.with_suffix(".csv")) as draft:
        table.to_csv(draft, index=False, float_format="%.6g", lineterminator="\n")
    return svg
