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
from collections.abc import Callable, Iterator, Sequence
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

    def add_count(
        self, score: Float[Tensor, "_ _ _ _"], far: Bool[Tensor, "_ Q T"]
    ) -> Float[Tensor, "_ _ _ _"]:
        """Return scores with the logarithm of the count added at far keys."""
        more = torch.as_tensor(self.count, dtype=score.dtype, device=score.device).log()
        return torch.where(far[:, None], score + more, score)

    def count_keys(
        self, shown: Bool[Tensor, "_ Q T"], far: Bool[Tensor, "_ Q T"]
    ) -> Float64[Tensor, "_ Q"]:
        """Return how many keys the queries attend to; far ones count at least once."""
        more = torch.as_tensor(self.count, dtype=torch.float64, device=far.device) - 1
        return shown.sum(2) + more.clamp(min=0) * (far & shown).sum(2)


class PositionEncodings(NamedTuple):
    """The encodings of a pass, and the scaling of its gradients and of its attention logits.

    `attention` is the setting of `Transformer`. `scale_gradient(x, factor)` returns x, and its
    gradient is multiplied by the factor if the model divides gradients by the `recurrences`.
    `log_scale`: whether attention logits grow with the logarithm of the number of keys. `far_keys`:
    which keys do not count once.
    """

    encodings: nn.ModuleList
    attention: str = "plain"
    scale_gradient: Callable[[Tensor, float], Tensor] = lambda x, factor: x
    recurrences: int = 1
    log_scale: bool = False
    far_keys: FarKeys | None = None

    @property
    def has_windows(self) -> bool:
        """Whether an encoding has a window."""
        return any(encoding.window is not None for encoding in self.encodings)

    @property
    def sees_first(self) -> bool:
        """Whether every token attends to the first one, also outside the windows."""
        return all(
            encoding.sees_first for encoding in self.encodings if encoding.window is not None
        )

    def bias(
        self, layer: int, ids: QueryKeyIds, query_index: Integer[Tensor, "_ Q"] | None = None
    ) -> Float[Tensor, "_ _ Q T"] | None:
        """Return the sum of the biases of a layer, or None if no encoding has one.

        Args:
            query_index: the indices of the queries in the sequences. If all rows share their ids,
                the bias of all pairs is computed once, and the rows of the queries are picked.
        """
        biases = []
        for encoding, (query, key) in zip(self.encodings, ids, strict=True):
            if query_index is not None and len(key) < len(query):
                bias = encoding.bias(layer, key, key)
                bias = bias if bias is None else pick_rows(bias[0], query_index)
            else:
                bias = encoding.bias(layer, query, key)
            biases += [] if bias is None else [bias]
        return self.scale_gradient(sum(biases[1:], biases[0]), self.recurrences) if biases else None

    def query_scores(self, layer: int, queries: Tensor, ids: QueryKeyIds) -> Iterator[Tensor]:
        """Yield the scores of the encodings that depend on the queries."""
        for encoding, (query, key) in zip(self.encodings, ids, strict=True):
            # Divided gradients (see `Transformer`) reach the queries, but not the encodings.
            scaled = self.scale_gradient(queries, 1 / self.recurrences)
            score = encoding.score(layer, scaled, query, key)
            if score is not None:
                yield self.scale_gradient(score, self.recurrences)

    def rotate(self, query: Tensor, key: Tensor, ids: QueryKeyIds) -> tuple[Tensor, Tensor]:
        """Return queries and new keys, rotated by their ids; new keys have the last of the ids."""
        new = key.shape[2]
        for encoding, (query_ids, key_ids) in zip(self.encodings, ids, strict=True):
            query = encoding.rotate(query, query_ids)
            key = encoding.rotate(key, key_ids[:, -new:])
        return query, key


