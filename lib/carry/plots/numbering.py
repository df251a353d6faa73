"""Ids of tokens in each position scheme, from the code that trains the models."""

from __future__ import annotations

from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from carry import formats, positions, tasks
from carry.data.batch import Batch
from carry.evaluation.ask import make_problem
from carry.plots import style
from carry.randomness import stream

# By title: the scheme, its settings and those of the format. Schemes with settings are drawn as in
# training, with random ids.
NUMBERINGS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "index: plain order": ("index", {}, {}),
    "restarted: plain order, again from 0 in the answer": ("restarted", {}, {}),
    "randomized: an ordered draw from 1 to 40": ("randomized", {"range": 40}, {}),
    "abacus: order inside each number": ("abacus", {}, {}),
    "abacus in training: from a random start": ("abacus", {"offset": 25}, {}),
    "coupled: powers of ten, + and = coupled to them":
        ("coupled", {}, {"pad": True, "reverse_operands": False}),
}  # fmt: skip

# For each task with steps: the settings of its format, and the meaning of each level of ids.
SCRATCHPADS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "parity": ({"reverse_operands": True}, ["bit of the string and of its parities"]),
    "multi_operand_addition": ({}, ["place", "operand, and the sum to which it is added"]),
    "multiplication": ({}, ["place in the first number, and in its products",
                            "digit of the second number, and its product", "place in the answer"]),
}  # fmt: skip


def draw_ids_of_sum(
    a: int = 653, b: int = 49, schemes: tuple[str, ...] | None = None
) -> tuple[Figure, pd.DataFrame]:
    """Draw a sum with the ids of some schemes, or of all: tokens above, ids below in colours."""
    parts = []
    for title, (name, settings, form) in NUMBERINGS.items():
        if schemes is None or name in schemes:
            scheme = positions.choose_scheme(name)(**settings)
            batch, generator = _write("addition", form, a, b), stream(0, "figures", name)
            ids = scheme.train_ids(batch, generator) if settings else scheme.ids(batch)
            parts.append(_make_token_table(batch, ids).assign(title=title, scheme=name))
    table = pd.concat(parts, ignore_index=True)
    return _draw_strips(table, "title")[0], table


def draw_ids_of_scratchpad(task: str, *operands: str | int) -> tuple[Figure, pd.DataFrame]:
    """Draw one problem of a task with its steps, with the coupled ids of each level.

    Equal ids of a level have one colour; tokens that a level does not count have id 0.
    """
    settings, titles = SCRATCHPADS[task]
    batch = _write(task, {"name": "scratchpad", **settings}, *operands)
    parts = []
    for level, title in enumerate(titles, start=1):
        ids = positions.choose_scheme("coupled")(level=level).ids(batch)
        part = _make_token_table(batch, ids)
        parts.append(part.assign(level=level, title=f"level {level}: {title}"))
    table = pd.concat(parts, ignore_index=True)
    return _draw_strips(table, "title", small=True)[0], table


def draw_ids_beyond_training(
    trained: tuple[int, ...] = (1, 2, 3),
    sums: tuple[tuple[int, int], ...] = ((123, 456), (1234, 5678)),
) -> tuple[Figure, pd.DataFrame]:
    """Draw sums in plain order, and frame tokens that training to given lengths never shows.

    A token is a sign, or a place of one of the three numbers. Its id may be new, or known with
    another meaning.
    """
    # Without a carry out of the highest place, and with one.
    operands = [number for length in trained for number in (10 ** (length - 1), 10**length - 1)]
    trained_tokens = pd.concat([_number_plainly(number, number) for number in operands])
    marks = ["id", "number", "place", "sign"]
    trained_marks = set(trained_tokens[marks].itertuples(index=False, name=None))
    parts = []
    for a, b in sums:
        digits = len(str(a))
        title = f"{digits} digits: {'trained' if digits in trained else 'never trained'}"
        parts.append(_number_plainly(a, b).assign(sum=f"{a} + {b}", title=title))
    table = pd.concat(parts, ignore_index=True)
    known_id = table["id"].isin(trained_tokens["id"])
    known = [mark in trained_marks for mark in table[marks].itertuples(index=False, name=None)]
    table["new"] = np.select([known, known_id], ["nothing", "meaning"], "id")
    figure, panels = _draw_strips(table, "sum")
    for axes, (_, part) in zip(panels, table.groupby("sum", sort=False), strict=True):
        for token in part[part["new"] != "nothing"].itertuples():
            dashes = "-" if token.new == "id" else (0, (2.4, 1.6))
            style.draw_frame(axes, (token.at + 0.04, 0.04), 0.86, 0.82, dashes, lw=2.2)
    return figure, table


def _write(task: str, form: dict[str, Any], *operands: str | int) -> Batch:
    """Return one problem of a task in a format."""
    solver = tasks.build_task({"name": task})
    return formats.build_format(form, solver).write(make_problem(solver, operands))


def _number_plainly(*operands: int) -> pd.DataFrame:
    """Return the tokens of a sum in the format of ibrahimli2024, with ids in plain order."""
    form = {"begin": "$", "reverse_operands": False, "reverse_answer": False}
    batch = _write("addition", form, *operands)
    table = _make_token_table(batch, positions.choose_scheme("index")().ids(batch))
    return table.assign(sign=table["token"].where(~table["token"].str.isdigit(), "digit"))


def _make_token_table(batch: Batch, ids: Tensor) -> pd.DataFrame:
    """Return the tokens of the first problem of a batch with their marks and given ids."""
    columns = {"token": list(formats.to_text(batch.tokens[0])), "id": ids.expand(1, -1)[0].tolist()}
    marks = {"number": batch.number[0].tolist(), "place": batch.place[0].tolist()}
    return pd.DataFrame(columns | marks).rename_axis("at").reset_index()


def _draw_strips(table: pd.DataFrame, by: str, small: bool = False) -> tuple[Figure, list[Axes]]:
    """Draw a panel for each value of a column; id 0, of tokens without a place, is white."""
    width, colors = int(table["at"].max()) + 1, matplotlib.colormaps["viridis"]
    inches, high = (max(3.4, 0.24 * width + 0.2), 0.95) if small else (0.42 * width + 0.2, 1.15)
    count = table[by].nunique()
    size = {"figsize": (inches, high * count), "squeeze": False, "layout": "constrained"}
    figure, grid = plt.subplots(count, 1, **size)
    panels = list(grid.flat)
    font = {"family": "monospace", "size": 9 if small else 13, "ha": "center", "va": "center"}
    for axes, (_, part) in zip(panels, table.groupby(by, sort=False), strict=True):
        order = sorted(set(part["id"]) - {0})
        for token in part.itertuples():
            share = 0.08 + 0.84 * order.index(token.id) / max(1, len(order) - 1) if token.id else 1
            box = {"fc": colors(share) if token.id else "white", "ec": "#999999", "lw": 0.6}
            axes.add_patch(Rectangle((token.at, 0), 0.94, 0.9, **box))
            number = {"color": "#222222" if share > 0.55 else "white", "size": 7 if small else None}
            axes.text(token.at + 0.47, 0.45, token.id, ha="center", va="center", **number)
            axes.text(token.at + 0.47, 1.35, token.token, **font)
        axes.set(xlim=(-0.05, width), ylim=(-0.05, 1.8))
        axes.axis("off")
        axes.set_title(part["title"].iloc[0], loc="left", fontsize="small" if small else "medium")
    return figure, panels
