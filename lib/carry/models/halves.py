"""The two halves of an encoder-decoder (see `carry.models.architectures.universal`)."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from carry.models.architectures.adaptive import Adaptive
from carry.models.architectures.transformer import Block, Transformer, pick_tokens
from carry.models.attention import AttentionContext
from carry.models.cache import Cache
from carry.models.hooks import LayerHook


class View(NamedTuple):
    """What the tokens of a pass see.

    `end`: the index of the last token of each question, the first `=`; the number of tokens so far
    if there is none. `memory`: of the questions, for the decoder; `is_question`: its real tokens.
    """

    end: Integer[Tensor, " B"]
    encodings: nn.ModuleList
    memory: Float[Tensor, "B E D"] | None = None
    is_question: Bool[Tensor, "B E"] | None = None


@dataclass(eq=False)
class ViewedAttention(AttentionContext):
    """Attention in the encoder or in the decoder."""

    view: View | None = None

    @functools.cached_property
    def visible(self) -> Bool[Tensor, "B Q T"]:
        """Whether a query attends to a key: to itself, and in the encoder to its question.

        In the decoder a query from `=` on attends to the keys from `=` on, an earlier one to all
        keys before it.
        """
        query, end = self.query_index[:, :, None], self.view.end[:, None, None]
        key = torch.arange(self.key_count, device=query.device)
        if self.view.memory is None:
            return (key <= end) | (key == query)
        return (key <= query) & ((key >= end) | (query < end))


class Reader(Transformer):
    """Layers that read embedded tokens through a view; one half of a model."""

    def _ends(
        self,
        embedded: Tensor,
        ids: Sequence[Tensor],
        at: Tensor | None,
        recurrences: int,
        view: View,
        cache: Cache | None = None,
        each: bool = False,
    ) -> Iterator[Tensor]:
        """Yield the residual streams after each recurrence, as `Transformer` does.

        Args:
            embedded: the tokens that are read; with a cache the last ones.
            ids: of all tokens.
        """
        past = cache.length if cache else 0
        total, dropout = past + embedded.shape[1], self.dropout if self.training else None
        make_context = functools.partial(
            ViewedAttention,
            view.encodings,
            ids=ids,
            key_count=total,
            attention=self.settings.attention,
            log_scale=self.settings.attention_scale == "log",
            view=view,
        )
        everywhere = make_context(torch.arange(past, total, device=embedded.device)[None])
        wanted = everywhere if at is None else make_context(at)
        x, steps = torch.zeros_like(embedded), recurrences * len(self.blocks)
        for step in range(steps):
            layer, final = step % len(self.blocks), step == steps - 1
            entrance = layer == 0 and (step == 0 or self.settings.injection != "none")
            if entrance or self.settings.injection == "every_layer":
                x = x + embedded
            hook, context = LayerHook(step, None, dropout), wanted if final else everywhere
            attend = functools.partial(context.attend, layer, cache=cache, hook=hook)
            x = self.blocks[layer](x, attend, at if final else None, hook)
            if view.memory is not None:
                x = self.across[layer](x, view, context.query_index, hook)
            if layer == len(self.blocks) - 1:
                yield x if final or at is None else pick_tokens(x, at)


class Across(Block):
    """Attention to the memory of the question, and the feed-forward network of a layer."""

    def forward(
        self, x: Tensor, view: View, query: Integer[Tensor, "_ Q"], hook: LayerHook
    ) -> Tensor:
        """Return the residual stream after them; tokens before `=` have no memory."""
        asks = self._split_heads(self.query(self.before[0](x)))
        key, value = map(self._split_heads, self.key_value(view.memory).chunk(2, dim=-1))
        shown = view.is_question[:, None, None]
        mixed = F.scaled_dot_product_attention(asks, key, value, attn_mask=shown)
        mixed = mixed.transpose(1, 2).flatten(2) * (query >= view.end[:, None])[..., None]
        x = self._add(0, x, hook("attn_out", self.output(mixed)))
        return self._add(1, x, hook("mlp_out", self.feed_forward(self.before[1](x), hook)))


class Encoder(Adaptive, Reader):
    """The half that reads the question; `Universal` embeds its tokens."""

    def __init__(self, settings: Adaptive.Settings, symbols: int) -> None:
        super().__init__(settings, symbols, [])
        self.tokens = self.embedding_norm = self.logits = nn.Identity()

    def read(
        self, embedded: Tensor, ids: Sequence[Tensor], recurrences: int | None, view: View
    ) -> Float[Tensor, "B E D"]:
        """Return the memory of the questions."""
        mixtures = self._mixtures(embedded, ids, None, recurrences, view)
        ((x, _, _),) = collections.deque(mixtures, maxlen=1)
        return self.final_norm(x)
