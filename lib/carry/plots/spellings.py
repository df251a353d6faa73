"""One sum in every spelling, written by the formats that models are trained with."""

from __future__ import annotations

import textwrap
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from carry import formats, tasks
from carry.plots import style

# What a spelling is called, and the settings of its format (ibrahimli2024, Table 4.1).
PLAIN = {"begin": "$", "reverse_operands": False, "reverse_answer": False}
SPELLINGS: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "zeros in front, to 5": {**PLAIN, "pad_to": 5},
    "operands reversed": {**PLAIN, "reverse_operands": True},
    "answer reversed": {**PLAIN, "reverse_answer": True},
    "operands and answer reversed": {"begin": "$"},
    "random spaces": {**PLAIN, "spaces": 0.5},
    "steps in words": {"name": "worded", "begin": "$"},
    "a part of the work behind its prefix": {"name": "sub_task", "prefix": "rev"},
}
WIDTH = 60


@style.styled
def of_a_sum(a: int = 123, b: int = 456) -> tuple[Figure, pd.DataFrame]:
    """Draw a table of one sum in every spelling, a line each; long ones go on in the next."""
    task = tasks.build({"name": "addition"})
    problems = task.solve(*tasks.to_digits([[a, b]]))
    # The spaces of a problem are drawn for its label; this one has some.
    problems.label.fill_(3)
    texts = {
        name: formats.text(formats.build(given, task).write(problems).tokens[0])
        for name, given in SPELLINGS.items()
    }
    table = pd.DataFrame({"spelling": texts.keys(), "text": texts.values()})
    lines = [textwrap.wrap(text, WIDTH, drop_whitespace=False) for text in table["text"]]
    count = sum(map(len, lines)) + 1
    figure, (axes,) = style.panels(1, 1, (8.4, 0.25 * count + 0.1))
    at = 0.0
    for name, text in zip(table["spelling"], lines, strict=True):
        axes.axhline(at - 0.5, color="#DDDDDD", linewidth=0.7)
        axes.text(0, at, name, va="center", fontsize="medium")
        for line in text:
            look = {"va": "center", "family": "monospace", "fontsize": "medium"}
            axes.text(0.36, at, line, parse_math=False, **look)  # a `$` is a `$`
            at += 1
    axes.set(xlim=(0, 1), ylim=(at - 0.4, -0.6))
    axes.axis("off")
    return figure, table
