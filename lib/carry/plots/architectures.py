"""The three architectures of mcleish2024, Fig. 19: standard, with input injection, looped."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from carry.plots import style

# Settings of `model` for each, at a depth of four layers.
ARCHITECTURES = {
    "standard": {"layers": 4, "recurrences": 1, "injection": "none"},
    "with input injection": {"layers": 4, "recurrences": 1, "injection": "every_layer"},
    "looped, with input injection": {"layers": 2, "recurrences": 2, "injection": "every_layer"},
}
INK, INJECTED = "#333333", "#D55E00"


@style.use_style
def draw_architectures() -> tuple[Figure, pd.DataFrame]:
    """Draw the effect of the settings `layers`, `recurrences` and `injection`."""
    figure, panels = style.make_panels(3, 3, (2.7, 4.6))
    for axes, (title, settings) in zip(panels, ARCHITECTURES.items(), strict=True):
        injection = settings["injection"] != "none"
        _draw_model(axes, settings["layers"], settings["recurrences"], injection)
        axes.set_title(title)
    rows = [{"architecture": title, **settings} for title, settings in ARCHITECTURES.items()]
    return figure, pd.DataFrame(rows)


def _draw_model(axes: Axes, layers: int, recurrences: int, injection: bool) -> None:
    """Draw one model from its tokens, at the bottom, to its logits."""
    _draw_box(axes, 1.0, "tokens + ids\nembedded", "#E8E8E8")
    heights = [2.6 + 1.15 * layer for layer in range(layers)]
    for layer, height in enumerate(heights, start=1):
        _draw_box(axes, height, f"layer {layer}", "#CFE3F3")
    top = heights[-1] + 1.55
    _draw_box(axes, top, "norm, logits", "#E8E8E8")
    for low, high in zip([1.0, *heights], [*heights, top], strict=True):
        _draw_arrow(axes, (2.0, low + 0.36), (2.0, high - 0.38), INK)
    if injection:
        _draw_injection(axes, heights)
    if recurrences > 1:
        _draw_loop(axes, heights, recurrences)
    axes.set(xlim=(-0.2, 4.2), ylim=(0.4, 8.2))
    axes.axis("off")


def _draw_injection(axes: Axes, heights: list[float]) -> None:
    """Draw a line along the layers, with an arrow into each."""
    axes.plot([1.1, 0.45, 0.45], [1.0, 1.0, heights[-1]], color=INJECTED, linewidth=1.4)
    for height in heights:
        _draw_arrow(axes, (0.45, height), (1.08, height), INJECTED)
    middle = (heights[0] + heights[-1]) / 2
    text = {"rotation": 90, "color": INJECTED, "ha": "right", "va": "center"}
    axes.text(0.28, middle, "injection", **text)


def _draw_loop(axes: Axes, heights: list[float], recurrences: int) -> None:
    """Draw the recurrent block, and the way back from its end to its beginning."""
    low, high = heights[0] - 0.62, heights[-1] + 0.62
    axes.add_patch(Rectangle((0.72, low), 2.5, high - low, fill=False, ec=INK, ls="--", lw=1))
    bend = [(2, high - 0.12), (3.55, high - 0.12), (3.55, low + 0.1)]
    axes.plot(*zip(*bend, strict=True), color=INK, linewidth=1.4)
    _draw_arrow(axes, (3.55, low + 0.1), (2.02, low + 0.1), INK)
    text = {"rotation": 270, "va": "center", "color": INK}
    axes.text(3.66, (low + high) / 2, f"{recurrences} times", **text)


def _draw_box(axes: Axes, height: float, text: str, color: str) -> None:
    shape = "round,pad=0,rounding_size=0.12"
    corner = (1.1, height - 0.36)
    axes.add_patch(FancyBboxPatch(corner, 1.8, 0.72, shape, fc=color, ec=INK, lw=1, zorder=2))
    axes.text(2, height, text, ha="center", va="center", color=INK, zorder=3, fontsize="small")


def _draw_arrow(
    axes: Axes, tail: tuple[float, float], head: tuple[float, float], color: str
) -> None:
    arrow = {"arrowstyle": "-|>", "mutation_scale": 9, "shrinkA": 0, "shrinkB": 0, "lw": 1.4}
    axes.add_patch(FancyArrowPatch(tail, head, color=color, zorder=2.5, **arrow))
