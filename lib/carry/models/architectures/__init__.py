"""Architectures: models from tokens and ids to the logits of the next token."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from carry.config import settings as config
from carry.config.settings import SettingsError
from carry.models.attention import FarKeys
from carry.models.cache import Cache
from carry.models.encodings import Encoding, ModelSettings
from carry.models.hooks import Dropout, Hooks


class Architecture(nn.Module, ABC):
    """A causal model. Its settings are `Settings`, and its name in a row is the name of its file.

    A subclass has to define `forward` and `hidden_matrices`. Training, evaluation and decoding then
    work: decoding runs the model on the whole prefix at each step, unless `next_logits` uses the
    cache. Hooks are refused in one line where a model has no `activation_names`.

    Args:
        settings: the settings.
        symbols: the size of the vocabulary.
        encodings: the encodings of the ids, in the order of the row's `positions`.

    Shapes: B sequences of T tokens; A of them (`at`) are followed by wanted tokens; V symbols.
    """

    Settings: ClassVar[type[ModelSettings]] = ModelSettings

    def __init__(
        self, settings: ModelSettings, symbols: int, encodings: Sequence[Encoding]
    ) -> None:
        super().__init__()
        self.settings = settings
        self.encodings = nn.ModuleList(encodings)
        self.far_keys: FarKeys | None = None  # `System` sets them for a while
        self.dropout: Dropout | None = None  # in training mode; the trainer sets it for each step

    @abstractmethod
    def forward(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
        *,
        hooks: Hooks | None = None,
    ) -> Float[Tensor, "B _ V"]:
        """Return the logits of the next token. They must not depend on later tokens.

        Args:
            tokens: the sequences.
            ids: for each encoding the ids of all T tokens, maybe of more tokens.
            at: the indices of the tokens whose next tokens are wanted (default: all T), for each
                sequence, or one row for all.
            recurrences: how often a looped model runs its block (default: as in training).
            hooks: reads and replaces activations. Start with `self.start_hooks(hooks)`.
        """

    @abstractmethod
    def hidden_matrices(self) -> list[nn.Parameter]:
        """Return the matrices inside the layers, which Muon trains."""

    @property
    def name(self) -> str:
        """The name in a row's settings."""
        return type(self).__module__.rpartition(".")[2]

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        weights = next(self.parameters(), None)
        return torch.device("cpu") if weights is None else weights.device

    @property
    def recurrences(self) -> int:
        """How often the block of a looped model is run in training; 1 if it is not looped."""
        return getattr(self.settings, "recurrences", 1)

    @torch.no_grad()
    def initialise_encodings(self, std: float) -> None:
        """Set the first weights of the encodings; token embeddings have deviation `std`."""
        for encoding in self.encodings:
            encoding.initialise(std)

    def add_encodings(
        self, x: Float[Tensor, "B T D"], ids: Sequence[Integer[Tensor, "_ S"]], past: int = 0
    ) -> Float[Tensor, "B T D"]:
        """Return token embeddings plus the embeddings of their ids, after `past` earlier tokens."""
        for encoding, token_ids in zip(self.encodings, ids, strict=True):
            vectors = encoding.embed(token_ids[:, past : past + x.shape[1]])
            x = x if vectors is None else x + vectors
        return x

    def next_logits(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        recurrences: int | None,
        cache: Cache,
    ) -> Float[Tensor, "B V"]:
        """Return the logits of the token that follows new tokens of a sequence; decoding uses it.

        This default keeps the tokens in the cache, and runs the model on the whole prefix.

        Args:
            tokens: the tokens since the last call.
            ids: for each encoding the ids of all tokens from the first one, maybe of later tokens.
            cache: the state after the last call, or an empty cache; it is updated.
        """
        (prefix,) = cache.extend(tokens, dim=1)
        cache.advance(tokens.shape[1])
        last = torch.full((1, 1), prefix.shape[1] - 1, device=prefix.device)
        return self(prefix, ids, last, recurrences)[:, 0]

    def penalty(self, real: Bool[Tensor, "B A"]) -> Float[Tensor, ""] | None:
        """Return the term that the last training pass adds to the loss, or None; read it once.

        Args:
            real: which of the tokens `at` are not padding.
        """
        return None

    def activation_names(self, recurrences: int | None = None) -> list[str]:
        """Return the names of all activations that `Hooks` can read and replace."""
        raise SettingsError(f"model.name: {self.name!r} has no hooks; expected 'transformer'")

    def start_hooks(self, hooks: Hooks | None, recurrences: int | None = None) -> None:
        """Start a pass with hooks, if there are any; refuse names that the model does not have."""
        if hooks is not None:
            hooks.start_pass(self.activation_names(recurrences))


def choose_architecture(
    settings: dict[str, Any], where: str = "model"
) -> tuple[type[Architecture], Any]:
    """Return the architecture that settings name (`transformer` by default), and its settings.

    >>> kind, settings = choose_architecture({"layers": 2, "width": 64})
    >>> kind.__name__, settings.layers
    ('Transformer', 2)
    """
    settings = dict(settings)
    name = settings.pop("name", "transformer")
    kind = config.choose_class("carry.models.architectures", Architecture, name, f"{where}.name")
    return kind, kind.Settings.parse(settings, where)
