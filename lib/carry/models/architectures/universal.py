"""A universal transformer: encoder and decoder of recurrent layers (Dehghani et al. 2018).

question ... =  ->  [ layers ] x recurrences  ->  norm  ->  memory      each token sees all others
                                                              |
          = answer ...  ->  [ attention to = and the answer so far
                              attention to the memory
                              feed-forward network ] x recurrences  ->  norm  ->  logits

Both halves are shared over recurrences, and each of their tokens halts by itself, as in `adaptive`.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from carry.config.settings import SettingsError
from carry.formats import EQUALS
from carry.models.architectures import Architecture
from carry.models.architectures.adaptive import Adaptive
from carry.models.cache import Cache
from carry.models.encodings import Encoding
from carry.models.halves import Across, Encoder, Reader, View
from carry.models.hooks import Hooks, LayerHook
from carry.models.initialisation import initialise_layer


class Universal(Adaptive, Reader):
    """An encoder that reads the question up to the first `=`, and a decoder that answers.

    The settings are those of `adaptive`, for each half: `layers`, `recurrences`, `ponder`, ...; the
    halves share the embeddings of tokens and ids, and no layer. A token of the question before `=`
    predicts its next token as in a decoder without memory.

    Source: ibrahimli2024, 2.1.3 and 4.3.1, whose positions restart in the decoder (ids
    `restarted`).
    """

    class Settings(Adaptive.Settings):
        """The settings of each half."""

        recurrences: Literal[2, 3, 4, 5, 6, 7, 8] = 3
        feed_forward: Literal[True] = True
        output: Literal[True] = True
        divide_gradient: Literal[False] = False

    def __init__(self, settings: Settings, symbols: int, encodings: Sequence[Encoding]) -> None:
        for encoding in encodings:
            if encoding.window is not None or encoding.needs_order:
                raise SettingsError(
                    f"model.name: 'universal' does not fit the encoding {encoding.label!r}, whose "
                    "tokens see none to their right; expected one without window, not 'fire', 't5'"
                )
        super().__init__(settings.model_copy(update={"feed_forward": False}), symbols, encodings)
        self.settings = settings
        self.across = nn.ModuleList(Across(settings) for _ in range(settings.layers))
        depth = settings.layers * settings.recurrences
        for layer in self.across:
            initialise_layer(layer, settings.initialisation, depth, settings.heads)
        self.encoder = Encoder(settings, symbols)
        self._is_question: Tensor | None = None  # the tokens that the encoder read last

    def forward(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
        cache: Cache | None = None,
        hooks: Hooks | None = None,
    ) -> Float[Tensor, "B _ V"]:
        """Return the logits of the next token; see `Transformer.forward`.

        Both halves take `recurrences` at most.
        """
        self.start_hooks(hooks)
        mixtures = self._mixtures(tokens, ids, at, recurrences, cache)
        ((x, _, _),) = collections.deque(mixtures, maxlen=1)
        return self.read_logits(x)

    def activation_names(self, recurrences: int | None = None) -> list[str]:
        """Refuse hooks."""
        return Architecture.activation_names(self, recurrences)

    def hidden_matrices(self) -> list[nn.Parameter]:
        """Return the matrices inside the layers of both halves."""
        across = [weights for weights in self.across.parameters() if weights.ndim == 2]
        return [*super().hidden_matrices(), *across, *self.encoder.hidden_matrices()]

    def penalty(self, real: Bool[Tensor, "B A"]) -> Float[Tensor, ""] | None:
        """Return the mean ponder cost of the tokens `real`, plus that of the questions' tokens."""
        cost = super().penalty(real)
        return None if cost is None else cost + self.encoder.penalty(self._is_question)

    def _mixtures(
        self,
        tokens: Tensor,
        ids: Sequence[Tensor],
        at: Tensor | None,
        recurrences: int | None,
        cache: Cache | None = None,
    ) -> Iterator[tuple[Tensor, list[Tensor], Tensor]]:
        """Yield the mixtures of the decoder; see `Adaptive`."""
        if self.far_keys is not None:
            raise SettingsError(
                "model.name: 'universal' counts all keys once; expected no training.longer, "
                "and no start 'window'"
            )
        self.encoder.dropout = self.dropout
        past = cache.length if cache else 0
        if cache is not None:
            (tokens,) = cache.extend(tokens, dim=1)
        is_end = tokens == EQUALS
        end = torch.where(is_end.any(1), is_end.int().argmax(1), tokens.shape[1])
        embedded = self.embedding_norm(self.add_encodings(self.tokens(tokens), ids))
        embedded = LayerHook(None, None, self.dropout if self.training else None)("embed", embedded)
        view = View(end, self.encodings)
        if past == 0 or (end >= past).any():  # a question has grown
            read = embedded[:, : int(end.max()) + 1]
            memory = self.encoder.read(read, ids, recurrences, view)
            if past:
                cache.steps[1] = (memory,)
        if cache is not None:
            (memory,) = cache.extend(memory if past == 0 else embedded[:, :0], dim=1)
        self._is_question = torch.arange(memory.shape[1], device=end.device) <= end[:, None]
        if (
            cache is None and at is not None and (at >= end[:, None]).all()
        ):  # the decoder reads answers alone
            past = int(end.min())
            ids, at, end = [values[:, past:] for values in ids], at - past, end - past
        view = View(end, self.encodings, memory, self._is_question)
        yield from super()._mixtures(embedded[:, past:], ids, at, recurrences, view, cache)
        if cache is not None:
            cache.advance(tokens.shape[1] - past)

    def next_logits(self, *inputs: Any) -> Float[Tensor, "B V"]:
        """Return the logits of the next token; the cache has tokens, memory, keys and values."""
        tokens, ids, recurrences, cache = inputs
        return self(tokens, ids, None, recurrences, cache)[:, -1]
