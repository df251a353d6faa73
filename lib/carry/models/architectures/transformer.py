"""One decoder for all: standard, with input injection, looped.

tokens -> embedding (+ encodings of ids) ------+--------+----- injection
                      |                        |        |
                      v                        v        v
                   [ layer 1 -> ... ] -> [ layer 1 -> ... ] ->  norm (-> read-out) -> logits
                      recurrence 1          recurrence 2
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Literal

import pydantic
import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor, nn

from carry.config import settings
from carry.models.architectures import Architecture
from carry.models.attention import (
    AttentionContext,
    DenseAttention,
    PositionEncodings,
    WindowedAttention,
)
from carry.models.cache import Cache
from carry.models.encodings import Encoding, Shape
from carry.models.hooks import Hook, Hooks, activation_names, no_hook
from carry.models.initialisation import initialise_layer


class Transformer(Architecture):
    """A decoder of `layers` layers, run `recurrences` times.

    `injection`: the embedded input is added again before every layer, or at the entrance of each
    recurrence of the block, or never (mcleish2024, 3.2 and Fig. 19).
    `read_out`: more layers between the block and the logits, see `ReadOut`.
    `divide_gradient`: the gradients of the layers' parameters are divided by the recurrences that
    were run, and no other gradient is (mcleish2024, A.3.1; the released code rescales the loss).
    `biases`: of the linear maps; norms keep theirs. `logit_bias`: of the last of them.
    `feed_forward`, `output`, `final_norm`: without them a layer is attention alone, what its heads
    find is added as it is, and the logits are read off the residual stream (fraknoi2024, 5.2).
    `attention`: by plain products, by torch's fused kernel, or to what windows show alone, gathered
    for each query; `auto` chooses by what is faster. All find the same.
    """

    class Settings(settings.Settings):
        """The settings of this kind; `hidden` and `head_width` follow from the width if unset."""

        layers: int = pydantic.Field(default=1, ge=1)
        recurrences: int = pydantic.Field(default=1, ge=1)
        injection: Literal["none", "entrance", "every_layer"] = "none"
        width: int = pydantic.Field(default=128, ge=1)
        heads: int = pydantic.Field(default=4, ge=1)
        head_width: int | None = pydantic.Field(default=None, ge=1)
        hidden: int | None = pydantic.Field(default=None, ge=1)
        activation: Literal["relu", "gelu", "gated_gelu"] = "relu"
        norm: Literal["layer", "rms", "none"] = "layer"
        norm_place: Literal["pre", "post", "pre_and_post"] = "pre"
        biases: bool = True
        logit_bias: bool = False
        feed_forward: bool = True
        output: bool = True
        final_norm: bool = True
        tied: bool = False
        residual_scale: float = 1.0
        initialisation: Literal["normal", "deepnorm", "t5"] = "normal"
        embedding_std: float | None = pydantic.Field(default=None, gt=0.0)
        read_out: bool = False
        divide_gradient: bool = False
        attention: Literal["auto", "plain", "fused", "gathered"] = "auto"

        @pydantic.model_validator(mode="after")
        def _divides(self) -> Transformer.Settings:
            if self.head_width is None and self.width % self.heads:
                raise ValueError(
                    f"width {self.width} with heads {self.heads} does not fit, expected a width "
                    "that the heads divide, or a head_width of its own"
                )
            inner = self.heads * (self.head_width or self.width // self.heads)
            if not self.output and inner != self.width:
                raise ValueError(
                    f"output false with heads {self.heads} of head_width {self.head_width} does "
                    f"not fit width {self.width}, expected heads that fill it, or output: true"
                )
            return self

    def __init__(
        self, given: Settings, symbols: int, encodings: Sequence[Encoding], shape: Shape
    ) -> None:
        super().__init__()
        if given.attention == "gathered" and not any(of.window for of in encodings):
            raise settings.SettingsError(
                "attention 'gathered' does not fit without a window; expected 'auto'"
            )
        self.given = given
        self.encodings = nn.ModuleList(encodings)
        self.tokens = nn.Embedding(symbols, given.width)
        self.blocks = nn.ModuleList(Block(given, shape) for _ in range(given.layers))
        last = given.final_norm and "pre" in given.norm_place
        self.final_norm = make_norm(given) if last else nn.Identity()
        self.read_out = ReadOut(given) if given.read_out else nn.Identity()
        self.logits = nn.Linear(given.width, symbols, bias=given.logit_bias)
        self._initialise()
        if given.tied:
            self.logits.weight = self.tokens.weight

    @torch.no_grad()
    def _initialise(self) -> None:
        given = self.given
        for block in self.blocks:
            depth = given.layers * given.recurrences
            initialise_layer(block, given.initialisation, depth, given.heads)
        initialise_layer(self.read_out, given.initialisation, None, given.heads)
        spread = given.width**-0.5
        std = given.embedding_std or (1.0 if given.initialisation == "t5" else spread)
        nn.init.normal_(self.tokens.weight, std=std)
        for encoding in self.encodings:
            encoding.initialise(std)
        nn.init.normal_(self.logits.weight, std=spread)
        if given.logit_bias:
            nn.init.zeros_(self.logits.bias)

    @staticmethod
    def shape(given: Settings) -> Shape:
        """Return the sizes that encodings need to know."""
        return Shape(given.width, given.heads, given.head_width or given.width // given.heads,
                     given.layers)  # fmt: skip

    def forward(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
        cache: Cache | None = None,
        inside: Hooks | None = None,
    ) -> Float[Tensor, "B _ V"]:
        """Return logits for the next token.

        Args:
            tokens: the sequences.
            ids: one for each encoding.
            at: the tokens whose successors are wanted (default: all), in a single row if they
                are the same for all. The last layer is worked out for these alone, which changes
                nothing else.
            recurrences: times to run the block, free to differ from training.
            cache: keys and values of the tokens before these, for decoding.
            inside: reads and replaces activations on the way.

        Raises:
            SettingsError: for less than one recurrence, and for activations that are not there.
        """
        rounds = self._rounds(recurrences)
        streams = self._streams(tokens, ids, at, rounds, cache, inside)
        (x,) = collections.deque(streams, maxlen=1)
        return self.read(self._scaled(x, 1 / rounds), inside)

    @torch.no_grad()
    def each_recurrence(
        self,
        tokens: Integer[Tensor, "B T"],
        ids: Sequence[Integer[Tensor, "_ S"]],
        at: Integer[Tensor, "_ A"] | None = None,
        recurrences: int | None = None,
    ) -> Float[Tensor, "R B _ V"]:
        """Return logits as if the model ended after each recurrence (mcleish2024, Fig. 13).

        Takes what `forward` does, and one pass for all recurrences; the last are its logits.

        Raises:
            SettingsError: for less than one recurrence.
        """
        rounds, logits = self._rounds(recurrences), []
        for x in self._streams(tokens, ids, at, rounds, None):
            final = len(logits) == rounds - 1
            logits.append(self.read(x if final or at is None else pick_tokens(x, at)))
        return torch.stack(logits)

    def read(self, x: Float[Tensor, "*B D"], inside: Hooks | None = None) -> Float[Tensor, "*B V"]:
        """Return the logits as if the model ended with this residual stream."""
        take = no_hook if inside is None else inside.take
        return take("logits", self.logits(take("final", self.read_out(self.final_norm(x)))))

    def activations(self, recurrences: int | None = None) -> list[str]:
        """Return the names of all that `Inside` can read and replace."""
        return activation_names(
            self._rounds(recurrences) * len(self.blocks), self.given.feed_forward
        )

    def _rounds(self, recurrences: int | None) -> int:
        rounds = self.given.recurrences if recurrences is None else recurrences
        if rounds < 1:
            raise settings.SettingsError(f"recurrences: {rounds} does not fit, expected at least 1")
        return rounds

    def _streams(
        self,
        tokens: Tensor,
        ids: Sequence[Tensor],
        at: Tensor | None,
        rounds: int,
        cache: Cache | None,
        inside: Hooks | None = None,
    ) -> Iterator[Tensor]:
        """Yield the residual stream after each recurrence, the last one at the tokens `at` only."""
        if inside is not None:
            inside.begin(self.activations(rounds))
        past = cache.length if cache else 0
        total = past + tokens.shape[1]
        inject = self.tokens(tokens)
        for encoding, of in zip(self.encodings, ids, strict=True):
            felt = encoding.embed(of[:, past:total])
            inject = inject if felt is None else inject + felt
        inject = inject if inside is None else inside.take("embed", inject)
        inject = self._scaled(inject, rounds)
        index = torch.arange(past, total, device=tokens.device)[None]
        felt = PositionEncodings(self.encodings, self.given.attention, self._scaled, rounds)
        everywhere = AttentionContext(felt, index, ids, total)
        wanted = everywhere if at is None else AttentionContext(felt, at, ids, total)
        x = torch.zeros_like(inject)
        for step in range(rounds * len(self.blocks)):
            layer = step % len(self.blocks)
            entrance = layer == 0 and (step == 0 or self.given.injection != "none")
            if entrance or self.given.injection == "every_layer":
                x = x + inject
            final = step == rounds * len(self.blocks) - 1
            take = no_hook if inside is None else inside.layer(step)
            whole = inside is not None and inside.wants(f"{step}.pattern")
            look = (wanted if final else everywhere).layer(layer, whole or cache is not None)
            x = self.blocks[layer](x, look, at if final else None, cache, take, whole)
            if layer == len(self.blocks) - 1:
                yield x

    def _scaled(self, x: Tensor, factor: int | float) -> Tensor:
        """Divide gradients where the layers end, and multiply them where they begin, if asked to.

        So those of the layers alone are divided, and what is before them keeps its own.
        """
        return ScaledGradient.apply(x, factor) if self.given.divide_gradient else x


def pick_tokens(x: Float[Tensor, "B T D"], at: Integer[Tensor, "_ A"]) -> Float[Tensor, "B A D"]:
    """Return the vectors of the tokens `at`, given for each sequence or in one row for all.

    >>> pick_tokens(torch.arange(6.0).reshape(2, 3, 1), torch.tensor([[2, 0]]))[..., 0].tolist()
    [[2.0, 0.0], [5.0, 3.0]]
    """
    return x.gather(1, at[:, :, None].expand(len(x), -1, x.shape[2]))


class ScaledGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a factor on its way back."""

    @staticmethod
    def forward(ctx, x: Tensor, factor: int | float) -> Tensor:
        """Return the same values."""
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the scaled gradient."""
        return gradient * ctx.factor, None


class Block(nn.Module):
    """Attention and a feed-forward network, each with its residual and its norms."""

    def __init__(self, given: Transformer.Settings, shape: Shape) -> None:
        super().__init__()
        inner = shape.heads * shape.head_width
        self.given, self.heads = given, shape.heads
        self.query = nn.Linear(given.width, inner, bias=given.biases)
        self.key_value = nn.Linear(given.width, 2 * inner, bias=given.biases)
        output = nn.Linear(inner, given.width, bias=given.biases) if given.output else nn.Identity()
        self.output = output
        self.feed_forward = FeedForward(given) if given.feed_forward else None
        pre, post = "pre" in given.norm_place, "post" in given.norm_place
        parts = range(2 if given.feed_forward else 1)
        self.before = nn.ModuleList(make_norm(given) if pre else nn.Identity() for _ in parts)
        self.after = nn.ModuleList(make_norm(given) if post else nn.Identity() for _ in parts)

    def forward(
        self,
        x: Tensor,
        look: DenseAttention | WindowedAttention,
        at: Tensor | None,
        cache: Cache | None,
        take: Hook = no_hook,
        whole: bool = False,
    ) -> Tensor:
        """Return the residual stream after this layer, at the tokens `at` only if given.

        `take`: what each activation goes through. `whole`: the attention weights are asked for.
        """
        x = take("resid_pre", x)
        source = self.before[0](x)
        if at is not None:
            x, reader = pick_tokens(x, at), pick_tokens(source, at)
        else:
            reader = source
        found = self._attention(reader, source, look, cache, take, whole)
        x = take("resid_mid", self._add(0, x, take("attn_out", found)))
        if self.feed_forward is not None:
            made = take("mlp_out", self.feed_forward(self.before[1](x), take))
            x = self._add(1, x, made)
        return take("resid_post", x)

    def _add(self, part: int, x: Tensor, update: Tensor) -> Tensor:
        if self.given.norm_place == "post":  # the residual is inside the norm
            return self.after[part](self.given.residual_scale * x + update)
        return self.given.residual_scale * x + self.after[part](update)

    def _attention(
        self,
        reader: Tensor,
        source: Tensor,
        look: DenseAttention | WindowedAttention,
        cache: Cache | None,
        take: Hook,
        whole: bool,
    ) -> Tensor:
        query = take("q", self._split(self.query(reader)))
        both = (self._split(part) for part in self.key_value(source).chunk(2, dim=-1))
        key, value = (take(part, of) for part, of in zip("kv", both, strict=True))
        scale = 1.0 if self.given.initialisation == "t5" else query.shape[-1] ** -0.5
        mixed = look.attend(query, key, value, scale, cache, take, whole)
        return self.output(take("z", mixed).transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """A network of one hidden layer, gated or not; `hidden` counts its units after the gate."""

    def __init__(self, given: Transformer.Settings) -> None:
        super().__init__()
        hidden = given.hidden or 4 * given.width
        gates = 2 if given.activation == "gated_gelu" else 1
        self.activation = given.activation
        self.up = nn.Linear(given.width, gates * hidden, bias=given.biases)
        self.down = nn.Linear(hidden, given.width, bias=given.biases)

    def forward(self, x: Tensor, take: Hook = no_hook) -> Tensor:
        """Return what is to be added to the residual stream, or read."""
        x = self.up(x)
        if self.activation == "gated_gelu":
            gate, x = x.chunk(2, dim=-1)
            x = F.gelu(gate) * x
        else:
            x = F.relu(x) if self.activation == "relu" else F.gelu(x)
        return self.down(take("mlp_post", x))


class ReadOut(nn.Module):
    """A feed-forward network without residual, a norm and a square matrix without bias.

    They stand before the logits in the released code of mcleish2024, and in its Table 3.
    """

    def __init__(self, given: Transformer.Settings) -> None:
        super().__init__()
        self.feed_forward = FeedForward(given)
        self.norm = make_norm(given)
        self.square = nn.Linear(given.width, given.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the logits are read from."""
        return self.square(self.norm(self.feed_forward(x)))


def make_norm(given: Transformer.Settings) -> nn.Module:
    """Return a LayerNorm or an RMSNorm of the model's width, or nothing."""
    if given.norm == "none":
        return nn.Identity()
    if given.norm == "rms":
        return nn.RMSNorm(given.width, eps=1e-6)
    return nn.LayerNorm(given.width)


def parameters(network: nn.Module) -> int:
    """Return the number of parameters, shared ones counted once.

    >>> parameters(nn.Linear(3, 2))
    8
    """
    return sum(parameter.numel() for parameter in network.parameters())
