"""Starts of ids in evaluation: the papers' start, and the mean over all.

Ids that stand for a place count from a start. Training draws it; the papers evaluate from id 1. The
row names its starts (`evaluation.starts`), and tables have their names in the column `start`:

    1, 2, ...   this id; 1 is the papers' protocol
    all         next-token probabilities averaged over all starts (`decoding.list_first_ids`)
    window      id 1, and attention only to ids as near as in problems of the trained lengths
                (`System.read_from`)

They are different protocols: a figure or a claim has one of them, or sets them side by side. A
problem too long for a start has the last one from which it fits. Ids that do not depend on a start,
or that no table limits, have the one start 1.

The first start of a row is scored on all problems. The others are scored on a fifth, and off the
grid on at least 20 of a cell (`choose_part`): a mean over starts needs a pass for each of them, of
which there are at most `decoding.MOST_STARTS`.
"""

from __future__ import annotations

import pandas as pd

PART = 5  # further starts are scored on one problem in PART
LEAST = 20  # problems of a cell off the grid, for further starts


def choose_part(questions: pd.DataFrame) -> pd.DataFrame:
    """Return the problems for further starts: a fifth of each cell, evenly, and at least one.

    Of cells of the grid with a single problem, a fifth is chosen. Off the grid, whose cells are
    pooled into regions, they are at least 20, or all if there are fewer.

    >>> table = pd.DataFrame({"set": "grid", "i": [1] * 10 + [2, 3], "j": 1})
    >>> choose_part(table).index.tolist()
    [0, 5, 11]
    >>> [len(choose_part(pd.DataFrame({"set": ["equal"] * n, "i": 1, "j": 1})))
    ...  for n in (9, 30, 200)]
    [9, 20, 40]
    """
    cells = questions.groupby(["set", "i", "j"])["set"]
    size, in_grid = cells.transform("size"), questions["set"] == "grid"
    least = size.clip(upper=LEAST).where(~in_grid, 1)
    wanted = (-(-size // PART)).clip(lower=least)
    # Each row and each column of the grid has a fifth of its cells.
    skipped = in_grid & (size == 1) & ((questions["i"] + 2 * questions["j"]) % PART > 0)
    return questions[(cells.cumcount() * wanted % size < wanted) & ~skipped]
