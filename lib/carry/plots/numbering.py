"""Ids of tokens in each position scheme, from the code that trains the models."""

from __future__ import annotations

from typing import Any, NamedTuple

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from carry import formats, positions, tasks
from carry.data.batch import Batch
from carry.plots import style
from carry.randomness import stream


class Numbering(NamedTuple):
    """A position scheme of a figure, with settings for itself and for the format.

    `training`: ids are drawn at random, as in training.
    """

    title: str
    ids: str
    scheme_settings: dict[str, Any] = {}
    format_settings: dict[str, Any] = {}
    training: bool = False


NUMBERINGS = [
    Numbering("index: plain order", "index"),
    Numbering(
        "randomized: an ordered draw from 1 to 40", "randomized", {"range": 40}, training=True
    ),
    Numbering("abacus: order inside each number", "abacus"),
    Numbering("abacus in training: from a random start", "abacus", {"offset": 25}, training=True),
    Numbering(
        "coupled: powers of ten, + and = coupled to them",
        "coupled",
        format_settings={"pad": True, "reverse_operands": False},
    ),
]

# For each task with steps: the settings of its format, and the meaning of each level of ids.
SCRATCHPADS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "parity": ({"reverse_operands": True}, ["bit of the string and of its parities"]),
    "multi_operand_addition": ({}, ["place", "operand, and the sum to which it is added"]),
    "multiplication": (
        {},
        [
            "place in the first number, and in its products",
            "digit of the second number, and its product",
            "place in the answer",
        ],
    ),
}


