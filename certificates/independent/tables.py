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
    relation, token = divmod(contexts.codes.astype(np.int32), TOKEN_CODES)
    codes = np.where(relation >= 0, token * prod(bases) + np.array(numbers)[relation], -1)
    table = np.column_stack([contexts.due, contexts.query, -np.sort(-codes, axis=1)])
    return table.astype("<i4")[np.lexsort(table.T[::-1])]


def hash_contexts(contexts: Contexts) -> str:
    """Return the SHA-256 of all contexts and the tokens that are due, as in certificates."""
    table = tabulate(contexts)
    return hashlib.sha256(str(table.shape).encode() + table.tobytes()).hexdigest()
