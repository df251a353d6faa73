"""The three architectures of mcleish2024, Fig. 19: standard, with input injection, looped."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from carry.plots import style

# The settings of `model` that make each, at an equal depth of four layers.
DRAWN = {
    "standard": {"layers": 4, "recurrences": 1, "injection": "none"},
    "with input injection": {"layers": 4, "recurrences": 1, "injection": "every_layer"},
    "looped, with input injection": {"layers": 2, "recurrences": 2, "injection": "every_layer"},
}
INK, INJECTED = "#333333", "#D55E00"


@style.styled
def side_by_side() -> tuple[Figure, pd.DataFrame]:
    """Draw what the settings `layers`, `recurrences` and `injection` change."""
    figure, drawn = style.panels(3, 3, (2.7, 4.6))
    for axes, (title, given) in zip(drawn, DRAWN.items(), strict=True):
        _model(axes, given["layers"], given["recurrences"], given["injection"] != "none")
        axes.set_title(title)
    table = pd.DataFrame([{"architecture": title, **given} for title, given in DRAWN.items()])
    return figure, table


def _model(axes: Axes, layers: int, recurrences: int, injection: bool) -> None:
    """Draw one model from its tokens, at the bottom, to its logits."""
    _box(axes, 1.0, "tokens + ids\nembedded", "#E8E8E8")
    heights = [2.6 + 1.15 * layer for layer in range(layers)]
    for layer, height in enumerate(heights, start=1):
        _box(axes, height, f"layer {layer}", "#CFE3F3")
    top = heights[-1] + 1.55
    _box(axes, top, "norm, logits", "#E8E8E8")
    for low, high in zip([1.0, *heights], [*heights, top], strict=True):
        _arrow(axes, (2.0, low + 0.36), (2.0, high - 0.38), INK)
    if injection:  # a line up beside the layers, with an arrow into each
        axes.plot([1.1, 0.45, 0.45], [1.0, 1.0, heights[-1]], color=INJECTED, linewidth=1.4)
        for height in heights:
            _arrow(axes, (0.45, height), (1.08, height), INJECTED)
        axes.text(0.28, (heights[0] + heights[-1]) / 2, "injection", rotation=90, color=INJECTED,
                  ha="right", va="center")  # fmt: skip
    if recurrences > 1:  # the block, and the way back from its end to its beginning
        low, high = heights[0] - 0.62, heights[-1] + 0.62
        axes.add_patch(Rectangle((0.72, low), 2.5, high - low, fill=False, ec=INK, ls="--", lw=1))
        bend = [(2, high - 0.12), (3.55, high - 0.12), (3.55, low + 0.1)]
        axes.plot(*zip(*bend, strict=True), color=INK, linewidth=1.4)
        _arrow(axes, (3.55, low + 0.1), (2.02, low + 0.1), INK)
        axes.text(3.66, (low + high) / 2, f"{recurrences} times", rotation=270, va="center",
                  color=INK)  # fmt: skip
    axes.set(xlim=(-0.2, 4.2), ylim=(0.4, 8.2))
    axes.axis("off")


def _box(axes: Axes, height: float, text: str, color: str) -> None:
    shape = "round,pad=0,rounding_size=0.12"
    corner = (1.1, height - 0.36)
    axes.add_patch(FancyBboxPatch(corner, 1.8, 0.72, shape, fc=color, ec=INK, lw=1, zorder=2))
    axes.text(2, height, text, ha="center", va="center", color=INK, zorder=3, fontsize="small")


def _arrow(axes: Axes, tail: tuple[float, float], head: tuple[float, float], color: str) -> None:
    look = {"arrowstyle": "-|>", "mutation_scale": 9, "shrinkA": 0, "shrinkB": 0, "lw": 1.4}
    axes.add_patch(FancyArrowPatch(tail, head, color=color, zorder=2.5, **look))
