"""Contexts as certificates have them, so that two programs can compare theirs by a hash."""

from __future__ import annotations

import hashlib
from math import prod

import numpy as np

from certificates.independent.contexts import TOKEN_CODES, Contexts


def tabulate(contexts: Contexts) -> np.ndarray:
    """Return all contexts in the order and with the codes of exported certificates.

    A code has the token, then for each level the id of the key less the query's, clipped, or which
    of both has none. Each row has the token that is due, the query, and codes from the largest on.
    """
    clips = [1 + max(window) for window in contexts.windows]
    bases = [2 * clip + 4 for clip in clips]
    numbers = []
    for relation in contexts.relations:
        number = 0
        for row, clip, base in zip(relation, clips, bases, strict=True):
            step = 2 * clip - row if row <= 2 * clip else (2, 1, 3)[row - 2 * clip - 1] + 2 * clip
            number = number * base + step
        numbers.append(number)
    tokens = np.arange(TOKEN_CODES, dtype="<i4") * prod(bases)
    coded = np.append(np.add.outer(np.array(numbers, "<i4"), tokens), np.int32(-1))
    table = np.empty((len(contexts.due), 2 + contexts.codes.shape[1]), "<i4")
    table[:, 0], table[:, 1] = contexts.due, contexts.query
    for column, codes in enumerate(contexts.codes.T, start=2):  # base 60 fills memory otherwise
        table[:, column] = -coded[codes]  # code -1 is the last one
    table[:, 2:].sort(axis=1)
    np.negative(table[:, 2:], out=table[:, 2:])
    return table[np.lexsort(table.T[::-1])]


def hash_contexts(contexts: Contexts) -> str:
    """Return the SHA-256 of all contexts and the tokens that are due, as in certificates."""
    table = tabulate(contexts)
    return hashlib.sha256(str(table.shape).encode() + table.tobytes()).hexdigest()
