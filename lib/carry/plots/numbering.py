"""How each scheme numbers a problem, drawn from the code that models are trained with."""

from __future__ import annotations

from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from carry import formats, positions, tasks
from carry.plots import style
from carry.randomness import stream

# title, ids, settings of the scheme, settings of the format, whether ids are drawn as in training
DRAWN: list[tuple[str, str, dict[str, Any], dict[str, Any], bool]] = [
    ("index: plain order", "index", {}, {}, False),
    ("randomized: an ordered draw from 1 to 40", "randomized", {"range": 40}, {}, True),
    ("abacus: order inside each number", "abacus", {}, {}, False),
    ("abacus in training: from a drawn start", "abacus", {"offset": 25}, {}, True),
    (
        "coupled: powers of ten, + and = tied to them",
        "coupled",
        {},
        {"pad": True, "reverse_operands": False},
        False,
    ),
]

# Of each task with steps: what it is written with, and what is coupled at each level.
STEPS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "parity": ({"reverse_operands": True}, ["bit of the string and of its parities"]),
    "multi_operand_addition": ({}, ["place", "operand, and the sum that it is added to"]),
    "multiplication": (
        {},
        [
            "place in the first number, and in its products",
            "digit of the second number, and what is made with it",
            "place in the answer",
        ],
    ),
}


