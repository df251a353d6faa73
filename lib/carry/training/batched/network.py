"""Many layers of attention as one computation, each with weights of its own.

One layer without positions says the same of a string whatever its order: its next token depends on
how often each token stands before it. With s(q, t) the score of a key token t for a query token q:

    attention    count(t) exp s(q, t) / sum over t       seven kinds of tokens, however long it is

That is exact (`by_counts`), also in training with dropout behind attention; dropout on embeddings
treats equal tokens differently, which needs the tokens one by one (`by_tokens`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from carry.config.settings import SettingsError
from carry.formats import BOS, EQUALS
from carry.models.system import System
from carry.tasks.noisy_majority import ONES, ZEROS

KINDS = (BOS, 0, 1, 2, EQUALS, ZEROS, ONES)  # the tokens that attention can meet
ASKED = KINDS[4:]  # those whose successor is asked for


class StringCounts(NamedTuple):
    """Strings by what attention depends on: how often each of `KINDS` is there, and what asks.

    Shapes: for all models or for each its own, S strings; `asked` is 1 for the one of `ASKED` that
    stands last.
    """

    counts: Float[Tensor, "_ S C"]
    asked: Float[Tensor, "_ S Q"]

    @property
    def ones(self) -> Bool[Tensor, "_ S"]:
        """Whether ones are the majority."""
        return self.counts[..., 2] > self.counts[..., 1]

    @property
    def due(self) -> Integer[Tensor, "_ S"]:
        """What is due behind `=`."""
        return torch.where(self.ones, ONES, ZEROS)

    def spread(self) -> Float[Tensor, "_ S QC"]:
        """Return the counts, in a part of their own for each that may ask; other parts are 0."""
        return (self.asked[..., None] * self.counts[:, :, None]).flatten(2)


class BatchedNetwork(nn.Module):
    """The models of some systems, which differ in nothing but their weights.

    Shapes: M models of width D and H heads of W features, V symbols; S strings, for all models or
    for each its own; C kinds of tokens.

    >>> from carry.config.run_settings import make_run
    >>> model = {"width": 4, "heads": 2, "feed_forward": False}
    >>> run = make_run({"task": {"name": "noisy_majority"}, "model": model})
    >>> both = BatchedNetwork([System(run, seed) for seed in (0, 1)])
    >>> both.by_counts(count_strings(torch.tensor([[3, 1, 9]])))[:, 0].shape
    torch.Size([2, 15])

    Raises:
        SettingsError: for models of several layers, with positions or a feed-forward network.
    """

    def __init__(self, systems: Sequence[System]) -> None:
        super().__init__()
        self.given = given = systems[0].network.given
        where = f"runs.{systems[0].run.name}"
        for field, wanted in (
            ("layers", 1), ("recurrences", 1), ("feed_forward", False), ("norm_place", "pre"),
        ):  # fmt: skip
            if getattr(given, field) != wanted:
                raise SettingsError(
                    f"{where}.model.{field}: {getattr(given, field)!r} does not fit models that "
                    f"are trained together; expected {wanted!r}"
                )
        for field, wanted in (("begin", "^"), ("pad_to", None), ("spaces", 0.0)):
            value = getattr(systems[0].format, field, wanted)
            if value != wanted:  # other tokens than those that are counted
                raise SettingsError(
                    f"{where}.format.{field}: {value!r} does not fit models that are trained "
                    f"together; expected {wanted!r}"
                )
        if systems[0].schemes:
            raise SettingsError(
                f"{where}.positions: {len(systems[0].schemes)} do not fit models that are trained "
                "together; expected none"
            )
        stacked, _ = torch.func.stack_module_state([system.network for system in systems])
        self.weights = nn.ParameterDict(
            {name.replace(".", "/"): nn.Parameter(of.detach()) for name, of in stacked.items()}
        )
        self.register_buffer("kinds", torch.tensor(KINDS))
        self.register_buffer("heads", torch.ones(len(systems), given.heads))

    def __len__(self) -> int:
        return len(self.heads)

    def by_counts(
        self, strings: StringCounts, heads: Float[Tensor, "M H"] | None = None
    ) -> Float[Tensor, "M S V"]:
        """Return the logits behind strings.

        Args:
            heads: 1 for heads that take part, 0 for those that do not (default: `self.heads`).
        """
        kinds = self._kinds()
        mixed = self._mixed(kinds, strings, self.heads if heads is None else heads)
        return self._read(mixed.flatten(2), strings.asked.to(kinds) @ kinds[:, 4:], None)

    def by_products(
        self, spread: Float[Tensor, "_ S QC"], kept: Float[Tensor, "M S D"] | None = None
    ) -> Float[Tensor, "M S V"]:
        """Return what `by_counts` does, faster: from counts spread by what asks (`Strings.spread`).

        The numerators and denominators of attention are sums over kinds: two products of matrices.
        Of a string all of whose tokens score e^87 times less than one that it does not have comes
        not a number.

        Args:
            kept: what dropout multiplies that by which attention adds to the residual stream.
        """
        kinds = self._kinds()
        scores, value = self._scores(kinds)
        weights = (scores - scores.amax(-1, keepdim=True).detach()).exp()[..., None]
        value = (value * self.heads[:, :, None, None])[:, :, None]
        above, below = (  # a row for each kind and what asks, a column for each feature of a head
            of.permute(0, 2, 3, 1, 4).flatten(3).flatten(1, 2)
            for of in (weights * value, weights.expand(*weights.shape[:4], value.shape[-1]))
        )
        mixed = (spread @ above) / (spread @ below)
        asked = spread[..., :: len(KINDS)].contiguous()  # every string has one beginning
        return self._read(mixed, asked @ kinds[:, 4:], kept)

    def head_outputs(self, strings: StringCounts) -> Float[Tensor, "M S H W"]:
        """Return what each head finds, before it is projected; those left out find nothing."""
        return self._mixed(self._kinds(), strings, self.heads)

    def _mixed(
        self, kinds: Tensor, strings: StringCounts, heads: Float[Tensor, "M H"]
    ) -> Float[Tensor, "M S H W"]:
        scores, value = self._scores(kinds)
        counts, asked = (of.to(kinds) for of in strings)
        chosen = (asked @ scores.transpose(1, 2).flatten(2)).unflatten(2, (-1, len(KINDS)))
        shares = (chosen + counts.log()[:, :, None]).softmax(-1)
        return torch.einsum("mshc,mhcw->mshw", shares, value * heads[:, :, None, None])

    def scores(self) -> tuple[Float[Tensor, "M H Q C"], Float[Tensor, "M H C W"]]:
        """Return the scores of all kinds of tokens for each token asked, and their values."""
        return self._scores(self._kinds())

    def _scores(self, kinds: Float[Tensor, "M C D"]) -> tuple[Tensor, Tensor]:
        source = self._normed(kinds, "blocks/0/before/0")
        query, key, value = self._queries_keys_values(source[:, 4:], source)
        return query @ key.transpose(-1, -2), value

    def by_tokens(
        self,
        tokens: Integer[Tensor, "_ S T"],
        at: Integer[Tensor, "_ S A"],
        kept_embeddings: Float[Tensor, "M S T D"] | None = None,
        kept: Float[Tensor, "M S A D"] | None = None,
    ) -> Float[Tensor, "M S A V"]:
        """Return the logits behind the tokens `at`, from attention to every token before them."""
        models = torch.arange(len(self), device=tokens.device)[:, None, None]
        embedded = self.weights["tokens/weight"][models, tokens]
        if kept_embeddings is not None:
            embedded = embedded * kept_embeddings
        size = (*embedded.shape[:2], at.shape[-1])
        at = at.expand(size)
        reader = embedded.gather(2, at[..., None].expand(*size, embedded.shape[-1]))
        source, query = (
            self._normed(x.flatten(1, 2), "blocks/0/before/0") for x in (embedded, reader)
        )
        parts = self._queries_keys_values(query, source)
        query, key, value = (x.unflatten(2, (size[1], -1)).transpose(1, 2) for x in parts)
        later = torch.arange(tokens.shape[-1], device=tokens.device) > at[..., None]
        scores = (query @ key.transpose(-1, -2)).masked_fill(later[:, :, None], -torch.inf)
        mixed = (scores.softmax(-1) @ value) * self.heads[:, None, :, None, None]
        mixed, reader = mixed.transpose(2, 3).flatten(3).flatten(1, 2), reader.flatten(1, 2)
        kept = None if kept is None else kept.flatten(1, 2)
        return self._read(mixed, reader, kept).unflatten(1, size[1:])

    def _kinds(self) -> Float[Tensor, "M C D"]:
        return self.weights["tokens/weight"].index_select(1, self.kinds)

    def _queries_keys_values(self, query: Tensor, source: Tensor) -> tuple[Tensor, ...]:
        """Return what heads [M H _ W] compare and read; queries are scaled."""
        query = self._linear(query, "blocks/0/query")
        key, value = self._linear(source, "blocks/0/key_value").chunk(2, dim=-1)
        parts = [
            x.unflatten(2, (self.given.heads, -1)).transpose(1, 2) for x in (query, key, value)
        ]
        scale = 1.0 if self.given.initialisation == "t5" else parts[0].shape[-1] ** -0.5
        return parts[0] * scale, parts[1], parts[2]

    def _read(self, mixed: Tensor, reader: Tensor, kept: Tensor | None) -> Tensor:
        """Return logits from the outputs of heads and the tokens that ask."""
        found = self._linear(mixed, "blocks/0/output") if self.given.output else mixed
        if kept is not None:
            found = found * kept
        whole = self.given.residual_scale * reader + found
        return self._linear(self._normed(whole, "final_norm"), "logits")

    def _linear(self, x: Tensor, name: str) -> Tensor:
        x = x @ self.weights[f"{name}/weight"].transpose(1, 2)
        bias = f"{name}/bias"
        return x + self.weights[bias][:, None] if bias in self.weights else x

    def _normed(self, x: Tensor, name: str) -> Tensor:
        weight = f"{name}/weight"
        if weight not in self.weights:  # there is no norm
            return x
        if self.given.norm == "rms":
            x = F.rms_norm(x, x.shape[-1:], eps=1e-6)
        else:
            x = F.layer_norm(x, x.shape[-1:])
        bias = f"{name}/bias"
        x = x * self.weights[weight][:, None]
        return x + self.weights[bias][:, None] if bias in self.weights else x

    def state_of(self, index: int) -> dict[str, Tensor]:
        """Return one model's weights under their own names; the values of heads left out are 0."""
        state = {n.replace("/", "."): of[index].detach().clone() for n, of in self.weights.items()}
        dropped = (self.heads[index] == 0).repeat_interleave(
            self.weights["blocks/0/query/weight"].shape[1] // self.given.heads
        )
        for name in ("blocks.0.key_value.weight", "blocks.0.key_value.bias"):
            if name in state:
                state[name][len(dropped) :][dropped] = 0.0
        return state


def count_strings(counts: Integer[Tensor, "*M S 3"], second: bool = False) -> StringCounts:
    """Return strings of so many zeros, ones and twos.

    They end with `=`, or if `second` with the right answer behind it, where the end is due.

    >>> strings = count_strings(torch.tensor([[3, 1, 9]]))
    >>> strings.counts.tolist(), strings.asked.tolist()
    ([[[1.0, 3.0, 1.0, 9.0, 1.0, 0.0, 0.0]]], [[[1.0, 0.0, 0.0]]])
    """
    counts = counts if counts.ndim == 3 else counts[None]
    ones = torch.ones_like(counts[..., :1])
    more = counts[..., 1:2] > counts[..., :1]
    said = torch.cat([~more, more], dim=-1) & second
    every = torch.cat([ones, counts, ones, said], dim=-1)
    asked = torch.cat([ones * (not second), said], dim=-1)
    return StringCounts(every.float(), asked.float())
