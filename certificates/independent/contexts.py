"""Contexts: what the windows of a row show in each step of its task.

A token sees itself, the first token, and earlier tokens that are inside the windows of all levels
that count both tokens, if there is such a level. One layer does not depend on the order of what it
sees. So a context is the token of the query, and a set of codes that may have equal members: each
code is a visible token, and which bias it has at each level.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from certificates.independent.rows import Refusal
from certificates.independent.tasks import SIGNS, Coordinates, Definition

TOKEN_CODES, COLUMNS = 128, 16  # codes fit 16 bits; rows of 16 codes are sorted as 4 integers

Relation = tuple[int, ...]  # the row of the biases of each level


class Contexts(NamedTuple):
    """All contexts of a task, each once."""

    query: np.ndarray  # [N]
    due: np.ndarray  # [N]
    codes: np.ndarray  # [N W]: TOKEN_CODES * relation + token, or -1
    relations: list[Relation]
    windows: list[tuple[int, int]]

    def describe(self, index: int) -> str:
        """Return the query of a context and what it sees, with ids relative to the query's."""
        words = []
        for code in self.codes[index][self.codes[index] >= 0].tolist():
            relation, token = divmod(code, TOKEN_CODES)
            clips = (1 + max(window) for window in self.windows)
            pairs = zip(clips, self.relations[relation], strict=True)
            ids = ",".join(f"{clip - at:+d}" if at <= 2 * clip else "." for clip, at in pairs)
            words.append(f"{SIGNS[token]}({ids})")
        return f"{SIGNS[self.query[index]]} that sees {' '.join(words)}"


def find_relation(
    definition: Definition, query: Coordinates, key: Coordinates, always: bool
) -> Relation | None:
    """Return the row of the biases that a visible key has at each level; None if it is hidden.

    Rows are the query's id less the key's, clipped one beyond the window; then follow an uncounted
    query, an uncounted key, and both. Abacus ids count everything: signs and the first token have
    the id below the lowest place.

    >>> from certificates.independent.tasks import Definition, parity
    >>> row = Definition(parity, {}, {}, [(0, 1)])
    >>> [find_relation(row, (3,), key, False) for key in ((3,), (4,), (2,), (None,))]
    [(2,), (1,), None, None]
    """
    rows, inside = [], []
    for level, (lower, upper) in enumerate(definition.windows):
        clip = 1 + max(lower, upper)
        ids = [at[level] if level < len(at) else None for at in (query, key)]
        if definition.ids == "abacus":
            ids = [-1 if at is None else at for at in ids]
        if None in ids:
            rows.append(2 * clip + (ids[0] is None) + 2 * (ids[1] is None))
        else:
            rows.append(min(max(ids[0] - ids[1], -clip), clip) + clip)
            inside.append(-lower <= ids[1] - ids[0] <= upper)
    return tuple(rows) if always or (inside and all(inside)) else None


def enumerate_contexts(definition: Definition) -> Contexts:
    """Return all contexts of a task.

    Raises:
        Refusal: if two different tokens are due in one context.

    >>> from certificates.independent.tasks import Definition, copying, parity
    >>> rows = [Definition(steps, {}, {}, [(0, 1)]) for steps in (copying, parity)]
    >>> [len(enumerate_contexts(row).due) for row in rows]
    [120, 14]
    """
    relations: dict[Relation, int] = {}
    parts = []
    for (query, at), due, cells, first in definition.steps():
        seen = [(query, at, True), (first, (), True)]
        columns = []
        for token, key, always in [*seen, *((*cell, False) for cell in cells)]:
            relation = find_relation(definition, at, key, always)
            if relation is not None:
                token = np.asarray(token, np.int16)
                code = relations.setdefault(relation, len(relations)) * TOKEN_CODES
                columns.append(np.where(token >= 0, code + token, np.int16(-1)))
        rows = np.full((len(query), COLUMNS), -1, "<i2")
        rows[:, 0], rows[:, 1] = due, query
        codes = np.stack([np.broadcast_to(column, len(query)) for column in columns], axis=1)
        rows[:, 2 : 2 + len(columns)] = -np.sort(-codes, axis=1)
        parts.append(_unique(rows[query >= 0]))
    rows = _unique(np.concatenate(parts))
    due, query, codes = rows[:, 0], rows[:, 1], rows[:, 2:]
    contexts = Contexts(query, due, codes[:, (codes >= 0).any(0)], [*relations], definition.windows)
    same = (rows[1:, 1:] == rows[:-1, 1:]).all(1)
    if same.any():
        where = contexts.describe(int(same.argmax()))
        raise Refusal(f"task: two tokens are due after {where}; expected one")
    return contexts


def _unique(rows: np.ndarray) -> np.ndarray:
    """Return each row once; rows that differ in the first column alone are neighbours."""
    order = np.lexsort(rows.view("<u8").T)  # its first column is the least significant one
    rows = rows[order]
    packed = rows.view("<u8")
    return rows[np.append(True, (packed[1:] != packed[:-1]).any(1))[: len(rows)]]
