"""The style of figures: one colour for each position encoding, safe for colour-blind readers.

addition_abacus             Abacus                    blue
addition_abacus_looped      Abacus, looped            blue, dashed
addition_abacus_looped_4    Abacus, looped 4 times    blue, dashed more finely
addition_abacus_fire        Abacus + FIRE             light blue
parity_fire_scratchpad      FIRE, scratchpad          red, with long dashes
a row with a new scheme     the scheme's label        grey, until it has a colour here
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.ticker
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from carry import labels, results
from carry.config import paths
from carry.data.rounding import round_floats
from carry.data.tables import write_table
from carry.tasks import build_task

# By position encodings, as `labels.describe_positions` names them. Similar to the colours of Okabe
# and Ito. Under simulated protanopia, deuteranopia and tritanopia the two most similar are 15 apart
# in CIELAB (a test measures it).
COLORS = {
    "NoPE": "#000000",
    "Learned index": "#EDB120",
    "Sinusoidal index": "#999933",
    "RoPE": "#CC79A7",
    "FIRE": "#C8102E",
    "Randomized": "#C0C0C0",
    "Randomized FIRE": "#9758FF",
    "Abacus": "#0072B2",
    "Abacus + FIRE": "#56B4E9",
    "Abacus + RoPE": "#2A189F",
    "Coupled": "#009E73",
    "Abacus read relatively": "#882255",
    "Coupled read relatively": "#882255",
    "Shaw": "#550061",
    "T5": "#0C550C",
    "ALiBi": "#9EDB92",
}
OTHER_COLOR = "#808080"
TRAINED_COLOR = "#ECECEC"  # background of the lengths of training

# A number that a paper states, next to ours.
STATED_MARKER = {"marker": "D", "markersize": 5.5, "color": "white", "markeredgecolor": "#222222"}

PERCENT = matplotlib.ticker.PercentFormatter(1.0, decimals=0)

# Dashes tell rows of one colour apart: on and off lengths in points.
SOLID, DOTTED, DASH_DOTTED = "", (1.0, 1.0), (7.0, 1.2, 1.5, 1.2)
INJECTED, LOOPED, SCRATCHPAD = (5.0, 1.0, 1.0, 1.0), (4.0, 1.5), (5.5, 1.2)
LOOPED_OFTEN = {4: (2.6, 1.3), 8: (1.7, 1.1), 16: (0.8, 0.9)}  # by recurrences

MATPLOTLIB_SETTINGS = {
    **sns.axes_style("ticks"),
    **sns.plotting_context("notebook", font_scale=0.8),
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # part of matplotlib, so it is the same everywhere
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}
# Letters as text, which halves the files and can be searched; a fixed salt: the same bytes always.
FILE_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "carry", "savefig.dpi": 150}
FONTS = "'DejaVu Sans', Verdana, sans-serif"  # Verdana's letters have the same widths
# Not the factors of `scale`, which are small.
COORDINATES = re.compile(r' (?:d|x|y)="[^"]*"|translate\([^)]*\)')
STYLE = re.compile(r' style="([^"]*)"')
USES = 3  # of a style from which on it gets a name
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
NO_BREAK = "\N{NO-BREAK SPACE}"
NO_METADATA = dict.fromkeys(["Date", "Creator", "Format", "Type"])
NO_DIFFERENCE = 1e-12  # a drawn number below is 0: 1 minus a sum of shares can be 3e-16
README_FIGURES = ("accuracy",)  # as PNG too, since README.md shows it


def set_style(**more: Any) -> None:
    """Set the style of figures, and more settings of matplotlib, whatever a matplotlibrc says."""
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({**MATPLOTLIB_SETTINGS, **more})


def choose_color(row: str) -> str:
    """Return the colour of a row, from its settings.

    >>> choose_color("addition_abacus"), choose_color("my_new_idea")
    ('#0072B2', '#808080')
    """
    run = results.choose_run(row)
    return COLORS.get(labels.describe_positions(run), OTHER_COLOR) if run else OTHER_COLOR


def choose_dashes(row: str) -> tuple[float, ...] | str:
    """Return the dashes of a row: of its architecture or scratchpad, and of rows with a label.

    >>> choose_dashes("addition_abacus"), choose_dashes("addition_abacus_looped")
    ('', (4.0, 1.5))
    """
    run = results.choose_run(row)
    if run is None:
        return SOLID
    architecture, has_label = labels.describe_architecture(run), run.label is not None
    recurrences = run.model.get("recurrences", 1)
    if architecture == "looped" and recurrences in LOOPED_OFTEN:
        return LOOPED_OFTEN[recurrences]
    if architecture == "looped":
        return DASH_DOTTED if has_label else LOOPED
    if architecture == "injected":
        return INJECTED
    if labels.describe_format(run):
        return DASH_DOTTED if has_label else SCRATCHPAD
    return DOTTED if has_label or architecture else SOLID


def name_problems(rows: list[str]) -> str:
    """Return the noun for the problems of some rows.

    >>> name_problems(["addition_nope"]), name_problems(["addition_nope", "sorting_fire"])
    ('sums', 'problems')
    """
    runs = map(results.choose_run, rows)
    nouns = {build_task(run.task).noun if run else "problems" for run in runs}
    return nouns.pop() if len(nouns) == 1 else "problems"


def wrap_title(text: str, width: int) -> str:
    """Return a title in lines, broken after commas where this suffices, never in parentheses.

    >>> wrap_title("Ours, read relatively (to 10)", 24).split("\\n")
    ['Ours,', 'read relatively (to 10)']
    >>> wrap_title("Learned index (1 to 4 and 6)", 24).split("\\n")
    ['Learned index', '(1 to 4 and 6)']
    """
    parts = re.split(r"(?<=,) (?![^(]*\))", text)
    for number, part in enumerate(parts):
        kept = r".+" if len(part) <= width else r"\([^)]*\)"
        parts[number] = re.sub(kept, lambda match: match[0].replace(" ", NO_BREAK), part)
    lines = textwrap.fill(" ".join(parts), width, break_long_words=False)
    return lines.replace(NO_BREAK, " ")


def draw_frame(
    axes: Axes, corner: tuple[float, float], width: float, height: float, dashes: Any, **line: Any
) -> None:
    """Draw a rectangle in red dashes on white, which shows on dark and on light."""
    for color, on in (("white", "-"), ("#D00000", dashes)):
        axes.add_patch(Rectangle(corner, width, height, fill=False, ec=color, ls=on, **line))


def strip_axes(axes: Axes) -> None:
    """Leave nothing around the cells of a heatmap but the labels of its ticks."""
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def add_color_bar(
    grid: sns.FacetGrid, image: AxesImage, label: str, shrink: float, aspect: float = 30
) -> None:
    """Draw a bar in percent for the colours of all panels, at their right."""
    bar = grid.figure.colorbar(image, ax=list(grid.axes.flat), shrink=shrink, aspect=aspect)
    bar.set_label(label)
    bar.outline.set_visible(False)
    bar.ax.yaxis.set_major_formatter(PERCENT)


def shorten_svg(text: str) -> str:
    """Return an SVG with coordinates to 1/100 point, one list of fonts, and named styles.

    >>> shorten_svg('<g id="axes_1">\\n   <path d="M 1.23456 7.0" style="fill: none"/>\\n</g>')
    '<g>\\n<path d="M 1.23 7.0" style="fill:none"/>\\n</g>'
    >>> text = shorten_svg("<svg >" + '<g style="fill: red"/>' * 3)
    >>> text[text.index("<style>") :]
    '<style>.s0{fill:red}</style><g class="s0"/><g class="s0"/><g class="s0"/>'
    """

    def round_number(number: re.Match) -> str:
        return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")

    def write_style(match: re.Match) -> str:
        return f' class="{names[match[1]]}"' if match[1] in names else match[0]

    text = re.sub(r"^ +", "", text, flags=re.MULTILINE)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    text = re.sub(r'(<g) id="[\w.]+_\d+"', r"\1", text)
    text = text.replace(" font-family: 'DejaVu Sans';", "").replace("'DejaVu Sans'", FONTS)
    text = text.replace("<svg ", f'<svg font-family="{FONTS}" ', 1)
    text = STYLE.sub(lambda match: re.sub(r"([:;]) ", r"\1", match[0]), text)
    text = COORDINATES.sub(lambda match: LONG_NUMBER.sub(round_number, match[0]), text)
    often = [style for style, uses in Counter(STYLE.findall(text)).most_common() if uses >= USES]
    names = {style: f"s{number}" for number, style in enumerate(often)}
    css = "".join(f".{name}{{{style}}}" for style, name in names.items())
    text = STYLE.sub(write_style, text)
    return re.sub(r"<svg [^>]*>", rf"\g<0><style>{css}</style>", text, count=1)


def save_figure(figure: Figure, name: str, table: pd.DataFrame, folder: Path) -> Path:
    """Write NAME.svg and the table of the figure, NAME.parquet; return the svg's path.

    The bytes depend on figure and table alone: the files have no date, version or random name.
    """
    svg = Path(folder) / f"{name}.svg"
    with matplotlib.rc_context():
        set_style(**FILE_SETTINGS)
        with paths.write_atomically(svg) as draft:
            figure.savefig(draft, bbox_inches="tight", metadata=NO_METADATA)
            draft.write_text(shorten_svg(draft.read_text(encoding="utf-8")), encoding="utf-8")
        if name in README_FIGURES:
            with paths.write_atomically(svg.with_suffix(".png")) as draft:
                figure.savefig(draft, bbox_inches="tight", metadata={"Software": None})
    write_table(round_floats(table, floor=NO_DIFFERENCE), svg.with_suffix(".parquet"))
    return svg


def write_csv(table: pd.DataFrame) -> str:
    """Return a table as CSV, with 6 significant digits.

    >>> write_csv(pd.DataFrame({"label": ["NoPE"], "share": [2 / 3]}))
    'label,share\\nNoPE,0.666667\\n'
    """
    return table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
