"""Attention: which keys each query attends to, and the weighted sum of their values.

A query is compared with all keys, of which those that it must not attend to score -inf; or only
with the keys that windows show it (see `carry.models.neighbours`), at a cost that is linear in the
length of the sequence. Both compute the same function: softmax of the logits f (s q k + b) for
query q, key k, scale s and bias b. The factor f of a query is 1; with `attention_scale: log` it is
log n / log 64, where the query may attend to n keys (Chiang & Cholak 2022; Nakanishi 2025).

Keys whose ids differ much from the query's can count several times, or not at all (`FarKeys`).

n counts the keys that the windows of encodings show, far ones at least once: it is a length. It
does not depend on later tokens or on padding, so decoding agrees with one pass. The softmax over
one key is 1 whatever f is; f is then that of two keys, since a factor of 0 would make hidden keys,
which score -inf, undefined.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64, Integer
from torch import Tensor, nn

from carry.models.cache import Cache
from carry.models.hooks import LayerHook
from carry.models.neighbours import NO_TOKEN, WindowedIds, find_neighbours

GATHER_FROM_LENGTH = 256  # tokens; in longer sequences finding neighbours is faster than comparing
MAX_GATHERED_NUMBERS = 2**24  # in the keys that are gathered at once
NEUTRAL_KEYS = 64  # keys at which `attention_scale: log` has the factor 1, as in sums of 20 digits

# The ids of the queries and of the keys, for each encoding.
QueryKeyIds = Sequence[tuple[Integer[Tensor, "_ Q"], Integer[Tensor, "_ T"]]]


class FarKeys(NamedTuple):
    """Keys whose ids differ from the query's by more than a window, and how often they count.

    They count not at all, as if they were hidden; or in training many times, as if the problem were
    longer: log `count` is added to their logits. Tokens with id 0 count once. A query that has id 0
    at all levels, such as the `=` that looks for the first digits, has the id of the first token
    that has one.

    Fields:
        windows: for each encoding the largest difference at which a key is not far; None: any.
        count: how often far keys count.
        near: the tokens that count once at any distance.
    """

    windows: Sequence[int | None]
    count: Float[Tensor, ""] | float
    near: range

    def find(
        self, ids: QueryKeyIds, tokens: Integer[Tensor, "_ T"]
    ) -> Bool[Tensor, "_ Q T"] | None:
        """Return which keys are far from each query; None if none can be.

        >>> ids = torch.tensor([[0, 1, 2, 3, 4]])
        >>> tokens = torch.tensor([[12, 7, 5, 10, 3]])
        >>> FarKeys([1], 0.0, range(10, 22)).find([(ids[:, 4:], ids)], tokens)[0, 0].tolist()
        [False, True, True, False, False]
        """
        can_be_far = (tokens < self.near.start) | (tokens >= self.near.stop)
        pairs = zip(self.windows, ids, strict=True)
        limits = [(window, *pair) for window, pair in pairs if window is not None]
        if not limits:
            return None
        has_id = functools.reduce(torch.logical_or, [query > 0 for _, query, _ in limits])
        far = []
        for window, query, key in limits:
            first = key.gather(1, (key > 0).int().argmax(1, keepdim=True))
            query = torch.where(has_id, query, first)
            is_beyond = (query[:, :, None] - key[:, None]).abs() > window
            far.append(is_beyond & (query > 0)[:, :, None] & ((key > 0) & can_be_far)[:, None])
        return functools.reduce(torch.logical_or, far)


@dataclass(eq=False)
class AttentionContext:
    """The attention of a set of queries, whose ids and windows all layers and recurrences share.

    `query_index`: the indices of the queries in the sequences, for each row or one row for all.
    `ids`: of `key_count` tokens or more, for each encoding. `key_count`: the number of keys.
    `in_order`: whether the queries are all tokens of the sequences, which are the keys.
    `tokens`: the keys, if some do not count once; `far_keys`: which do not.
    `attention`: the setting of `Transformer`. `log_scale`: whether attention logits grow with the
    logarithm of the number of keys. `divisor`: what gradients of the layers are divided by; those
    of the encodings are not.
    """

    encodings: nn.ModuleList
    query_index: Integer[Tensor, "_ Q"]
    ids: Sequence[Tensor]
    key_count: int
    in_order: bool = False
    tokens: Integer[Tensor, "_ T"] | None = None
    far_keys: FarKeys | None = None
    attention: str = "plain"
    log_scale: bool = False
    divisor: int = 1

    def __post_init__(self) -> None:
        self.windowed = [encoding for encoding in self.encodings if encoding.window is not None]
        # Whether every query attends to the first token, also outside the windows.
        self.sees_first = all(encoding.sees_first for encoding in self.windowed)
        self.query_key_ids: QueryKeyIds = []
        for token_ids in self.ids:
            rows = token_ids.expand(max(len(token_ids), len(self.query_index)), -1)
            query_ids = rows.gather(1, self.query_index.expand(len(rows), -1))
            self.query_key_ids.append((query_ids, token_ids[:, : self.key_count]))
        # A dictionary of this object: `functools.cache` on a method would refer back to it, and
        # the cycle would keep its tensors until the next garbage collection.
        self._prepared: dict[int, tuple[Tensor | None, Tensor, bool]] = {}

    def attend(
        self,
        layer: int,
        query: Float[Tensor, "B H Q d"],
        key: Float[Tensor, "B H T d"],
        value: Float[Tensor, "B H T d"],
        scale: float,
        cache: Cache | None,
        hook: LayerHook,
    ) -> Float[Tensor, "B H Q d"]:
        """Return the weighted sum of values for each head and query.

        Args:
            cache: with earlier keys and values, of attention to all keys.
            hook: reads or replaces the weights of attention to all keys.
        """
        if cache is None and not hook.needs_weights and self._gathers():
            return self._attend_to_neighbours(layer, query, key, value, scale)
        factor, score, is_causal = self._prepare(layer)
        query = scale_logits(query, factor)  # and with it all scores, which are linear in it
        query_scores = [*self._query_scores(layer, query, self.query_key_ids)]
        score = sum((scale * more for more in query_scores), score)
        query, key = self._rotate(query, key, self.query_key_ids)
        if cache is not None:
            key, value = cache.extend(key, value)
        auto_is_fused = query.is_cuda or not torch.is_grad_enabled()
        is_fused = self.attention == "fused" or (self.attention == "auto" and auto_is_fused)
        if hook.needs_weights or not is_fused:
            # On a CPU plain products train faster, and much faster under "medium" precision.
            score = (query * scale) @ key.transpose(-1, -2) + score
            return hook("pattern", score.softmax(-1).to(value.dtype)) @ value
        if is_causal and not query_scores:
            return F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
        # Not expanded: rows and heads share the memory of one mask.
        mask = score.to(query.dtype)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)

    def _prepare(self, layer: int) -> tuple[Tensor | None, Tensor, bool]:
        """Return what all recurrences of a layer share, of attention to all keys.

        It is the factor of each query; the bias times the factor, -inf where a query must not
        attend to a key; and whether this is 0 at the query and all earlier tokens.
        """
        if layer not in self._prepared:
            factor = self.logit_factor()
            bias = scale_logits(self._bias(layer, self.query_key_ids), factor)
            is_plain = bias is None and self.far is None
            device = self.query_index.device
            score = torch.zeros((1, 1, 1, 1), device=device) if bias is None else bias
            if self.far is not None:
                count = torch.as_tensor(self.far_keys.count, dtype=score.dtype, device=device)
                score = torch.where(self.far[:, None], score + count.log(), score)
            score = torch.where(self.visible[:, None], score, -math.inf)
            is_causal = is_plain and self.in_order and not self.windowed
            self._prepared[layer] = factor, score, is_causal
        return self._prepared[layer]

    def logit_factor(self, dense: bool = True) -> Float64[Tensor, "_ Q"] | None:
        """Return the factor of the logits of each query; None if all are 1.

        Args:
            dense: count the keys of each query among all pairs, or among its neighbours.
        """
        if not self.log_scale:
            return None
        keys = self.visible.sum(2) if dense else (self.neighbours != NO_TOKEN).sum(2)
        if self.far is not None:  # no model with windows has any; far keys count at least once
            count = torch.as_tensor(self.far_keys.count, dtype=torch.float64, device=keys.device)
            keys = keys + (count - 1).clamp(min=0) * (self.far & self.visible).sum(2)
        return keys.clamp(min=2).double().log() / math.log(NEUTRAL_KEYS)

    def _gathers(self) -> bool:
        is_faster = self.key_count >= GATHER_FROM_LENGTH
        gathers = self.attention == "gathered" or (self.attention == "auto" and is_faster)
        return gathers and bool(self.windowed)

    @functools.cached_property
    def visible(self) -> Bool[Tensor, "_ Q T"]:
        """Whether a query attends to a key: not a later one, and none that a window hides."""
        query = self.query_index[:, :, None]
        key, votes = torch.arange(self.key_count, device=query.device), []
        for encoding, (own_ids, key_ids) in zip(self.encodings, self.query_key_ids, strict=True):
            if encoding.window is None:
                continue
            own_ids, key_ids = own_ids[:, :, None], key_ids[:, None]
            lower, upper = encoding.window
            inside = (key_ids >= own_ids - lower) & (key_ids <= own_ids + upper)
            vote = 2 * inside.to(torch.int8) - 1  # 1 inside the window, -1 outside, 0 uncounted
            if encoding.uncounted_id is not None:
                vote *= (own_ids != encoding.uncounted_id) & (key_ids != encoding.uncounted_id)
            votes.append(vote)
        if not votes:
            return key <= query
        lowest = functools.reduce(torch.minimum, votes)
        highest = functools.reduce(torch.maximum, votes)
        visible = (lowest >= 0) & (highest > 0) | (key == query)
        if self.sees_first:
            visible = visible | (key == 0)
        return visible & (key <= query)

    @functools.cached_property
    def far(self) -> Bool[Tensor, "_ Q T"] | None:
        """Which keys are far from each query, the same in all layers; None without `far_keys`."""
        far_keys = self.far_keys
        return None if far_keys is None else far_keys.find(self.query_key_ids, self.tokens)

    @functools.cached_property
    def neighbours(self) -> Integer[Tensor, "_ Q W"]:
        """The indices of the keys that windows show each query (see `carry.models.neighbours`)."""
        levels = [
            WindowedIds(key, encoding.window, encoding.uncounted_id)
            for encoding, (_, key) in zip(self.encodings, self.query_key_ids, strict=True)
            if encoding.window
        ]
        rows = max([len(self.query_index), *(len(level.ids) for level in levels)])
        levels = [level._replace(ids=level.ids.expand(rows, -1)) for level in levels]
        return find_neighbours(levels, self.query_index.expand(rows, -1), self.sees_first)

    def _attend_to_neighbours(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float
    ) -> Tensor:
        """Compute [B H Q d] as [BQ H 1 d], some queries at a time."""
        rows, heads, queries, width = query.shape
        neighbours, factor = self.neighbours.expand(rows, -1, -1), self.logit_factor(dense=False)
        query, parts = scale_logits(query, factor), []
        key, value = key.transpose(1, 2), value.transpose(1, 2)
        row = torch.arange(rows, device=query.device)[:, None, None]
        chunk = max(1, MAX_GATHERED_NUMBERS // (rows * neighbours.shape[2] * heads * width))
        for index in torch.arange(queries, device=query.device).split(chunk):
            at = neighbours[:, index].clamp(min=0)
            ids = []
            for query_ids, key_ids in self.query_key_ids:
                own_ids = query_ids.expand(rows, -1)[:, index].flatten()[:, None]
                their_ids = key_ids.expand(rows, -1).gather(1, at.flatten(1))
                ids.append((own_ids, their_ids.view(-1, at.shape[2])))
            x = query[:, :, index].transpose(1, 2).flatten(0, 1)[:, :, None]
            keys, values = (x[row, at].flatten(0, 1).transpose(1, 2) for x in (key, value))
            query_scores = [scale * score for score in self._query_scores(layer, x, ids)]
            bias = self._bias(layer, ids)
            if factor is not None:
                of_queries = factor.expand(rows, -1)[:, index].flatten()[:, None]
                bias = scale_logits(bias, of_queries)
            x, keys = self._rotate(x, keys, ids)
            score = (x * scale) @ keys.transpose(-1, -2)
            score = sum(query_scores, score if bias is None else score + bias)
            hidden = (neighbours[:, index] == NO_TOKEN).flatten(0, 1)[:, None, None]
            weights = score.masked_fill(hidden, -math.inf).softmax(-1).to(values.dtype)
            parts.append((weights @ values)[:, :, 0].unflatten(0, (rows, -1)).transpose(1, 2))
        return torch.cat(parts, dim=2)

    def _bias(self, layer: int, ids: QueryKeyIds) -> Tensor | None:
        """Return the sum of the biases of a layer, or None if no encoding has one."""
        biases = []
        for encoding, (query, key) in zip(self.encodings, ids, strict=True):
            if len(key) == len(query):
                bias = encoding.bias(layer, query, key)
            else:  # all rows share their ids: the bias of all pairs is computed once
                bias = encoding.bias(layer, key, key)
                if bias is not None:  # the gradient of an embedding is faster than of an index
                    heads = bias.shape[1]
                    rows = F.embedding(self.query_index, bias[0].transpose(0, 1).flatten(1))
                    bias = rows.unflatten(2, (heads, -1)).transpose(1, 2)
            biases += [] if bias is None else [bias]
        return scale_gradient(sum(biases[1:], biases[0]), self.divisor) if biases else None

    def _query_scores(self, layer: int, queries: Tensor, ids: QueryKeyIds) -> Iterator[Tensor]:
        """Yield the scores of the encodings that depend on the queries."""
        for encoding, (query, key) in zip(self.encodings, ids, strict=True):
            # Divided gradients reach the queries, but not the encodings.
            score = encoding.score(layer, scale_gradient(queries, 1 / self.divisor), query, key)
            if score is not None:
                yield scale_gradient(score, self.divisor)

    def _rotate(self, query: Tensor, key: Tensor, ids: QueryKeyIds) -> tuple[Tensor, Tensor]:
        """Return queries and new keys, rotated by their ids; new keys have the last of the ids."""
        new = key.shape[2]
        for encoding, (query_ids, key_ids) in zip(self.encodings, ids, strict=True):
            query = encoding.rotate(query, query_ids)
            key = encoding.rotate(key, key_ids[:, -new:])
        return query, key


def scale_gradient(x: Float[Tensor, "*S"], factor: int | float) -> Float[Tensor, "*S"]:
    """Return x, whose gradient is multiplied by a factor.

    >>> x = torch.ones(2, requires_grad=True)
    >>> scale_gradient(x, 0.5).sum().backward()
    >>> x.grad
    tensor([0.5000, 0.5000])
    """
    if factor != 1 and x.requires_grad:
        x = x.view_as(x)  # other uses of x keep their gradients
        x.register_hook(lambda gradient: gradient * factor)
    return x


def scale_logits(
    x: Float[Tensor, "_ _ Q X"] | None, factor: Float64[Tensor, "_ Q"] | None
) -> Float[Tensor, "_ _ Q X"] | None:
    """Return queries or biases times the factor of each query, in their precision.

    >>> scale_logits(torch.ones(1, 1, 2, 1), torch.tensor([[2.0, 3.0]]).double())[0, 0, :, 0]
    tensor([2., 3.])
    """
    if x is None or factor is None:
        return x
    wide = torch.promote_types(x.dtype, torch.float32)  # bf16 is too coarse for a factor
    return (x * factor.to(wide)[:, None, :, None]).to(x.dtype)
