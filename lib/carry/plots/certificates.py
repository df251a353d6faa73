"""Certificates: verdicts of trained models, wrong contexts over training, limits of windows."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from carry.plots import lines, load, style
from carry.plots.entry import Entry

WRONG, SUMS = "#D55E00", "#0072B2"  # contexts, random problems
VERDICTS = {"exact": "exact at every length", "open": "open", "sampled": "sampled, not proved",
            "wrong": "wrong somewhere", "impossible": "impossible"}  # fmt: skip
COLORS = {"exact": "#009E73", "open": "#E69F00", "sampled": "#56B4E9", "wrong": "#D55E00",
          "impossible": "#555555"}  # fmt: skip
CONFLICT, DISTINCT = "#F0B9A0", "#BFE3D5"
LEFT = 0.004  # the left end of the axis of leads
SHARED_WORDS = ("", "relative", "scratchpad")  # left out of labels: every certified row has them
FLOOR = 0.5  # position of zero on the log axis


@style.use_style
def draw_wrong_contexts(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw the number of wrong contexts over training, and of wrong random sums."""
    table = tables["learned"].assign(wrong_problems=lambda rows: rows["n"] - rows["exact"])
    figure, (axes,) = style.make_panels(1, 1, (6.2, 3.4))
    for column, color, label in (
        ("wrong", WRONG, f"of {int(table['contexts'].max()):,} contexts"),
        ("wrong_problems", SUMS, f"of {int(table['n'].max()):,} random problems"),
    ):
        wide = table.pivot(index="step", columns="seed", values=column).clip(lower=FLOOR)
        axes.plot(wide, color=color, linewidth=0.7, alpha=0.5)
        axes.plot(wide.median(axis=1), color=color, linewidth=2.2, label=label)
    axes.set_yscale("log")
    ticks = [FLOOR, *(10**power for power in range(5))]
    axes.set_yticks(ticks, ["none", *(f"{rows:,}" for rows in ticks[1:])])
    axes.minorticks_off()
    axes.set_ylim(FLOOR * 0.8, None)
    axes.set_xlabel("steps of training")
    axes.set_ylabel("wrong")
    axes.legend()
    return figure, table


@style.use_style
def draw_verdicts(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw for each seed the least lead of the right token, and the least lead after rounding."""
    table = tables["certificates"]
    rows = load.list_rows(table)[::-1]
    figure, axes = plt.subplots(figsize=(7.4, 0.8 + 0.42 * len(rows)), layout="constrained")
    for at, row in enumerate(rows):
        seeds = table[table["row"] == row]
        height = at + np.linspace(-0.25, 0.25, len(seeds)) if len(seeds) > 1 else np.array([at])
        for y, seed in zip(height, seeds.itertuples(), strict=True):
            color = COLORS[seed.verdict]
            # A lead or slack that is not positive is drawn at the edge.
            lead, slack = max(seed.least_lead, LEFT), max(seed.least_slack, LEFT)
            axes.plot([slack, lead], [y, y], color=color, linewidth=0.8, alpha=0.6)
            axes.plot(slack, y, "|", color="#555555", markersize=6)
            axes.plot(lead, y, "o" if seed.least_lead > 0 else "<", color=color, markersize=4)
    contexts = table.groupby("row")["contexts"].max()
    labels = [f"{name_certified_row(row)}\n{int(contexts[row]):,} contexts" for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_xscale("log")
    axes.set_xlim(LEFT, None)
    axes.set_xlabel("lead of the right token over every other token (logits), over all contexts")
    kinds = [kind for kind in VERDICTS if (table["verdict"] == kind).any()]
    for kind in kinds:
        axes.plot([], [], "o", color=COLORS[kind], markersize=4, label=VERDICTS[kind])
    axes.plot([], [], "|", color="#555555", label="least lead minus bound on rounding")
    figure.legend(loc="outside upper center", ncols=min(3, len(kinds) + 1))
    return figure, table


@style.use_style
def draw_window_limits(tables: load.ResultTables) -> tuple[Figure, pd.DataFrame]:
    """Draw for which windows two problems share a context but continue differently."""
    table = tables["limits"]
    cases, windows = list(table["case"].unique()), sorted(table["window"].unique())
    size = (3.6 + 1.15 * len(windows), 0.9 + 0.32 * len(cases))
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    for case in table.itertuples():
        x, y = windows.index(case.window), cases.index(case.case)
        shared = isinstance(case.context, str)
        color = CONFLICT if shared else DISTINCT
        axes.add_patch(plt.Rectangle((x - 0.48, y - 0.44), 0.96, 0.88, color=color, linewidth=0))
        text = _short(case.context) if shared else f"{case.contexts:,.0f}"
        axes.text(x, y, text, ha="center", va="center", fontsize="x-small", color="#222222")
    axes.set_xlim(-0.5, len(windows) - 0.5)
    axes.set_ylim(len(cases) - 0.5, -0.5)
    axes.set_xticks(range(len(windows)), windows)
    axes.set_yticks(range(len(cases)), cases)
    axes.set_xlabel("window: visible places and rows on each side")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    for color, label in ((CONFLICT, "undetermined: one context, two next tokens"),
                         (DISTINCT, "number of contexts, each with one next token")):  # fmt: skip
        axes.plot([], [], "s", color=color, markersize=9, label=label)
    figure.legend(loc="outside upper center", ncols=2)
    return figure, table


def _short(context: str, most: int = 12) -> str:
    return context if len(context) <= most else f"{context[: most - 1]}…"


def name_certified_row(row: str) -> str:
    """Return the name of a certified row's task and part.

    >>> name_certified_row("multi_operand_addition_relative_scratchpad")
    'Multi operand addition'
    >>> name_certified_row("addition_line_rows_relative")
    'Addition, line rows'
    """
    task = style.find_task_name(row)
    part = [word for word in row.removeprefix(task).split("_") if word not in SHARED_WORDS]
    return ", ".join([task.replace("_", " ").capitalize(), *[" ".join(part)] * bool(part)])


NOTEBOOKS = {
    "is_it_proved": (
        "Is it proved?",
        {
            "contexts_over_training": Entry(
                "Wrong contexts over training",
                "Number of contexts of a sum in which the model is wrong, by step of training, and "
                "number of wrong answers to random sums of trained lengths. Thin lines are seeds, "
                "thick ones their median.",
                draw_wrong_contexts,
                rows=(("addition_relative",),),
                table="learned",
                profile="full",
            ),
            "certificates": Entry(
                "Certificates",
                "The smallest lead of the right token over all contexts, and the smallest lead "
                "minus the bound on float32 rounding in the same context, which must be positive; "
                "a line for each seed.",
                draw_verdicts,
            ),
        },
    ),
    "where_does_it_end": (
        "Where does it end?",
        {
            "limits": Entry(
                "What no window can decide",
                "For tasks and formats by window (places and rows on each side): a context that "
                "two problems share but continue differently, so that no model with it is "
                "right on both; or the number of contexts of all tried problems without conflict.",
                draw_window_limits,
            ),
            "lines": Entry(
                "Sums inside a line of other text",
                "Accuracy on the last sum of a line, by the amount of text before it and by the "
                "number of sums; dotted where training has one sum or two. Thin lines are seeds, "
                "thick ones their median.",
                lines.draw_accuracy_in_lines,
                rows=(tuple(lines.ROWS),),
                table="lines",
                profile="full",
            ),
        },
    ),
}
