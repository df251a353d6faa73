"""A circuit that a constructed model works out, gate by gate (fraknoi2024, Theorem 3.4)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

MARKERS = {"first": ("o", "#D55E00", 190), "second": ("s", "#0072B2", 120)}  # by head


def draw_circuit_steps(steps: pd.DataFrame) -> Figure:
    """Draw a chain of thought: one line for each step, one column for each wire.

    Args:
        steps: for each `step` and `wire` the attention of the `first` and the `second` head, the
            `value` of the wire, and the predicted output of the `gate`.
    """
    count, wires = steps["step"].max(), steps["wire"].max()
    size = (max(5.5, 1.9 + 0.3 * wires), 1.1 + 0.26 * count)
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    for row in steps.itertuples():
        color = "#333333" if row.value else "#AAAAAA"
        axes.text(row.wire, row.step, row.value, ha="center", va="center", color=color, fontsize=8)
    for head, (mark, color, area) in MARKERS.items():
        axes.scatter(
            steps["wire"], steps["step"], s=area * steps[head].where(steps[head] > 0.01, 0.0),
            marker=mark, facecolor="none", edgecolor=color, linewidth=1.6,
        )  # fmt: skip
    gates = steps.drop_duplicates("step")
    names = [f"{gate.gate}  →  {gate.predicted}" for gate in gates.itertuples()]
    axes.set_yticks(gates["step"], names)
    columns = steps.drop_duplicates("wire").sort_values("wire")
    axes.set_xticks(columns["wire"], columns["name"], fontsize=7)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(0.4, wires + 0.6), ylim=(count + 0.6, 0.4))
    axes.set(xlabel="wires before the step, with their values", ylabel="gate  →  prediction")
    handles = [
        Line2D([], [], linestyle="none", marker=mark, color=color, markerfacecolor="none",
               markeredgewidth=1.6, markersize=9, label=f"{head} head attends here")
        for head, (mark, color, _) in MARKERS.items()
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower right", ncols=2)
    return figure