class AttentionContext:
    """The ids, biases and windows of a set of queries, shared by all recurrences of a layer.

    Args:
        positions: the encodings.
        query_index: the indices of the queries in the sequences, for each row or one row for all.
        ids: the ids of `key_count` tokens or more, for each encoding.
        key_count: the number of keys.
        in_order: whether the queries are all tokens of the sequences, which are the keys.
        tokens: the keys, if some do not count once.
    """

    def __init__(
        self,
        positions: PositionEncodings,
        query_index: Integer[Tensor, "_ Q"],
        ids: Sequence[Tensor],
        key_count: int,
        in_order: bool = False,
        tokens: Integer[Tensor, "_ T"] | None = None,
    ) -> None:
        self.positions, self.query_index, self.key_count = positions, query_index, key_count
        self.in_order, self.tokens = in_order, tokens
        self.query_key_ids = []
        for token_ids in ids:
            rows = token_ids.expand(max(len(token_ids), len(query_index)), -1)
            query_ids = rows.gather(1, query_index.expand(len(rows), -1))
            self.query_key_ids.append((query_ids, token_ids[:, :key_count]))
        # A dictionary of this object: `functools.cache` on a method would refer back to it, and
        # the cycle would keep its tensors until the next garbage collection.
        self._attention: dict[tuple[int, bool], Attention] = {}

    def attention(self, layer: int, dense: bool) -> Attention:
        """Return the attention of a layer; `dense` asks for one that compares all pairs."""
        key = layer, dense or not self._gathers()
        if key not in self._attention:
            self._attention[key] = self._build_attention(*key)
        return self._attention[key]

    def _build_attention(self, layer: int, dense: bool) -> Attention:
        positions, ids, factor = self.positions, self.query_key_ids, self.logit_factor(dense)
        if not dense:
            return Attention(positions, layer, ids, factor, neighbours=self.neighbours)
        bias = scale_logits(positions.bias(layer, ids, self.query_index), factor)
        is_plain = bias is None and self.far is None
        is_causal = is_plain and self.in_order and not positions.has_windows
        score = torch.zeros((1, 1, 1, 1), device=self.query_index.device) if bias is None else bias
        if self.far is not None:
            score = positions.far_keys.add_count(score, self.far)
        score = torch.where(self.visible[:, None], score, -math.inf)
        return Attention(positions, layer, ids, factor, score, is_causal)

    def logit_factor(self, dense: bool = True) -> Float64[Tensor, "_ Q"] | None:
        """Return the factor of the logits of each query; None if all are 1.

        Args:
            dense: count the keys of each query among all pairs, or among its neighbours.
        """
        if not self.positions.log_scale:
            return None
        if not dense:
            keys = (self.neighbours != NO_TOKEN).sum(2)
        elif self.far is None:
            keys = self.visible.sum(2)
        else:
            keys = self.positions.far_keys.count_keys(self.visible, self.far)
        return keys.clamp(min=2).double().log() / math.log(NEUTRAL_KEYS)

    def _gathers(self) -> bool:
        setting, on_gpu = self.positions.attention, self.query_index.is_cuda
        # Finding neighbours waits for a GPU, and no training step may.
        is_faster = self.key_count >= GATHER_FROM_LENGTH and not (
            on_gpu and torch.is_grad_enabled()
        )
        gathers = setting == "gathered" or (setting == "auto" and is_faster)
        return gathers and self.positions.has_windows

    @functools.cached_property
    def visible(self) -> Bool[Tensor, "_ Q T"]:
        """Whether a query attends to a key: not a later one, and none that a window hides."""
        query = self.query_index[:, :, None]
        key = torch.arange(self.key_count, device=query.device)
        votes = [
            encoding.visibility(*ids)
            for encoding, ids in zip(self.positions.encodings, self.query_key_ids, strict=True)
            if encoding.window is not None
        ]
        if not votes:
            return key <= query
        lowest = functools.reduce(torch.minimum, votes)
        highest = functools.reduce(torch.maximum, votes)
        visible = (lowest >= 0) & (highest > 0) | (key == query)
        if self.positions.sees_first:
            visible = visible | (key == 0)
        return visible & (key <= query)

    @functools.cached_property
    def far(self) -> Bool[Tensor, "_ Q T"] | None:
        """Which keys are far from each query, the same in all layers; None without `far_keys`."""
        far_keys = self.positions.far_keys
        return None if far_keys is None else far_keys.find(self.query_key_ids, self.tokens)

    @functools.cached_property
    def neighbours(self) -> Integer[Tensor, "_ Q W"]:
        """The indices of the keys that windows show each query (see `carry.models.neighbours`)."""
        levels = [
            WindowedIds(key, encoding.window, encoding.uncounted_id)
            for encoding, (_, key) in zip(self.positions.encodings, self.query_key_ids, strict=True)
            if encoding.window
        ]
        rows = max([len(self.query_index), *(len(level.ids) for level in levels)])
        levels = [level._replace(ids=level.ids.expand(rows, -1)) for level in levels]
        return find_neighbours(levels, self.query_index.expand(rows, -1), self.positions.sees_first)


