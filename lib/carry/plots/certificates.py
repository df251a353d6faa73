"""What is proved, and how far from a proof models are on their way: contexts that are wrong."""

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
SHARED, APART = "#F0B9A0", "#BFE3D5"
LEFT = 0.004  # of an axis of leads
SHARED_WORDS = ("", "relative", "scratchpad")  # of all rows that are certified
FLOOR = 0.5  # where none is wrong, on a log axis


@style.styled
def over_training(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw how many contexts are wrong over training, and how many of 1,000 random sums."""
    table = tables.learned.assign(wrong_problems=lambda of: of["n"] - of["exact"])
    figure, (axes,) = style.panels(1, 1, (6.2, 3.4))
    for column, color, label in (
        ("wrong", WRONG, f"of {int(table['contexts'].max()):,} contexts"),
        ("wrong_problems", SUMS, f"of {int(table['n'].max()):,} random problems"),
    ):
        wide = table.pivot(index="step", columns="seed", values=column).clip(lower=FLOOR)
        axes.plot(wide, color=color, linewidth=0.7, alpha=0.5)
        axes.plot(wide.median(axis=1), color=color, linewidth=2.2, label=label)
    axes.set_yscale("log")
    ticks = [FLOOR, *(10**power for power in range(5))]
    axes.set_yticks(ticks, ["none", *(f"{of:,}" for of in ticks[1:])])
    axes.minorticks_off()
    axes.set_ylim(FLOOR * 0.8, None)
    axes.set_xlabel("steps of training")
    axes.set_ylabel("wrong")
    axes.legend()
    return figure, table


@style.styled
def verdicts(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw by how much the right token leads in the closest context, and what rounding may do."""
    table = tables.certificates
    rows = load.rows(table)[::-1]
    figure, axes = plt.subplots(figsize=(7.4, 0.8 + 0.42 * len(rows)), layout="constrained")
    for at, row in enumerate(rows):
        own = table[table["row"] == row]
        height = at + np.linspace(-0.25, 0.25, len(own)) if len(own) > 1 else np.array([at])
        for y, of in zip(height, own.itertuples(), strict=True):
            color = COLORS[of.verdict]
            ends = [of.error, max(of.margin, LEFT)]
            axes.plot(ends, [y, y], color=color, linewidth=0.8, alpha=0.6)
            axes.plot(of.error, y, "|", color="#555555", markersize=6)
            end = max(of.margin, 0.0)  # where another token leads, it stands on the edge
            axes.plot(end if end else LEFT, y, "o" if end else "<", color=color, markersize=4)
    labels = [f"{named(row)}\n{int(table.loc[table['row'] == row, 'contexts'].max()):,} contexts"
              for row in rows]  # fmt: skip
    axes.set_yticks(range(len(rows)), labels)
    axes.set_xscale("log")
    axes.set_xlim(LEFT, None)
    axes.set_xlabel("lead of the right token over the next (logits), and what rounding may change")
    kinds = [kind for kind in VERDICTS if (table["verdict"] == kind).any()]
    for kind in kinds:
        axes.plot([], [], "o", color=COLORS[kind], markersize=4, label=VERDICTS[kind])
    axes.plot([], [], "|", color="#555555", label="bound on rounding")
    figure.legend(loc="outside upper center", ncols=min(3, len(kinds) + 1))
    return figure, table


@style.styled
def limits(tables: load.Tables) -> tuple[Figure, pd.DataFrame]:
    """Draw for which windows two problems share a context and go on differently."""
    table = tables.limits
    cases, windows = list(table["case"].unique()), sorted(table["window"].unique())
    size = (3.6 + 1.15 * len(windows), 0.9 + 0.32 * len(cases))
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    for of in table.itertuples():
        x, y = windows.index(of.window), cases.index(of.case)
        shared = isinstance(of.context, str)
        color = SHARED if shared else APART
        axes.add_patch(plt.Rectangle((x - 0.48, y - 0.44), 0.96, 0.88, color=color, linewidth=0))
        text = _short(of.context) if shared else f"{of.contexts:,.0f}"
        axes.text(x, y, text, ha="center", va="center", fontsize="x-small", color="#222222")
    axes.set_xlim(-0.5, len(windows) - 0.5)
    axes.set_ylim(len(cases) - 0.5, -0.5)
    axes.set_xticks(range(len(windows)), windows)
    axes.set_yticks(range(len(cases)), cases)
    axes.set_xlabel("window: places, and rows, that are seen on each side")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    for color, label in ((SHARED, "undetermined: one context, two next tokens"),
                         (APART, "so many contexts, each with one next token")):  # fmt: skip
        axes.plot([], [], "s", color=color, markersize=9, label=label)
    figure.legend(loc="outside upper center", ncols=2)
    return figure, table


def _short(context: str, most: int = 12) -> str:
    return context if len(context) <= most else f"{context[: most - 1]}…"


def named(row: str) -> str:
    """Return a row's task in words.

    >>> named("multi_operand_addition_relative_scratchpad"), named("addition_line_rows_relative")
    ('Multi operand addition', 'Addition, line rows')
    """
    task = style.task(row)
    part = [word for word in row.removeprefix(task).split("_") if word not in SHARED_WORDS]
    return ", ".join([task.replace("_", " ").capitalize(), *[" ".join(part)] * bool(part)])


NOTEBOOKS = {
    "is_it_proved": (
        "Is it proved?",
        {
            "contexts_over_training": Entry(
                "Contexts that are wrong, over training",
                "Of all contexts of a sum, in how many the model is wrong after so many steps of "
                "training, and how many of as many random sums of trained lengths are wrong. Thin "
                "lines are seeds, thick ones their median.",
                over_training,
                rows=(("addition_relative",),),
                table="learned",
                profile="cpu",
            ),
            "certificates": Entry(
                "Certificates",
                "In the context where that is closest, by how much the right token leads, and how "
                "much of it rounding in float32 may change, at most; a line for each seed.",
                verdicts,
            ),
        },
    ),
    "where_does_it_end": (
        "Where does it end?",
        {
            "limits": Entry(
                "What no window can decide",
                "For tasks as they may be written, with windows of so many places (and rows) on "
                "each side: a context that two problems have in common and that goes on "
                "differently in them, so that no model with such a window is right on both; or in "
                "how many contexts of all problems that were tried no two did.",
                limits,
            ),
            "lines": Entry(
                "Sums inside a line of other text",
                "Accuracy on the last sum of a line, by how much text stands before it, and by how "
                "many sums there are; dotted where lines of training have one sum or two. Thin "
                "lines are seeds, thick ones their median.",
                lines.by_surroundings,
                rows=(tuple(lines.ROWS),),
                table="lines",
                profile="cpu",
            ),
        },
    ),
}
