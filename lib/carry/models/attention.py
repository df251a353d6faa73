"""What queries see of keys, what encodings add to their scores, and what they then find.

Look    each query is compared with every key before it; what a window hides scores -inf
Near    each query is compared with its neighbours alone (`carry.models.neighbours`), which
        costs as much as the sequence is long, not its square, and finds the same
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from carry.models.cache import Cache
from carry.models.hooks import Hook
from carry.models.neighbours import HIDDEN, Level, neighbours

LONG = 256  # from so many tokens on, looking for neighbours takes less time than comparing all
GATHERED = 2**24  # numbers in the keys that are gathered at once

Places = Sequence[tuple[Integer[Tensor, "_ Q"], Integer[Tensor, "_ T"]]]  # of queries and of keys


class PositionEncodings(NamedTuple):
    """The encodings of a pass, and how gradients are divided on their way to them."""

    encodings: nn.ModuleList
    attention: str  # which way is taken, see `Transformer`
    scaled: Callable[[Tensor, float], Tensor]
    rounds: int

    @property
    def windows(self) -> bool:
        """Whether any of the encodings has a window."""
        return any(of.window is not None for of in self.encodings)

    @property
    def first(self) -> bool:
        """Whether the first token is seen from everywhere."""
        return all(of.first for of in self.encodings if of.window is not None)

    def bias(
        self, layer: int, places: Places, at: Integer[Tensor, "_ Q"] | None = None
    ) -> Float[Tensor, "_ _ Q T"] | None:
        """Return what encodings add to the scores of a layer, if anything.

        `at`: the indices of the queries, to work out what all rows share once for all of them.
        """
        some = []
        for encoding, (query, key) in zip(self.encodings, places, strict=True):
            if at is not None and len(key) < len(query):
                bias = encoding.bias(layer, key, key)
                bias = bias if bias is None else pick_rows(bias[0], at)
            else:
                bias = encoding.bias(layer, query, key)
            some += [] if bias is None else [bias]
        return self.scaled(sum(some[1:], some[0]), self.rounds) if some else None

    def scores(self, layer: int, queries: Tensor, places: Places) -> Iterator[Tensor]:
        """Yield what encodings add to the scores of given queries."""
        for encoding, (query, key) in zip(self.encodings, places, strict=True):
            # Where gradients are divided, those of queries are, and those of encodings are not.
            score = encoding.score(layer, self.scaled(queries, 1 / self.rounds), query, key)
            if score is not None:
                yield self.scaled(score, self.rounds)

    def rotated(self, query: Tensor, key: Tensor, places: Places) -> tuple[Tensor, Tensor]:
        """Return queries and keys turned by their ids; of the keys the last ones are new."""
        new = key.shape[2]
        for encoding, (of_query, of_key) in zip(self.encodings, places, strict=True):
            query = encoding.rotate(query, of_query)
            key = encoding.rotate(key, of_key[:, -new:])
        return query, key


class AttentionContext:
    """What some queries see and feel in each layer, worked out once for all recurrences.

    Args:
        query: the indices of the tokens that look, for each sequence or in one row for all.
        ids: one for each encoding, as far as `total` tokens and maybe farther.
    """

    def __init__(
        self,
        felt: PositionEncodings,
        query: Integer[Tensor, "_ Q"],
        ids: Sequence[Tensor],
        total: int,
    ) -> None:
        self.felt, self.query, self.total = felt, query, total
        self.places = []
        for of in ids:
            rows = of.expand(max(len(of), len(query)), -1)
            asked = rows.gather(1, query.expand(len(rows), -1))
            self.places.append((asked, of[:, :total]))
        self.layer = functools.cache(self._layer)

    def _layer(self, layer: int, whole: bool) -> DenseAttention | WindowedAttention:
        """Return what a layer's queries see; `whole`: the weights of all keys are wanted."""
        if not whole and self._gathers():
            return WindowedAttention(self.felt, layer, self.places, self.neighbours)
        bias = self.felt.bias(layer, self.places, self.query)
        score = torch.zeros((), device=self.query.device) if bias is None else bias
        score = torch.where(self.visible[:, None], score, -math.inf)
        return DenseAttention(self.felt, layer, self.places, score)

    def _gathers(self) -> bool:
        asked = self.felt.attention
        long = asked == "auto" and self.felt.windows and self.total >= LONG
        return asked == "gathered" or long

    @functools.cached_property
    def visible(self) -> Bool[Tensor, "_ Q T"]:
        """Whether a query sees a token: not a later one, and none that a window hides."""
        query, keys = self.query[:, :, None], torch.arange(self.total, device=self.query.device)
        each = zip(self.felt.encodings, self.places, strict=True)
        said = [of.visible(*places) for of, places in each if of.window is not None]
        if not said:
            return keys <= query
        hidden, shown = functools.reduce(torch.minimum, said), functools.reduce(torch.maximum, said)
        near = (hidden >= 0) & (shown > 0) | (keys == query)
        if self.felt.first:
            near = near | (keys == 0)
        return near & (keys <= query)

    @functools.cached_property
    def neighbours(self) -> Integer[Tensor, "_ Q W"]:
        """The indices of what each query sees, see `carry.models.neighbours`."""
        each = zip(self.felt.encodings, self.places, strict=True)
        levels = [Level(key, of.window, of.absent) for of, (_, key) in each if of.window]
        rows = max([len(self.query), *(len(level.ids) for level in levels)])
        levels = [level._replace(ids=level.ids.expand(rows, -1)) for level in levels]
        return neighbours(levels, self.query.expand(rows, -1), self.felt.first)


