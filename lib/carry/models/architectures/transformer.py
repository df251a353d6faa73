"""A decoder: standard, with input injection, or looped.

tokens -> embedding (+ encodings of ids) ------+--------+----- injection
                      |                        |        |
                      v                        v        v
                   [ layer 1 -> ... ] -> [ layer 1 -> ... ] ->  norm (-> read-out) -> logits
                      recurrence 1          recurrence 2
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import pydantic
import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor, nn

from carry.models.architectures import Architecture
from carry.models.attention import AttentionContext, scale_gradient
from carry.models.cache import Cache
from carry.models.encodings import Depth, Encoding, ModelSettings, Width
from carry.models.hooks import LAYER_ACTIVATIONS, Hooks, LayerHook
from carry.models.initialisation import compute_deepnorm_gain, initialise_layer

RESIDUAL_IN_NORM = ("post", "pre_and_post")  # places of norms that norm the sum with the residual
NO_HOOK = LayerHook()
NORM_EPSILON = {"layer": 1e-5, "rms": 1e-6}  # by default
ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gated_gelu": F.gelu,
    "gated_gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
}


class Transformer(Architecture):
    """A decoder of `layers` layers, run `recurrences` times.

    `injection`: the embedded input is added again before every layer, at the entrance of each
    recurrence of the block, or never (mcleish2024, 3.2 and Fig. 19).
    `norm_place`: where the norms N1 and N2 of a part f of a layer stand (f is attention or the
    feed-forward network): `pre` is x + f(N1 x), `post` N2(x + f(x)), `pre_and_post`
    N2(x + f(N1 x)) (cho2025, App. B and released code), `pre_and_branch` x + N2(f(N1 x)). All but
    `post` have a norm before the logits.
    `norm_epsilon`: what norms add to the variance or the mean square; by default `NORM_EPSILON`.
    `embedding_norm`: a norm of token embeddings plus embeddings of ids, before they are injected
    (in the released code of mcleish2024, not in its text).
    `activation`: of the feed-forward networks; `gated_gelu_tanh` approximates the normal
    distribution in GELU by a tanh (Hendrycks & Gimpel 2016; released code of cho2025).
    `read_out`: between the block and the logits stand a feed-forward network without residual, a
    norm and a square matrix without bias (released code of mcleish2024, and its Table 3).
    `tied`: the logits are products with the token embeddings. `logit_scale`: a factor of the
    vector that these are read from. It is 1 by default; with tied embeddings it is
    1 / (sqrt(width) s), where s is the first standard deviation of embeddings, so that the first
    logits are of order 1 (Raffel et al. 2020, whose s is 1).
    `attention_scale`: `log` makes attention logits grow with the logarithm of the number of keys
    (see `carry.models.attention`).
    `divide_gradient`: the gradients of the layers' parameters are divided by the recurrences of the
    pass, and no other gradient is (mcleish2024, A.3.1; the released code rescales the loss).
    `biases`: of the linear maps; norms keep theirs. `logit_bias`: of the map to the logits.
    `feed_forward`, `output`, `final_norm`: without them a layer is attention alone, the outputs of
    its heads are added to the residual stream, and the logits are read from the stream
    (fraknoi2024, 5.2).
    `attention`: by plain products, by PyTorch's fused kernel, or only to the keys that windows
    show, gathered for each query (without a window, by plain products). `auto` chooses the fastest.
    All compute the same function.
    """

    class Settings(ModelSettings):
        """The settings of a transformer; `hidden` and `head_width` default to the width's."""

        recurrences: Depth = 1
        injection: Literal["none", "entrance", "every_layer"] = "none"
        head_width: Width | None = None
        hidden: Width | None = None
        activation: Literal["relu", "gelu", "gated_gelu", "gated_gelu_tanh"] = "relu"
        norm: Literal["layer", "rms", "none"] = "layer"
        norm_epsilon: float | None = pydantic.Field(default=None, gt=0.0, le=1.0)
        norm_place: Literal["pre", "post", "pre_and_post", "pre_and_branch"] = "pre"
        embedding_norm: bool = False
        biases: bool = True
        logit_bias: bool = False
        feed_forward: bool = True
        output: bool = True
        final_norm: bool = True
        tied: bool = False
        logit_scale: float | None = pydantic.Field(default=None, gt=0.0)
        initialisation: Literal["normal", "deepnorm", "t5"] = "normal"
        embedding_std: float | None = pydantic.Field(default=None, gt=0.0)
        read_out: bool = False
        divide_gradient: bool = False
        attention: Literal["auto", "plain", "fused", "gathered"] = "auto"
        attention_scale: Literal["constant", "log"] = "constant"

        @pydantic.model_validator(mode="after")
        def _check_widths(self) -> Transformer.Settings:
            if self.head_width is None and self.width % self.heads:
                raise ValueError(
                    f"width {self.width} with heads {self.heads} does not fit, expected a multiple "
                    "of heads, or a head_width"
                )
            if not self.output and self.heads * self.head_size != self.width:
                raise ValueError(
                    f"output false with heads {self.heads} of head_width {self.head_width} does "
                    f"not fit width {self.width}, expected heads that fill it, or output: true"
                )
            if self.embedding_norm and self.norm == "none":
                raise ValueError("embedding_norm true does not fit norm 'none', expected 'layer'")
            if self.norm_epsilon is not None and self.norm == "none":
                raise ValueError(
                    f"norm_epsilon {self.norm_epsilon} does not fit norm 'none', expected None"
                )
            return self

    def __init__(self, settings: Settings, symbols: int, encodings: Sequence[Encoding]) -> None:
        super().__init__(settings, symbols, encodings)
        self.tokens = nn.Embedding(symbols, settings.width)
        self.embedding_norm = make_norm(settings) if settings.embedding_norm else nn.Identity()
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.layers))
        has_final_norm = settings.final_norm and settings.norm_place != "post"
        self.final_norm = make_norm(settings) if has_final_norm else nn.Identity()
        self.read_out: nn.Module = nn.Identity()
        if settings.read_out:
            parts = {"feed_forward": FeedForward(settings), "norm": make_norm(settings)}
            parts["square"] = nn.Linear(settings.width, settings.width, bias=False)
            self.read_out = nn.Sequential(collections.OrderedDict(parts))
        self.logits = nn.Linear(settings.width, symbols, bias=settings.logit_bias)
        spread = settings.width**-0.5
        std = settings.embedding_std or (1.0 if settings.initialisation == "t5" else spread)
        self.logit_scale = settings.logit_scale or (spread / std if settings.tied else 1.0)
        self._initialise(std)
        if settings.tied:
            self.logits.weight = self.tokens.weight

    @torch.no_grad()
    def _initialise(self, std: float) -> None:
        """Set the first weights; embeddings get the standard deviation `std`."""
        settings, method = self.settings, self.settings.initialisation
        depth = self._initial_depth()
        for block in self.blocks:
            initialise_layer(block, method, depth, settings.heads)
        initialise_layer(self.read_out, method, depth, settings.heads, residual=False)
        nn.init.normal_(self.tokens.weight, std=std)
        self.initialise_encodings(std)
        if method == "deepnorm":
            nn.init.xavier_normal_(self.logits.weight, compute_deepnorm_gain(depth))
        else:
            nn.init.normal_(self.logits.weight, std=settings.width**-0.5)
        if settings.logit_bias:
            nn.init.zeros_(self.logits.bias)

    def _initial_depth(self) -> int:
        """Return the number of layers in the residual stream for which the first weights are."""
        return self.settings.layers * self.settings.recurrences

    def forward(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
        cache: Cache | None = None,
        hooks: Hooks | None = None,
    ) -> Float[Tensor, "B _ V"]:
        """Return the logits of the next token; see `Architecture.forward`.

        The last layer is computed for the tokens `at` alone, which changes nothing else.

        Args:
            cache: keys and values of the tokens before these, for decoding; these are added.
        """
        ends = self._ends(tokens, ids, at, recurrences, cache, hooks)
        (x,) = collections.deque(ends, maxlen=1)
        return self.read_logits(x, hooks)

    def next_logits(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        recurrences: int | None,
        cache: Cache,
    ) -> Float[Tensor, "B V"]:
        """Return the logits of the token that follows new tokens; the cache has keys and values."""
        return self(tokens, ids, None, recurrences, cache)[:, -1]

    @torch.no_grad()
    def each_recurrence(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
    ) -> Float[Tensor, "R B _ V"]:
        """Return logits as if the model ended after each recurrence (mcleish2024, Fig. 13).

        One pass computes all recurrences. The arguments are as in `forward`.
        """
        ends = self._ends(tokens, ids, at, recurrences, each=True)
        return torch.stack([self.read_logits(x) for x in ends])

    def read_logits(
        self, x: Float[Tensor, "*B D"], hooks: Hooks | None = None
    ) -> Float[Tensor, "*B V"]:
        """Return the logits as if the model ended with this residual stream."""
        hook, x = LayerHook(hooks=hooks), self.read_out(self.final_norm(x))
        x = x if self.logit_scale == 1.0 else self.logit_scale * x
        return hook("logits", self.logits(hook("final", x)))

    def activation_names(self, recurrences: int | None = None) -> list[str]:
        """Return the names of all activations that `Hooks` can read and replace."""
        parts, names = LAYER_ACTIVATIONS, ["embed"]
        if not self.settings.feed_forward:
            parts = [part for part in parts if not part.startswith("mlp")]
        for layer in range((recurrences or self.recurrences) * len(self.blocks)):
            names += [f"{layer}.{part}" for part in parts]
        return [*names, "final", "logits"]

    def hidden_matrices(self) -> list[nn.Parameter]:
        """Return the matrices inside the layers, which Muon trains."""
        return [weights for weights in self.blocks.parameters() if weights.ndim == 2]

    def _ends(
        self,
        tokens: Tensor,
        ids: Sequence[Tensor],
        at: Tensor | None,
        recurrences: int | None,
        cache: Cache | None = None,
        hooks: Hooks | None = None,
        each: bool = False,
    ) -> Iterator[Tensor]:
        """Yield what logits are read from after the last recurrence, or as if it were `each`.

        The last layer of the last recurrence is computed for the tokens `at` only.
        """
        count, past = recurrences or self.recurrences, cache.length if cache else 0
        # Gradients are divided after the layers and multiplied before them, so that only the
        # layers' parameters have divided gradients.
        divisor = count if self.settings.divide_gradient else 1
        self.start_hooks(hooks, count)
        dropout = self.dropout if self.training else None
        embedded = self.embedding_norm(self.add_encodings(self.tokens(tokens), ids, past))
        embedded = scale_gradient(LayerHook(None, hooks, dropout)("embed", embedded), divisor)
        total, keys = past + tokens.shape[1], tokens
        if self.far_keys is not None and cache is not None:
            (keys,) = cache.extend(tokens, dim=1)
        make_context = functools.partial(
            AttentionContext,
            self.encodings,
            ids=ids,
            key_count=total,
            tokens=keys,
            far_keys=self.far_keys,
            attention=self.settings.attention,
            log_scale=self.settings.attention_scale == "log",
            divisor=divisor,
        )
        index = torch.arange(past, total, device=tokens.device)[None]
        everywhere = make_context(index, in_order=past == 0)
        wanted = everywhere if at is None else make_context(at)
        x = torch.zeros_like(embedded)
        steps = count * len(self.blocks)
        for step in range(steps):
            layer, final = step % len(self.blocks), step == steps - 1
            entrance = layer == 0 and (step == 0 or self.settings.injection != "none")
            if entrance or self.settings.injection == "every_layer":
                x = x + embedded
            hook = LayerHook(step, hooks, dropout)
            context = wanted if final else everywhere
            attend = functools.partial(context.attend, layer, cache=cache, hook=hook)
            x = self.blocks[layer](x, attend, at if final else None, hook)
            if final or (each and layer == len(self.blocks) - 1):
                picked = x if final or at is None else pick_tokens(x, at)
                yield scale_gradient(picked, 1 / divisor)
        if cache is not None:
            cache.advance(tokens.shape[1])