@style.styled
def of_a_sum(
    a: int = 653, b: int = 49, schemes: tuple[str, ...] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw one sum as each scheme sees it: tokens above, ids below, one colour for each id.

    Args:
        a, b: the operands.
        schemes: which of them to draw; all of them if not given.
    """
    strips = [strip for strip in DRAWN if schemes is None or strip[1] in schemes]
    task = tasks.build({"name": "addition"})
    problems = task.solve(*tasks.to_digits([[a, b]]))
    parts = []
    for title, ids, given, spelling, train in strips:
        batch = formats.build(spelling, task).write(problems)
        scheme = positions.choose(ids)(**given)
        drawn = scheme.train_ids(batch, stream(0, "figures", ids)) if train else scheme.ids(batch)
        part = {
            "title": title,
            "scheme": ids,
            "token": list(formats.text(batch.tokens[0])),
            "id": drawn.expand(1, -1)[0].tolist(),
            "number": batch.number[0].tolist(),
            "place": batch.place[0].tolist(),
        }
        parts.append(pd.DataFrame(part).rename_axis("at").reset_index())
    table = pd.concat(parts, ignore_index=True)
    widest = int(table["at"].max()) + 1
    figure, drawn = style.panels(len(strips), 1, (0.42 * widest + 0.2, 1.15))
    for axes, (title, *_) in zip(drawn, strips, strict=True):
        _strip(axes, table[table["title"] == title], widest)
        axes.set_title(title, loc="left", fontsize="medium")
    return figure, table


@style.styled
def of_steps(task: str, *operands: str | int, start: int = 1) -> tuple[Figure, pd.DataFrame]:
    """Draw one problem with its steps, coupled: tokens above, below them the ids of each level.

    Equal ids of a level have equal colours; what a level does not count has id 0.

    Args:
        task: one of those that have steps.
        operands: what is asked.
        start: the first id of all levels.
    """
    given, titles = STEPS[task]
    made = tasks.build({"name": task})
    problems = made.solve(*tasks.to_digits([[*operands]]))
    batch = formats.build({"name": "scratchpad", **given}, made).write(problems)
    parts = []
    for level, title in enumerate(titles, start=1):
        ids = positions.choose("coupled")(level=level).ids(batch, start)
        part = {
            "level": level,
            "title": title,
            "token": list(formats.text(batch.tokens[0])),
            "id": ids[0].tolist(),
            "number": batch.number[0].tolist(),
            "place": batch.place[0].tolist(),
        }
        parts.append(pd.DataFrame(part).rename_axis("at").reset_index())
    table = pd.concat(parts, ignore_index=True)
    width = int(table["at"].max()) + 1
    figure, drawn = style.panels(len(titles), 1, (max(3.4, 0.24 * width + 0.2), 0.95))
    for axes, (level, part) in zip(drawn, table.groupby("level"), strict=True):
        _strip(axes, part, width, small=True)
        title = f"level {level}: {part['title'].iloc[0]}"
        axes.set_title(title, loc="left", fontsize="small")
    return figure, table


@style.styled
def of_lengths(
    trained: tuple[int, ...] = (1, 2, 3),
    sums: tuple[tuple[int, int], ...] = ((123, 456), (1234, 5678)),
) -> tuple[Figure, pd.DataFrame]:
    """Draw sums in plain order, and frame what no sum of the trained lengths has at that id.

    What stands at an id is a sign, or a place of one of the three numbers.

    Args:
        trained: lengths of both operands that are known.
        sums: those to draw.
    """
    # Without a carry out of the highest place, and with one.
    ends = [_plain(of, of) for length in trained for of in (10 ** (length - 1), 10**length - 1)]
    marks = ["id", "number", "place", "sign"]
    known = set(pd.concat(ends)[marks].itertuples(index=False, name=None))
    parts = [_plain(*of).assign(sum=f"{of[0]} + {of[1]}") for of in sums]
    table = pd.concat(parts, ignore_index=True)
    met = {of[0] for of in known}
    table["new"] = [
        "nothing" if of in known else "meaning" if of[0] in met else "id"
        for of in table[marks].itertuples(index=False, name=None)
    ]
    widest = int(table["at"].max()) + 1
    figure, drawn = style.panels(len(sums), 1, (0.42 * widest + 0.2, 1.15))
    for axes, (told, part) in zip(drawn, table.groupby("sum", sort=False), strict=True):
        _strip(axes, part, widest)
        for at, new in part[["at", "new"]].itertuples(index=False):
            if new != "nothing":
                _frame(axes, at, "-" if new == "id" else (0, (2.4, 1.6)))
        digits = len(told.split(" ")[0])
        kind = "trained" if digits in trained else "never trained"
        axes.set_title(f"{digits} digits: {kind}", loc="left", fontsize="medium")
    return figure, table


def _frame(axes: Axes, at: int, dashes: str | tuple) -> None:
    """Frame a cell, so that it is seen on dark and on light."""
    for color, line in (("white", "-"), ("#D00000", dashes)):
        frame = {"fill": False, "edgecolor": color, "linestyle": line, "linewidth": 2.2}
        axes.add_patch(Rectangle((at + 0.04, 0.04), 0.86, 0.82, **frame))


def _plain(*operands: int) -> pd.DataFrame:
    """Return the tokens of a sum in the thesis's own spelling, with plain ids."""
    task = tasks.build({"name": "addition"})
    spelling = {"begin": "$", "reverse_operands": False, "reverse_answer": False}
    batch = formats.build(spelling, task).write(task.solve(*tasks.to_digits([[*operands]])))
    token = list(formats.text(batch.tokens[0]))
    part = {
        "token": token,
        "id": positions.choose("index")().ids(batch).expand(1, -1)[0].tolist(),
        "number": batch.number[0].tolist(),
        "place": batch.place[0].tolist(),
        "sign": ["digit" if of.isdigit() else of for of in token],
    }
    return pd.DataFrame(part).rename_axis("at").reset_index()


def _strip(axes: Axes, part: pd.DataFrame, width: int, small: bool = False) -> None:
    """Draw the cells of one numbering; id 0, which says nothing of place, stays white."""
    order = sorted(set(part["id"]) - {0})
    colors = matplotlib.colormaps["viridis"]
    sizes = {"size": 7} if small else {}
    for at, token, id_ in zip(part["at"], part["token"], part["id"], strict=True):
        share = 0.08 + 0.84 * order.index(id_) / max(1, len(order) - 1) if id_ else None
        face = "white" if share is None else colors(share)
        text = "#222222" if share is None or share > 0.55 else "white"
        axes.add_patch(Rectangle((at, 0), 0.94, 0.9, facecolor=face, edgecolor="#999999", lw=0.6))
        axes.text(at + 0.47, 0.45, str(id_), ha="center", va="center", color=text, **sizes)
        axes.text(
            at + 0.47, 1.35, token, ha="center", va="center", family="monospace",
            size=9 if small else 13,
        )  # fmt: skip
    axes.set(xlim=(-0.05, width), ylim=(-0.05, 1.8))
    axes.axis("off")
