"""Which tokens windows show to each query, found by sorting, without comparing all with all.

A token of place 7 that sees one place down and none up finds its neighbours where the keys of the
places 6 and 7 stand in a sorted list:

    keys by place      ...  6 6 6  7 7 7  8 8 8  ...
    query of place 7        '---------'             as far as they stand before it

With windows over several levels the list is sorted by all levels that both count, and tokens that
count other levels have lists of their own. What a query sees is then a short list, however long
the sequence is, and attention costs as much as the sequence is long (see `Near` in
`carry.models.attention`).
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

MOST = 256  # of one difference at each level; windows that show more are local in nothing
HIDDEN = -1


class Level(NamedTuple):
    """The ids of one pair, and its window over them."""

    ids: Integer[Tensor, "b T"]
    window: Window
    absent: int | None


def neighbours(
    levels: Sequence[Level], query: Integer[Tensor, "b Q"], first: bool
) -> Integer[Tensor, "b Q W"]:
    """Return the tokens that each query sees, in order, and `HIDDEN` where it sees no more.

    Args:
        levels: those with a window, one at least.
        query: the indices of the tokens that look.
        first: the first token is always seen.

    Raises:
        SettingsError: where a window shows more tokens than a neighbourhood has.

    >>> place = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3]])
    >>> level = Level(place, Window(behind=1, ahead=0), absent=None)
    >>> neighbours([level], torch.tensor([[2, 6]]), first=True).tolist()
    [[[0, 1, 2, -1, -1], [0, 1, 2, 5, 6]]]
    """
    kinds = _kinds(levels)
    asked = kinds.gather(1, query)
    found = [query] if first is False else [query, torch.zeros_like(query)]
    for one, other in itertools.product(asked.unique().tolist(), kinds.unique().tolist()):
        shared = [level for at, level in enumerate(levels) if one & other & 1 << at]
        if shared:
            found += _of_kind(shared, query, asked == one, kinds == other)
    seen = torch.stack(found, dim=2)
    last = torch.iinfo(seen.dtype).max  # where what is hidden is sorted to
    seen = torch.where(seen == HIDDEN, last, seen).sort(dim=2).values
    again = torch.zeros_like(seen, dtype=torch.bool)
    again[:, :, 1:] = seen[:, :, 1:] == seen[:, :, :-1]
    seen = torch.where(again, last, seen).sort(dim=2).values
    width = int((seen != last).sum(2).max())
    return torch.where(seen == last, HIDDEN, seen)[:, :, :width]


def _kinds(levels: Sequence[Level]) -> Integer[Tensor, "b T"]:
    """Return which levels count each token, as bits."""
    kinds = torch.zeros_like(levels[0].ids)
    for at, level in enumerate(levels):
        counted = True if level.absent is None else level.ids != level.absent
        kinds = kinds + (1 << at) * counted * torch.ones_like(level.ids)
    return kinds


def _of_kind(
    levels: Sequence[Level],
    query: Integer[Tensor, "b Q"],
    asks: Bool[Tensor, "b Q"],
    is_key: Bool[Tensor, "b T"],
) -> Iterator[Integer[Tensor, "b Q"]]:
    """Yield what queries see of keys that share these levels with them, a column at a time."""
    rows, total = is_key.shape
    row = torch.arange(rows, device=query.device)[:, None]
    least = [int(level.ids.min()) - level.window.behind for level in levels]
    sizes = [
        int(level.ids.max()) + level.window.ahead + 1 - low
        for level, low in zip(levels, least, strict=True)
    ]
    if rows * math.prod(sizes) * total >= 2**62:
        raise SettingsError(
            f"window: ids of {' x '.join(map(str, sizes))} differences in {total} tokens are too "
            "many to sort; expected fewer levels, or shorter problems"
        )

    def code(of: Sequence[Tensor]) -> Tensor:
        packed = row.expand_as(of[0])
        for ids, low, size in zip(of, least, sizes, strict=True):
            packed = packed * size + (ids - low)
        return packed * total

    at = torch.arange(total, device=query.device).expand(rows, -1)
    order = (code([level.ids.long() for level in levels]) + at)[is_key].sort().values
    places = [level.ids.long().gather(1, query) for level in levels]
    steps = [range(-level.window.behind, level.window.ahead + 1) for level in levels]
    for step in itertools.product(*steps):
        begin = code([of + more for of, more in zip(places, step, strict=True)])
        low = torch.searchsorted(order, begin)
        high = torch.searchsorted(order, begin + query, right=True)
        count = torch.where(asks, high - low, 0)
        if int(count.max()) > MOST:
            raise SettingsError(
                f"window: a token sees {int(count.max())} others that stand at the same ids; "
                f"expected at most {MOST}, for a neighbourhood is bounded"
            )
        for nth in range(int(count.max())):
            key = order[(low + nth).clamp(max=len(order) - 1)] % total
            yield torch.where(nth < count, key, HIDDEN)