def pick_tokens(x: Float[Tensor, "B T D"], at: Integer[Tensor, "_ A"]) -> Float[Tensor, "B A D"]:
    """Return the vectors of the tokens `at`: indices for each sequence, or one row for all.

    >>> pick_tokens(torch.arange(6.0).reshape(2, 3, 1), torch.tensor([[2, 0]]))[..., 0].tolist()
    [[2.0, 0.0], [5.0, 3.0]]
    """
    return x.gather(1, at[:, :, None].expand(len(x), -1, x.shape[2]))


class Block(nn.Module):
    """A layer: attention and a feed-forward network, each with its residual and its norms."""

    def __init__(self, settings: Transformer.Settings) -> None:
        super().__init__()
        inner, width = settings.heads * settings.head_size, settings.width
        self.settings, self.heads = settings, settings.heads
        self.query = nn.Linear(width, inner, bias=settings.biases)
        self.key_value = nn.Linear(width, 2 * inner, bias=settings.biases)
        self.output = (
            nn.Linear(inner, width, bias=settings.biases) if settings.output else nn.Identity()
        )
        self.feed_forward = FeedForward(settings) if settings.feed_forward else None
        pre, post = settings.norm_place != "post", settings.norm_place != "pre"
        parts = range(2 if settings.feed_forward else 1)
        self.before = nn.ModuleList(make_norm(settings) if pre else nn.Identity() for _ in parts)
        self.after = nn.ModuleList(make_norm(settings) if post else nn.Identity() for _ in parts)

    def forward(
        self, x: Tensor, attend: Callable[..., Tensor], at: Tensor | None, hook: LayerHook
    ) -> Tensor:
        """Return the residual stream after this layer, of the tokens `at` if there are any."""
        x = hook("resid_pre", x)
        source = self.before[0](x)
        reader = source
        if at is not None:
            x, reader = pick_tokens(x, at), pick_tokens(source, at)
        query = hook("q", self._split_heads(self.query(reader)))
        key, value = self.key_value(source).chunk(2, dim=-1)
        key, value = hook("k", self._split_heads(key)), hook("v", self._split_heads(value))
        scale = 1.0 if self.settings.initialisation == "t5" else query.shape[-1] ** -0.5
        mixed = hook("z", attend(query, key, value, scale))
        update = self.output(mixed.transpose(1, 2).flatten(2))
        x = hook("resid_mid", self._add(0, x, hook("attn_out", update)))
        if self.feed_forward is not None:
            update = hook("mlp_out", self.feed_forward(self.before[1](x), hook))
            x = self._add(1, x, update)
        return hook("resid_post", x)

    def _add(self, part: int, x: Tensor, update: Tensor) -> Tensor:
        if self.settings.norm_place in RESIDUAL_IN_NORM:
            return self.after[part](x + update)
        return x + self.after[part](update)

    def _split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """A network of one hidden layer, gated or not; `hidden` counts its units after the gate."""

    def __init__(self, settings: Transformer.Settings) -> None:
        super().__init__()
        hidden = settings.hidden or 4 * settings.width
        self.activation, self.gated = settings.activation, settings.activation.startswith("gated")
        gates = 2 if self.gated else 1
        self.up = nn.Linear(settings.width, gates * hidden, bias=settings.biases)
        self.down = nn.Linear(hidden, settings.width, bias=settings.biases)

    def forward(self, x: Tensor, hook: LayerHook = NO_HOOK) -> Tensor:
        """Return the output for each vector."""
        x, activate = self.up(x), ACTIVATIONS[self.activation]
        if self.gated:
            gate, x = x.chunk(2, dim=-1)
            x = activate(gate) * x
        else:
            x = activate(x)
        return self.down(hook("mlp_post", x))


def make_norm(settings: Transformer.Settings) -> nn.Module:
    """Return a LayerNorm or an RMSNorm of the model's width, or the identity."""
    if settings.norm == "none":
        return nn.Identity()
    epsilon = settings.norm_epsilon or NORM_EPSILON[settings.norm]
    kind = nn.RMSNorm if settings.norm == "rms" else nn.LayerNorm
    return kind(settings.width, eps=epsilon)