class DenseAttention:
    """Attention to every token before a query; `score` is added, -inf where it sees nothing."""

    def __init__(
        self, felt: PositionEncodings, layer: int, places: Places, score: Float[Tensor, "_ _ Q T"]
    ) -> None:
        self.felt, self.layer, self.places, self.score = felt, layer, places, score

    def attend(
        self,
        query: Float[Tensor, "B H Q d"],
        key: Float[Tensor, "B H T d"],
        value: Float[Tensor, "B H T d"],
        scale: float,
        cache: Cache | None,
        take: Hook,
        whole: bool,
    ) -> Float[Tensor, "B H Q d"]:
        """Return what each head finds.

        `take`: what the attention weights go through, if they are wanted as a `whole`.
        """
        felt = self.felt.scores(self.layer, query, self.places)
        added = sum((scale * score for score in felt), self.score)
        query, key = self.felt.rotated(query, key, self.places)
        if cache is not None:
            key, value = cache.extend(key, value)
        asked = self.felt.attention
        quick = asked == "auto" and (query.is_cuda or not torch.is_grad_enabled())
        if not whole and (quick or asked == "fused"):
            score = added.expand(query.shape[0], query.shape[1], -1, -1).to(query.dtype)
            return F.scaled_dot_product_attention(query, key, value, attn_mask=score, scale=scale)
        # On a CPU plain products learn faster, and under "medium" precision by far.
        score = (query * scale) @ key.transpose(-1, -2) + added
        return take("pattern", score.softmax(-1).to(value.dtype)) @ value


class WindowedAttention:
    """Attention to the neighbours of a query, each with its own: [B H Q d] as [BQ H 1 d]."""

    def __init__(
        self, felt: PositionEncodings, layer: int, places: Places, seen: Integer[Tensor, "_ Q W"]
    ) -> None:
        self.felt, self.layer, self.places, self.seen = felt, layer, places, seen

    def attend(
        self,
        query: Float[Tensor, "B H Q d"],
        key: Float[Tensor, "B H T d"],
        value: Float[Tensor, "B H T d"],
        scale: float,
        cache: Cache | None,
        take: Hook,
        whole: bool,
    ) -> Float[Tensor, "B H Q d"]:
        """Return what each head finds, some queries at a time; takes what `Look.attend` does."""
        rows, heads, asked, width = query.shape
        each = max(1, GATHERED // (rows * self.seen.shape[2] * heads * width))
        both = key.transpose(1, 2), value.transpose(1, 2)
        parts = [
            self._some(query[:, :, some], *both, some, scale)
            for some in torch.arange(asked, device=query.device).split(each)
        ]
        return torch.cat(parts, dim=2)

    def _some(
        self,
        query: Float[Tensor, "B H q d"],
        key: Float[Tensor, "B T H d"],
        value: Float[Tensor, "B T H d"],
        some: Integer[Tensor, " q"],
        scale: float,
    ) -> Float[Tensor, "B H q d"]:
        rows = len(query)
        seen = self.seen.expand(rows, -1, -1)[:, some]
        at, row = seen.clamp(min=0), torch.arange(rows, device=seen.device)[:, None, None]
        places = []
        for of_query, of_key in self.places:
            own = of_query.expand(rows, -1)[:, some].flatten()[:, None]
            others = of_key.expand(rows, -1).gather(1, at.flatten(1)).view(-1, at.shape[2])
            places.append((own, others))
        query = query.transpose(1, 2).flatten(0, 1)[:, :, None]
        key, value = (of[row, at].flatten(0, 1).transpose(1, 2) for of in (key, value))
        felt = [scale * score for score in self.felt.scores(self.layer, query, places)]
        bias = self.felt.bias(self.layer, places)
        query, key = self.felt.rotated(query, key, places)
        score = (query * scale) @ key.transpose(-1, -2)
        score = sum(felt, score if bias is None else score + bias)
        score = score.masked_fill((seen == HIDDEN).flatten(0, 1)[:, None, None], -math.inf)
        found = score.softmax(-1).to(value.dtype) @ value
        return found[:, :, 0].unflatten(0, (rows, -1)).transpose(1, 2)


def pick_rows(
    bias: Float[Tensor, "H T S"], query: Integer[Tensor, "B Q"]
) -> Float[Tensor, "B H Q S"]:
    """Return the rows of a bias at the queries of each example.

    >>> pick_rows(torch.eye(3)[None], torch.tensor([[2], [0]]))[:, 0, 0].tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    rows = F.embedding(query, bias.transpose(0, 1).flatten(1))  # its gradient adds up quickly
    return rows.unflatten(2, (bias.shape[0], -1)).transpose(1, 2)
