"""Hooks: every activation of a pass has a name, by which it can be read or replaced.

    embed                 token embeddings plus embeddings of ids     [B, T, D]
    0.resid_pre           residual stream before layer 0              [B, T, D]
    0.q  0.k  0.v         queries, keys, values before rotation       [B, H, T, d]
    0.pattern             attention weights, queries by keys          [B, H, T, T]
    0.z                   weighted sum of values of each head         [B, H, T, d]
    0.attn_out            output of attention                         [B, T, D]
    0.resid_mid           residual stream after attention             [B, T, D]
    0.mlp_post            hidden units of the feed-forward network    [B, T, F]
    0.mlp_out             output of the feed-forward network          [B, T, D]
    0.resid_post          residual stream after layer 0               [B, T, D]
    final                 input of the linear map to the logits       [B, T, D]
    logits                                                            [B, T, V]

Layers are counted through all recurrences. A model without feed-forward networks has no `mlp`.
`embed` is after `embedding_norm`, `pattern` has the factors of attention logits, `q` does not. In
training steps they are after dropout. The names are shortened from TransformerLens (Nanda & Bloom
2022). That library has its own transformers, and its hooks are modules, so our weights would have
to be copied into them. Here hooks are a mapping that a pass receives, and they work in decoding,
loops and constructions too.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from carry.config.settings import SettingsError, suggest_name

Replacement = Tensor | Callable[[Tensor], Tensor]

LAYER_ACTIVATIONS = (
    *("resid_pre", "q", "k", "v", "pattern", "z", "attn_out", "resid_mid"),
    *("mlp_post", "mlp_out", "resid_post"),
)
# The share of dropout that an activation has.
SHARES = {
    "embed": "embeddings",
    "pattern": "inside",
    "attn_out": "outputs",
    "mlp_post": "inside",
    "mlp_out": "outputs",
}


class Hooks(dict[str, Tensor]):
    """The activations of one pass by name, as they are after any replacement.

    Args:
        read: names to keep, all by default; `*` matches anything, as in `*.pattern`.
        replace: for a name, a tensor of the same shape, or a function from the activation to the
            tensor that replaces it.

    Raises:
        SettingsError: when a pass begins, for a name that the model does not have; in the pass, for
            a tensor whose shape is not the activation's.

    >>> from carry.models.system import System
    >>> from carry.randomness import stream
    >>> from carry.experiments.resolve import make_run
    >>> system = System(make_run({"task": {"name": "addition"}}))
    >>> batch = system.format.write(system.task.draw(5, digits=3, generator=stream(0, "doctest")))
    >>> hooks = Hooks(["*.pattern"], replace={"0.z": lambda z: 0 * z})
    >>> logits = system.network(batch.tokens, system.ids(batch), hooks=hooks)
    >>> list(hooks), hooks["0.pattern"].shape
    (['0.pattern'], torch.Size([5, 4, 12, 12]))
    """

    def __init__(
        self, read: Iterable[str] = ("*",), replace: Mapping[str, Replacement] | None = None
    ) -> None:
        super().__init__()
        self.read, self.replace = list(read), dict(replace or {})
        self.names_to_read: set[str] = set()

    def __missing__(self, name: str) -> Tensor:
        raise SettingsError(f"activation: {name!r} was not read, {suggest_name(name, self)}")

    def all_layers(self, part: str) -> list[Tensor]:
        """Return one activation, such as `pattern`, of every layer that it was read in."""
        return [value for name, value in self.items() if name.partition(".")[2] == part]

    def start_pass(self, names: Iterable[str]) -> None:
        """Start a pass of a model with these activations; forget the last pass."""
        names, self.names_to_read = list(names), set()
        self.clear()
        for pattern in self.read:
            matches = fnmatch.filter(names, pattern)
            if not matches:
                raise SettingsError(
                    f"read: {pattern!r} is no activation, {suggest_name(pattern, names)}"
                )
            self.names_to_read.update(matches)
        for name in self.replace:
            if name not in names:
                raise SettingsError(
                    f"replace: {name!r} is no activation, {suggest_name(name, names)}"
                )

    def apply(self, name: str, value: Tensor) -> Tensor:
        """Replace an activation if requested, keep it if requested, and return it."""
        if name in self.replace:
            replacement, shape = self.replace[name], value.shape
            value = replacement if isinstance(replacement, Tensor) else replacement(value)
            if value.shape != shape:
                raise SettingsError(
                    f"replace.{name}: shape {tuple(value.shape)} does not fit, expected "
                    f"{tuple(shape)}"
                )
        if name in self.names_to_read:
            self[name] = value
        return value


class Dropout(NamedTuple):
    """Sets random activations of a training pass to 0, and enlarges the others to keep the mean.

    The shares of `outputs` (of attention and of feed-forward networks), of activations `inside`
    (attention weights and hidden units) and of `embeddings` (of tokens plus ids) are those of
    `Training`: `dropout`, `dropout_inside`, `dropout_embeddings`. `draws` gives the random numbers
    in the order of the pass.

    >>> from carry.randomness import stream
    >>> dropout = Dropout(0.5, 0.0, 0.0, stream(0, "doctest"))
    >>> dropout.apply("attn_out", torch.ones(1000)).unique().tolist()
    [0.0, 2.0]
    >>> dropout.apply("embed", torch.ones(1000)).unique().tolist()
    [1.0]
    """

    outputs: float
    inside: float
    embeddings: float
    draws: torch.Generator

    def apply(self, name: str, x: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """Return the activation of this name after dropout."""
        share = getattr(self, SHARES[name]) if name in SHARES else 0.0
        if not share:
            return x
        kept = torch.rand(x.shape, generator=self.draws, device=x.device) >= share
        return torch.where(kept, x / (1 - share), 0.0)


@dataclass(frozen=True)
class LayerHook:
    """Reads or replaces activations, of a layer if there is a number; after dropout in training."""

    number: int | None = None
    hooks: Hooks | None = None
    dropout: Dropout | None = None

    def __call__(self, part: str, value: Tensor) -> Tensor:
        """Return an activation as the rest of the pass uses it."""
        if self.dropout is not None:
            value = self.dropout.apply(part, value)
        name = part if self.number is None else f"{self.number}.{part}"
        return value if self.hooks is None else self.hooks.apply(name, value)

    @property
    def needs_weights(self) -> bool:
        """Whether it uses attention weights, so that the pass has to compute them."""
        if self.dropout is not None and self.dropout.inside > 0:
            return True
        hooks, name = self.hooks, f"{self.number}.pattern"
        return hooks is not None and (name in hooks.names_to_read or name in hooks.replace)