@style.use_style
def draw_ids_of_sum(
    a: int = 653, b: int = 49, schemes: tuple[str, ...] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw one sum with the ids of each scheme: tokens above, ids below, one colour for each id.

    Args:
        a, b: the operands.
        schemes: names of the schemes; by default all.
    """
    numberings = [entry for entry in NUMBERINGS if schemes is None or entry.ids in schemes]
    task = tasks.build_task({"name": "addition"})
    problems = task.solve(*tasks.to_digits([[a, b]]))
    parts = []
    for entry in numberings:
        batch = formats.build_format(entry.format_settings, task).write(problems)
        scheme = positions.choose_scheme(entry.ids)(**entry.scheme_settings)
        generator = stream(0, "figures", entry.ids)
        ids = scheme.train_ids(batch, generator) if entry.training else scheme.ids(batch)
        part = _make_token_table(batch, ids.expand(1, -1)[0].tolist())
        parts.append(part.assign(title=entry.title, scheme=entry.ids))
    table = pd.concat(parts, ignore_index=True)
    columns = ["at", "title", "scheme", "token", "id", "number", "place"]
    width = int(table["at"].max()) + 1
    figure, panels = style.make_panels(len(numberings), 1, (0.42 * width + 0.2, 1.15))
    for axes, entry in zip(panels, numberings, strict=True):
        _draw_strip(axes, table[table["title"] == entry.title], width)
        axes.set_title(entry.title, loc="left", fontsize="medium")
    return figure, table[columns]


@style.use_style
def draw_ids_of_scratchpad(
    task: str, *operands: str | int, start: int = 1
) -> tuple[Figure, pd.DataFrame]:
    """Draw one problem with its steps, coupled: tokens above, below them the ids of each level.

    Equal ids of a level have one colour; tokens that a level does not count have id 0.

    Args:
        task: the name of a task with steps.
        operands: the operands of the problem.
        start: the first id of all levels.
    """
    settings, titles = SCRATCHPADS[task]
    solver = tasks.build_task({"name": task})
    problems = solver.solve(*tasks.to_digits([[*operands]]))
    batch = formats.build_format({"name": "scratchpad", **settings}, solver).write(problems)
    parts = []
    for level, title in enumerate(titles, start=1):
        ids = positions.choose_scheme("coupled")(level=level).ids(batch, start)
        part = _make_token_table(batch, ids[0].tolist())
        parts.append(part.assign(level=level, title=title))
    table = pd.concat(parts, ignore_index=True)
    width = int(table["at"].max()) + 1
    figure, panels = style.make_panels(len(titles), 1, (max(3.4, 0.24 * width + 0.2), 0.95))
    for axes, (level, part) in zip(panels, table.groupby("level"), strict=True):
        _draw_strip(axes, part, width, small=True)
        title = f"level {level}: {part['title'].iloc[0]}"
        axes.set_title(title, loc="left", fontsize="small")
    return figure, table[["at", "level", "title", "token", "id", "number", "place"]]


@style.use_style
def draw_ids_beyond_training(
    trained: tuple[int, ...] = (1, 2, 3),
    sums: tuple[tuple[int, int], ...] = ((123, 456), (1234, 5678)),
) -> tuple[Figure, pd.DataFrame]:
    """Draw sums in plain order, and frame tokens that training never shows at their id.

    A token is a sign, or a place of one of the three numbers.

    Args:
        trained: trained lengths of both operands.
        sums: the sums to draw.
    """
    # Without a carry out of the highest place, and with one.
    ends = [
        _number_plainly(operand, operand)
        for length in trained
        for operand in (10 ** (length - 1), 10**length - 1)
    ]
    marks = ["id", "number", "place", "sign"]
    trained_marks = set(pd.concat(ends)[marks].itertuples(index=False, name=None))
    trained_ids = {mark[0] for mark in trained_marks}
    parts = [_number_plainly(a, b).assign(sum=f"{a} + {b}") for a, b in sums]
    table = pd.concat(parts, ignore_index=True)
    table["new"] = [
        "nothing" if mark in trained_marks else "meaning" if mark[0] in trained_ids else "id"
        for mark in table[marks].itertuples(index=False, name=None)
    ]
    width = int(table["at"].max()) + 1
    figure, panels = style.make_panels(len(sums), 1, (0.42 * width + 0.2, 1.15))
    for axes, (_, part), (a, _) in zip(panels, table.groupby("sum", sort=False), sums, strict=True):
        _draw_strip(axes, part, width)
        for at, new in part[["at", "new"]].itertuples(index=False):
            if new != "nothing":
                _draw_frame(axes, at, "-" if new == "id" else (0, (2.4, 1.6)))
        digits = len(str(a))
        kind = "trained" if digits in trained else "never trained"
        axes.set_title(f"{digits} digits: {kind}", loc="left", fontsize="medium")
    return figure, table


def _make_token_table(batch: Batch, ids: list[int]) -> pd.DataFrame:
    """Return the tokens of the first problem of a batch with their marks and given ids."""
    columns = {
        "token": list(formats.to_text(batch.tokens[0])),
        "id": ids,
        "number": batch.number[0].tolist(),
        "place": batch.place[0].tolist(),
    }
    return pd.DataFrame(columns).rename_axis("at").reset_index()


def _draw_frame(axes: Axes, at: int, dashes: str | tuple) -> None:
    """Frame a cell, visibly on dark and on light."""
    for color, line in (("white", "-"), ("#D00000", dashes)):
        frame = {"fill": False, "edgecolor": color, "linestyle": line, "linewidth": 2.2}
        axes.add_patch(Rectangle((at + 0.04, 0.04), 0.86, 0.82, **frame))


def _number_plainly(*operands: int) -> pd.DataFrame:
    """Return the tokens of a sum in the format of ibrahimli2024, with ids in plain order."""
    task = tasks.build_task({"name": "addition"})
    settings = {"begin": "$", "reverse_operands": False, "reverse_answer": False}
    problems = task.solve(*tasks.to_digits([[*operands]]))
    batch = formats.build_format(settings, task).write(problems)
    ids = positions.choose_scheme("index")().ids(batch).expand(1, -1)[0].tolist()
    table = _make_token_table(batch, ids)
    return table.assign(sign=["digit" if token.isdigit() else token for token in table["token"]])


def _draw_strip(axes: Axes, part: pd.DataFrame, width: int, small: bool = False) -> None:
    """Draw the cells of one numbering; id 0, of tokens without a place, is white."""
    order = sorted(set(part["id"]) - {0})
    colors = matplotlib.colormaps["viridis"]
    sizes = {"size": 7} if small else {}
    font = {"family": "monospace", "size": 9 if small else 13}
    for at, token, id_ in zip(part["at"], part["token"], part["id"], strict=True):
        share = 0.08 + 0.84 * order.index(id_) / max(1, len(order) - 1) if id_ else None
        face = "white" if share is None else colors(share)
        text = "#222222" if share is None or share > 0.55 else "white"
        axes.add_patch(Rectangle((at, 0), 0.94, 0.9, facecolor=face, edgecolor="#999999", lw=0.6))
        axes.text(at + 0.47, 0.45, str(id_), ha="center", va="center", color=text, **sizes)
        axes.text(at + 0.47, 1.35, token, ha="center", va="center", **font)
    axes.set(xlim=(-0.05, width), ylim=(-0.05, 1.8))
    axes.axis("off")
