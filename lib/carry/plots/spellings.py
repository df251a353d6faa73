"""One sum in the formats of training."""

from __future__ import annotations

import textwrap
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from carry import formats, tasks
from carry.plots import style

# Settings of formats, by title (ibrahimli2024, Table 4.1).
PLAIN = {"begin": "$", "reverse_operands": False, "reverse_answer": False}
FORMATS: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "leading zeros, to 5 digits": {**PLAIN, "pad_to": 5},
    "operands reversed": {**PLAIN, "reverse_operands": True},
    "answer reversed": {**PLAIN, "reverse_answer": True},
    "operands and answer reversed": {"begin": "$"},
    "random spaces": {**PLAIN, "spaces": 0.5},
    "steps in words": {"name": "worded", "begin": "$"},
    "a sub-task after its prefix": {"name": "sub_task", "prefix": "rev"},
}
WIDTH = 60


@style.use_style
def draw_sum_in_formats(a: int = 123, b: int = 456) -> tuple[Figure, pd.DataFrame]:
    """Draw a table of one sum in every format; long texts continue in the next line."""
    task = tasks.build_task({"name": "addition"})
    problems = task.solve(*tasks.to_digits([[a, b]]))
    problems.label.fill_(3)  # random spaces depend on the label; this one gives spaces
    texts = {
        name: formats.to_text(formats.build_format(settings, task).write(problems).tokens[0])
        for name, settings in FORMATS.items()
    }
    table = pd.DataFrame({"spelling": texts.keys(), "text": texts.values()})
    lines = [textwrap.wrap(text, WIDTH, drop_whitespace=False) for text in table["text"]]
    count = sum(map(len, lines)) + 1
    figure, (axes,) = style.make_panels(1, 1, (8.4, 0.25 * count + 0.1))
    height = 0.0
    for name, text in zip(table["spelling"], lines, strict=True):
        axes.axhline(height - 0.5, color="#DDDDDD", linewidth=0.7)
        axes.text(0, height, name, va="center", fontsize="medium")
        for line in text:
            font = {"va": "center", "family": "monospace", "fontsize": "medium"}
            axes.text(0.36, height, line, parse_math=False, **font)  # `$` is not for math
            height += 1
    axes.set(xlim=(0, 1), ylim=(height - 0.4, -0.6))
    axes.axis("off")
    return figure, table
