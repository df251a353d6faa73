"""Neighbours: the tokens that windows show to each query, found by sorting instead of comparing.

A token of place 7 whose window is one place down and none up has its neighbours where a sorted
list holds the keys of places 6 and 7:

    keys by place      ...  6 6 6  7 7 7  8 8 8  ...
    query of place 7        '---------'             those before it in the sequence

With windows over several levels the list is sorted by all levels that count both tokens, and
tokens that other levels count have their own lists. The neighbours of a query are then a short list
at any length, and the cost of attention is linear in the length of the sequence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.models.encodings import Window

MAX_TOKENS_PER_ID = 256  # at one difference of each level; larger windows are not local
MAX_SORT_KEY = 2**62  # sort keys are 64-bit integers
NO_TOKEN = -1


class WindowedIds(NamedTuple):
    """The ids of one encoding, its window, and the id of tokens that its scheme does not count."""

    ids: Integer[Tensor, "b T"]
    window: Window
    uncounted_id: int | None


def find_neighbours(
    levels: Sequence[WindowedIds], query: Integer[Tensor, "b Q"], first: bool
) -> Integer[Tensor, "b Q W"]:
    """Return the indices of the tokens that each query attends to, in order, then `NO_TOKEN`.

    Args:
        levels: the ids that have a window, at least one.
        query: the indices of the queries.
        first: whether every query attends to the first token.

    Raises:
        SettingsError: for a window that shows too many tokens of one id, or ids too large to sort.

    >>> place = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3]])
    >>> level = WindowedIds(place, Window(lower=1, upper=0), uncounted_id=None)
    >>> find_neighbours([level], torch.tensor([[2, 6]]), first=True).tolist()
    [[[0, 1, 2, -1, -1], [0, 1, 2, 5, 6]]]
    """
    counted = torch.zeros_like(levels[0].ids)  # the levels that count each token, as bits
    for index, level in enumerate(levels):
        is_counted = level.uncounted_id is None or level.ids != level.uncounted_id
        counted = counted + (1 << index) * is_counted
    counted_query = counted.gather(1, query)
    columns = [query, torch.zeros_like(query)] if first else [query]
    for one, other in itertools.product(counted_query.unique().tolist(), counted.unique().tolist()):
        shared = [level for index, level in enumerate(levels) if one & other & 1 << index]
        if shared:
            columns += _find_in_levels(shared, query, counted_query == one, counted == other)
    tokens = torch.stack(columns, dim=2)
    last = torch.iinfo(tokens.dtype).max  # sorts absent tokens to the end
    tokens = torch.where(tokens == NO_TOKEN, last, tokens).sort(dim=2).values
    duplicate = torch.zeros_like(tokens, dtype=torch.bool)
    duplicate[:, :, 1:] = tokens[:, :, 1:] == tokens[:, :, :-1]
    tokens = torch.where(duplicate, last, tokens).sort(dim=2).values
    width = int((tokens != last).sum(2).max())
    return torch.where(tokens == last, NO_TOKEN, tokens)[:, :, :width]


def _find_in_levels(
    levels: Sequence[WindowedIds],
    query: Integer[Tensor, "b Q"],
    is_query: Bool[Tensor, "b Q"],
    is_key: Bool[Tensor, "b T"],
) -> Iterator[Integer[Tensor, "b Q"]]:
    """Yield the neighbours of queries among keys that share these levels with them, by columns."""
    rows, total = is_key.shape
    row = torch.arange(rows, device=query.device)[:, None]
    lowest = [int(level.ids.min()) - level.window.lower for level in levels]
    sizes = [
        int(level.ids.max()) + level.window.upper + 1 - low
        for level, low in zip(levels, lowest, strict=True)
    ]
    if rows * math.prod(sizes) * total >= MAX_SORT_KEY:
        raise SettingsError(
            f"window: ids of {' x '.join(map(str, sizes))} differences in {total} tokens are too "
            "many to sort; expected fewer levels, or shorter problems"
        )

    def sort_key(ids_by_level: Sequence[Tensor]) -> Tensor:
        packed = row.expand_as(ids_by_level[0])
        for ids, low, size in zip(ids_by_level, lowest, sizes, strict=True):
            packed = packed * size + (ids - low)
        return packed * total

    index = torch.arange(total, device=query.device).expand(rows, -1)
    order = (sort_key([level.ids.long() for level in levels]) + index)[is_key].sort().values
    query_ids = [level.ids.long().gather(1, query) for level in levels]
    differences = [range(-level.window.lower, level.window.upper + 1) for level in levels]
    for difference in itertools.product(*differences):
        start = sort_key([ids + step for ids, step in zip(query_ids, difference, strict=True)])
        low = torch.searchsorted(order, start)
        high = torch.searchsorted(order, start + query, right=True)
        count = torch.where(is_query, high - low, 0)
        most = int(count.max())
        if most > MAX_TOKENS_PER_ID:
            raise SettingsError(
                f"window: a token attends to {most} others of the same ids; expected at most "
                f"{MAX_TOKENS_PER_ID}, so that a neighbourhood is bounded"
            )
        for number in range(most):
            key = order[(low + number).clamp(max=len(order) - 1)] % total
            yield torch.where(number < count, key, NO_TOKEN)
