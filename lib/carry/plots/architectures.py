"""The three architectures of mcleish2024, Fig. 19: standard, with input injection, looped."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

# Settings of `model` for each, at a depth of four layers.
ARCHITECTURES = {
    "standard": {"layers": 4, "recurrences": 1, "injection": "none"},
    "with input injection": {"layers": 4, "recurrences": 1, "injection": "every_layer"},
    "looped, with input injection": {"layers": 2, "recurrences": 2, "injection": "every_layer"},
}
INK, INJECTED = "#333333", "#D55E00"


def draw_architectures() -> tuple[Figure, pd.DataFrame]:
    """Draw the effect of the settings `layers`, `recurrences` and `injection`."""
    figure, panels = plt.subplots(1, 3, figsize=(2.7 * 3, 4.6), layout="constrained")
    for axes, (title, settings) in zip(panels, ARCHITECTURES.items(), strict=True):
        _draw_model(axes, **settings)
        axes.set(title=title, xlim=(-0.2, 4.2), ylim=(0.4, 8.2))
        axes.axis("off")
    rows = [{"architecture": title, **settings} for title, settings in ARCHITECTURES.items()]
    return figure, pd.DataFrame(rows)


def _draw_model(axes: Axes, layers: int, recurrences: int, injection: str) -> None:
    """Draw one model from its tokens, at the bottom, to its logits."""
    heights = [2.6 + 1.15 * layer for layer in range(layers)]
    bottom, top = heights[0] - 1.6, heights[-1] + 1.55
    _draw_box(axes, bottom, "tokens + ids\nembedded", "#E8E8E8")
    _draw_box(axes, top, "norm, logits", "#E8E8E8")
    for layer, height in enumerate(heights, start=1):
        _draw_box(axes, height, f"layer {layer}", "#CFE3F3")
    for low, high in zip([bottom, *heights], [*heights, top], strict=True):
        _draw_arrow(axes, [(2.0, low + 0.36), (2.0, high - 0.38)], INK)
    low, high = heights[0] - 0.62, heights[-1] + 0.62
    text = {"va": "center", "fontsize": "medium"}
    if injection != "none":  # a line along the layers, with an arrow into each
        for height in heights:
            path = [(1.1, bottom), (0.45, bottom), (0.45, height), (1.08, height)]
            _draw_arrow(axes, path, INJECTED)
        axes.text(
            0.28, (low + high) / 2, "injection", rotation=90, color=INJECTED, ha="right", **text
        )
    if recurrences > 1:  # the recurrent block, and the way back from its end to its beginning
        axes.add_patch(Rectangle((0.72, low), 2.5, high - low, fill=False, ec=INK, ls="--", lw=1))
        path = [(2, high - 0.12), (3.55, high - 0.12), (3.55, low + 0.1), (2.02, low + 0.1)]
        _draw_arrow(axes, path, INK)
        axes.text(3.66, (low + high) / 2, f"{recurrences} times", rotation=270, color=INK, **text)


def _draw_box(axes: Axes, height: float, text: str, color: str) -> None:
    shape, corner = "round,pad=0,rounding_size=0.12", (1.1, height - 0.36)
    axes.add_patch(FancyBboxPatch(corner, 1.8, 0.72, shape, fc=color, ec=INK, lw=1, zorder=2))
    axes.text(2, height, text, ha="center", va="center", color=INK, zorder=3, fontsize="small")


def _draw_arrow(axes: Axes, path: list[tuple[float, float]], color: str) -> None:
    """Draw a line through some points; its last part is an arrow."""
    axes.plot(*zip(*path[:-1], strict=True), color=color, linewidth=1.4)
    arrow = {"arrowstyle": "-|>", "mutation_scale": 9, "shrinkA": 0, "shrinkB": 0, "lw": 1.4}
    axes.add_patch(FancyArrowPatch(*path[-2:], color=color, zorder=2.5, **arrow))