@dataclass
class Attention:
    """The attention of a set of queries in one layer: to all keys, or to the `neighbours` of each.

    `factor` is that of each query. `score` is the bias times the factor, -inf where a query must
    not attend to a key; `is_causal` if it is 0 at the query and all earlier tokens.
    """

    positions: PositionEncodings
    layer: int
    ids: QueryKeyIds
    factor: Float64[Tensor, "_ Q"] | None
    score: Float[Tensor, "_ _ Q T"] | None = None
    is_causal: bool = False
    neighbours: Integer[Tensor, "_ Q W"] | None = None

    def attend(
        self,
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
        query = scale_logits(query, self.factor)  # and with it all scores, which are linear in it
        if self.neighbours is not None:
            return self._attend_in_chunks(query, key, value, scale)
        query_scores = [*self.positions.query_scores(self.layer, query, self.ids)]
        bias = sum((scale * score for score in query_scores), self.score)
        query, key = self.positions.rotate(query, key, self.ids)
        if cache is not None:
            key, value = cache.extend(key, value)
        setting = self.positions.attention
        fused_is_faster = setting == "auto" and (query.is_cuda or not torch.is_grad_enabled())
        if not hook.needs_weights and (fused_is_faster or setting == "fused"):
            if self.is_causal and not query_scores:
                return F.scaled_dot_product_attention(
                    query, key, value, is_causal=True, scale=scale
                )
            # Not expanded: rows and heads share the memory of one mask.
            mask = bias.to(query.dtype)
            return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
        # On a CPU plain products train faster, and much faster under "medium" precision.
        score = (query * scale) @ key.transpose(-1, -2) + bias
        return hook("pattern", score.softmax(-1).to(value.dtype)) @ value

    def _attend_in_chunks(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Compute [B H Q d] as [BQ H 1 d], some queries at a time."""
        rows, heads, queries, width = query.shape
        chunk = max(1, MAX_GATHERED_NUMBERS // (rows * self.neighbours.shape[2] * heads * width))
        key, value = key.transpose(1, 2), value.transpose(1, 2)
        parts = [
            self._attend_chunk(query[:, :, index], key, value, index, scale)
            for index in torch.arange(queries, device=query.device).split(chunk)
        ]
        return torch.cat(parts, dim=2)

    def _attend_chunk(
        self,
        query: Float[Tensor, "B H q d"],
        key: Float[Tensor, "B T H d"],
        value: Float[Tensor, "B T H d"],
        index: Integer[Tensor, " q"],
        scale: float,
    ) -> Float[Tensor, "B H q d"]:
        rows = len(query)
        neighbours = self.neighbours.expand(rows, -1, -1)[:, index]
        at = neighbours.clamp(min=0)
        row = torch.arange(rows, device=at.device)[:, None, None]
        ids = []
        for query_ids, key_ids in self.ids:
            chunk_ids = query_ids.expand(rows, -1)[:, index].flatten()[:, None]
            neighbour_ids = key_ids.expand(rows, -1).gather(1, at.flatten(1)).view(-1, at.shape[2])
            ids.append((chunk_ids, neighbour_ids))
        query = query.transpose(1, 2).flatten(0, 1)[:, :, None]
        key, value = (x[row, at].flatten(0, 1).transpose(1, 2) for x in (key, value))
        query_scores = self.positions.query_scores(self.layer, query, ids)
        scaled_scores = [scale * score for score in query_scores]
        factor = self.factor
        factor = None if factor is None else factor.expand(rows, -1)[:, index].flatten()[:, None]
        bias = scale_logits(self.positions.bias(self.layer, ids), factor)
        query, key = self.positions.rotate(query, key, ids)
        score = (query * scale) @ key.transpose(-1, -2)
        score = sum(scaled_scores, score if bias is None else score + bias)
        hidden = (neighbours == NO_TOKEN).flatten(0, 1)[:, None, None]
        score = score.masked_fill(hidden, -math.inf)
        mixed = score.softmax(-1).to(value.dtype) @ value
        return mixed[:, :, 0].unflatten(0, (rows, -1)).transpose(1, 2)


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


def pick_rows(
    bias: Float[Tensor, "H T S"], query: Integer[Tensor, "B Q"]
) -> Float[Tensor, "B H Q S"]:
    """Return the rows of a bias at the queries of each example.

    >>> pick_rows(torch.eye(3)[None], torch.tensor([[2], [0]]))[:, 0, 0].tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    # The gradient of an embedding is summed faster than the gradient of an index.
    rows = F.embedding(query, bias.transpose(0, 1).flatten(1))
    return rows.unflatten(2, (bias.shape[0], -1)).transpose(1, 2)
