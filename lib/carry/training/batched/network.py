"""Many attention-only models of one layer as one computation, each with its own weights.

Without positions, a layer's output at the last token depends on the counts of the earlier tokens,
not on their order. With s(q, t) the attention score of key token t for query token q:

    attention to t    count(t) exp s(q, t) / sum over t    seven kinds of tokens at any length

This is exact (`logits_from_counts`), also in training with dropout after attention. Dropout of
embeddings treats equal tokens differently, which needs single tokens (`logits_from_tokens`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from carry.config.settings import SettingsError, describe
from carry.formats import BOS, EQUALS
from carry.models.architectures.fraknoi2024 import divide_by_variance
from carry.models.system import System
from carry.tasks.noisy_majority import ONES_ANSWER, ZEROS_ANSWER

TOKEN_KINDS = (BOS, 0, 1, 2, EQUALS, ZEROS_ANSWER, ONES_ANSWER)  # all tokens before the end
QUERY_KINDS = TOKEN_KINDS[4:]  # the tokens whose next token is predicted

# The settings that `BatchedNetwork` computes, and the values that others must have.
MODEL_SETTINGS = {
    *("width", "heads", "head_width", "norm", "biases", "logit_bias", "output", "final_norm"),
    *("initialisation", "embedding_std", "norm_root"),
}
ARCHITECTURES = ("transformer", "fraknoi2024")
FORMAT_SETTINGS = {"reverse_operands", "reverse_answer"}  # counts do not depend on the order
REQUIRED = {"feed_forward": False}  # else the default


def check_system(system: System) -> None:
    """Refuse a system whose model or strings `BatchedNetwork` does not compute."""
    run, name = system.run, system.network.name
    found = {
        "task.name": (run.task.get("name"), "noisy_majority"),
        "format.name": (run.format.get("name", "expression"), "expression"),
        "model.name": (name, name if name in ARCHITECTURES else "transformer"),
    }
    for section, settings, supported in (
        ("format", system.format, FORMAT_SETTINGS),
        ("model", system.network.settings, MODEL_SETTINGS),
    ):
        for field, info in type(settings).model_fields.items():
            if field not in supported:
                required = REQUIRED.get(field, info.get_default(call_default_factory=True))
                found[f"{section}.{field}"] = (getattr(settings, field), required)
    found["positions"] = (run.positions, [])
    for place, (value, required) in found.items():
        if value != required:
            raise SettingsError(
                f"runs.{run.name}.{place}: {describe(value)} does not fit batched_seeds; "
                f"expected {required!r}"
            )


class StringCounts(NamedTuple):
    """Strings as counts of each of `TOKEN_KINDS`, and the last token as one of `QUERY_KINDS`.

    Shapes: S strings, the same for all models (first axis 1) or different for each; `query` is 1
    for the last token and 0 for the others.
    """

    counts: Float[Tensor, "_ S C"]
    query: Float[Tensor, "_ S Q"]

    @property
    def ones_win(self) -> Bool[Tensor, "_ S"]:
        """Whether a string has more ones than zeros."""
        return self.counts[..., 2] > self.counts[..., 1]

    @property
    def target(self) -> Integer[Tensor, "_ S"]:
        """The right answer."""
        return torch.where(self.ones_win, ONES_ANSWER, ZEROS_ANSWER)

    def by_section(self) -> SectionedCounts:
        """Return strings that are the same for all models by section."""
        first = len(TOKEN_KINDS) - len(QUERY_KINDS)
        return split_by_section(self.counts[0], first + self.query[0].argmax(1))


def make_string_counts(
    counts: Integer[Tensor, "*M S 3"], after_answer: bool = False
) -> StringCounts:
    """Return strings with given numbers of zeros, ones and twos.

    The last token is `=`, or with `after_answer` the right answer, which the end follows.

    >>> strings = make_string_counts(torch.tensor([[3, 1, 9]]))
    >>> strings.counts.tolist(), strings.query.tolist()
    ([[[1.0, 3.0, 1.0, 9.0, 1.0, 0.0, 0.0]]], [[[1.0, 0.0, 0.0]]])
    """
    counts = counts if counts.ndim == 3 else counts[None]
    ones = torch.ones_like(counts[..., :1])
    ones_win = counts[..., 1:2] > counts[..., :1]
    answer = torch.cat([~ones_win, ones_win], dim=-1) & after_answer
    all_counts = torch.cat([ones, counts, ones, answer], dim=-1)
    query = torch.cat([ones * (not after_answer), answer], dim=-1)
    return StringCounts(all_counts.float(), query.float())


class SectionedCounts(NamedTuple):
    """Strings as rows of counts, with a section for each last token and set of tokens that occur.

    The columns of other sections than that of a string are 0. Shapes: S strings, G sections; K
    columns, one for each kind of token that occurs in the strings of a section.
    """

    counts: Float[Tensor, "_ S K"]
    last: Integer[Tensor, " G"]
    present: Bool[Tensor, "G C"]


def split_by_section(counts: Float[Tensor, "S C"], last: Integer[Tensor, " S"]) -> SectionedCounts:
    """Return counts by section; `last` are the indices of the last tokens in `TOKEN_KINDS`.

    >>> counts = torch.tensor([[1.0, 3, 1, 9, 1, 0, 0], [1.0, 0, 2, 0, 1, 0, 0]])
    >>> split = split_by_section(counts, torch.tensor([4, 4]))
    >>> split.counts[0].tolist()
    [[0.0, 0.0, 0.0, 1.0, 3.0, 1.0, 9.0, 1.0], [1.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]
    """
    kinds = torch.cat([last[:, None], (counts > 0).long()], dim=1)
    sections, number = kinds.unique(dim=0, return_inverse=True)
    last, present = sections[:, 0], sections[:, 1:] > 0
    columns = F.one_hot(number, len(sections))[:, :, None] * counts[:, None]
    return SectionedCounts(columns.flatten(1)[None, :, present.flatten()], last, present)


def count_prefixes(
    tokens: Integer[Tensor, "S T"],
) -> tuple[
    Float[Tensor, "R C"], Integer[Tensor, " R"], Integer[Tensor, " R"], Integer[Tensor, " S"]
]:
    """Return each prefix of strings as counts, its last token, the next, and how many each has.

    Rows are those of a string, one token longer each, then those of the next string. The last token
    is an index in `TOKEN_KINDS`.

    >>> tokens = torch.tensor([[BOS, 1, EQUALS, 5, 13]])
    >>> counts, last, follows, numbers = count_prefixes(tokens)
    >>> last.tolist(), follows.tolist(), numbers.tolist(), counts.sum(1).tolist()
    ([0, 2, 4, 6], [1, 11, 5, 13], [4], [1.0, 2.0, 3.0, 4.0])
    """
    kinds = tokens[:, :, None] == torch.tensor(TOKEN_KINDS)
    real = kinds.any(2)  # not the end, and not padding
    follows = tokens.roll(-1, dims=1)
    counts, last = kinds.cumsum(1).float(), kinds.int().argmax(2)
    return counts[real], last[real], follows[real].long(), real.sum(1)


class BatchedNetwork:
    """The models of several systems, which differ only in their weights.

    Shapes: M models of width D with H heads of W features, V symbols; S strings, the same for all
    models or different for each; C kinds of tokens, Q kinds of queries.

    >>> from carry.experiments.resolve import make_run
    >>> model = {"width": 4, "heads": 2, "feed_forward": False}
    >>> run = make_run({"task": {"name": "noisy_majority"}, "model": model})
    >>> network = BatchedNetwork([System(run, seed) for seed in (0, 1)])
    >>> network.logits_from_counts(make_string_counts(torch.tensor([[3, 1, 9]])))[:, 0].shape
    torch.Size([2, 15])
    """

    def __init__(self, systems: Sequence[System]) -> None:
        check_system(systems[0])
        self.settings = systems[0].network.settings
        self.weights, _ = torch.func.stack_module_state([system.network for system in systems])
        self.head_mask = torch.ones(len(systems), self.settings.heads)

    def __len__(self) -> int:
        return len(self.head_mask)

    def logits_from_counts(
        self, strings: StringCounts, head_mask: Float[Tensor, "M H"] | None = None
    ) -> Float[Tensor, "M S V"]:
        """Return the logits after strings.

        Args:
            head_mask: 1 for heads that are used, 0 for the others (default: `self.head_mask`).
        """
        kinds = self._embed_kinds()
        mixed = self._mix(kinds, strings, self.head_mask if head_mask is None else head_mask)
        return self._read(mixed.flatten(2), strings.query.to(kinds) @ kinds[:, 4:], None)

    def logits_from_products(
        self, strings: SectionedCounts, kept: Float[Tensor, "M S D"] | None = None
    ) -> Float[Tensor, "M S V"]:
        """Return the same logits four times faster, for strings by section.

        Numerators and denominators of attention are sums over kinds: two matrix products. In each
        section the highest score is that of a token that occurs, so that neither overflows.

        Args:
            kept: the dropout factors of the attention outputs.
        """
        kinds = self._embed_kinds()
        scores, value = self._scores_and_values(kinds, len(TOKEN_KINDS))
        scores = scores[:, :, strings.last].masked_fill(~strings.present, -torch.inf)
        weights = (scores - scores.amax(-1, keepdim=True).detach()).exp()
        section, kind = strings.present.nonzero().unbind(1)  # of each column
        weights = weights[:, :, section, kind].transpose(1, 2)  # [M K H]
        value = (value * self.head_mask[:, :, None, None])[:, :, kind].transpose(1, 2)
        counts = strings.counts.to(kinds)
        numerators = counts @ (weights[..., None] * value).flatten(2)
        denominators = counts @ weights
        mixed = numerators.unflatten(2, value.shape[2:]) / denominators[..., None]
        has_last = F.one_hot(strings.last, len(TOKEN_KINDS)).to(kinds)  # [G C]
        last = counts[..., kind == 0] @ has_last  # each string has one BOS
        return self._read(mixed.flatten(2), last @ kinds, kept)

    def logits_from_tokens(
        self,
        tokens: Integer[Tensor, "_ S T"],
        at: Integer[Tensor, "_ S A"],
        kept_embeddings: Float[Tensor, "M S T D"] | None = None,
        kept: Float[Tensor, "M S A D"] | None = None,
    ) -> Float[Tensor, "M S A V"]:
        """Return the logits after the tokens `at`, from attention to all tokens up to them.

        Args:
            kept_embeddings: the dropout factors of the embeddings.
            kept: the dropout factors of the attention outputs.
        """
        models = torch.arange(len(self), device=tokens.device)[:, None, None]
        embedded = self.weights["tokens.weight"][models, tokens]
        if kept_embeddings is not None:
            embedded = embedded * kept_embeddings
        size = (*embedded.shape[:2], at.shape[-1])
        at = at.expand(size)
        reader = embedded.gather(2, at[..., None].expand(*size, embedded.shape[-1]))
        source, query = (
            self._normalise(x.flatten(1, 2), "blocks.0.before.0") for x in (embedded, reader)
        )
        parts = self._queries_keys_values(query, source)
        query, key, value = (x.unflatten(2, (size[1], -1)).transpose(1, 2) for x in parts)
        later = torch.arange(tokens.shape[-1], device=tokens.device) > at[..., None]
        scores = (query @ key.transpose(-1, -2)).masked_fill(later[:, :, None], -torch.inf)
        mixed = (scores.softmax(-1) @ value) * self.head_mask[:, None, :, None, None]
        mixed, reader = mixed.transpose(2, 3).flatten(3).flatten(1, 2), reader.flatten(1, 2)
        kept = None if kept is None else kept.flatten(1, 2)
        return self._read(mixed, reader, kept).unflatten(1, size[1:])

    def head_outputs(self, strings: StringCounts) -> Float[Tensor, "M S H W"]:
        """Return the output of each head before the projection; masked heads have 0."""
        return self._mix(self._embed_kinds(), strings, self.head_mask)

    def scores_and_values(self) -> tuple[Float[Tensor, "M H Q C"], Float[Tensor, "M H C W"]]:
        """Return the attention scores of all kinds of tokens for each query, and their values."""
        return self._scores_and_values(self._embed_kinds())

    def model_state(self, index: int, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the `state_dict` of one model, where the values of masked heads are 0.

        Args:
            weights: of all models.
        """
        state = {name: weight[index].detach().clone() for name, weight in weights.items()}
        masked = (self.head_mask[index] == 0).repeat_interleave(self.settings.head_size)
        for name in ("blocks.0.key_value.weight", "blocks.0.key_value.bias"):
            if name in state:
                state[name][len(masked) :][masked] = 0.0
        return state

    def _embed_kinds(self) -> Float[Tensor, "M C D"]:
        return self.weights["tokens.weight"].index_select(1, torch.tensor(TOKEN_KINDS))

    def _scores_and_values(
        self, kinds: Float[Tensor, "M C D"], queries: int = len(QUERY_KINDS)
    ) -> tuple[Float[Tensor, "M H Q C"], Float[Tensor, "M H C W"]]:
        source = self._normalise(kinds, "blocks.0.before.0")
        query, key, value = self._queries_keys_values(source[:, -queries:], source)
        return query @ key.transpose(-1, -2), value

    def _queries_keys_values(self, query: Tensor, source: Tensor) -> tuple[Tensor, ...]:
        """Return queries (scaled), keys and values of the heads [M H _ W]."""
        query = self._apply_linear(query, "blocks.0.query")
        key, value = self._apply_linear(source, "blocks.0.key_value").chunk(2, dim=-1)
        query, key, value = (
            x.unflatten(2, (self.settings.heads, -1)).transpose(1, 2) for x in (query, key, value)
        )
        scale = 1.0 if self.settings.initialisation == "t5" else query.shape[-1] ** -0.5
        return query * scale, key, value

    def _mix(
        self, kinds: Tensor, strings: StringCounts, head_mask: Float[Tensor, "M H"]
    ) -> Float[Tensor, "M S H W"]:
        """Return the values, averaged by attention over the tokens of each string."""
        scores, value = self._scores_and_values(kinds)
        counts, query = (x.to(kinds) for x in strings)
        chosen = (query @ scores.transpose(1, 2).flatten(2)).unflatten(2, (-1, len(TOKEN_KINDS)))
        shares = (chosen + counts.log()[:, :, None]).softmax(-1)
        return torch.einsum("mshc,mhcw->mshw", shares, value * head_mask[:, :, None, None])

    def _read(self, mixed: Tensor, reader: Tensor, kept: Tensor | None) -> Tensor:
        """Return logits from the outputs of heads and the embedding of the last token."""
        update = self._apply_linear(mixed, "blocks.0.output") if self.settings.output else mixed
        if kept is not None:
            update = update * kept
        return self._apply_linear(self._normalise(reader + update, "final_norm"), "logits")

    def _apply_linear(self, x: Tensor, name: str) -> Tensor:
        x = x @ self.weights[f"{name}.weight"].transpose(1, 2)
        bias = f"{name}.bias"
        return x + self.weights[bias][:, None] if bias in self.weights else x

    def _normalise(self, x: Tensor, name: str) -> Tensor:
        weight = f"{name}.weight"
        if weight not in self.weights:  # the model has no norm
            return x
        if self.settings.norm == "rms":
            x = F.rms_norm(x, x.shape[-1:], eps=1e-6)
        elif not getattr(self.settings, "norm_root", True):
            x = divide_by_variance(x)
        else:
            x = F.layer_norm(x, x.shape[-1:])
        bias = f"{name}.bias"
        x = x * self.weights[weight][:, None]
        return x + self.weights[bias][:, None] if bias in self.weights else x


@torch.no_grad()
def measure_learned_accuracy(
    network: BatchedNetwork, heads: Sequence[int], counts: Integer[Tensor, "S 3"]
) -> Float[Tensor, " M"]:
    """Return the accuracy of each model with only these heads (fraknoi2024, Definition 5.1).

    >>> from carry.models.constructions.minimal_majority import build_minimal_majority
    >>> network = BatchedNetwork([build_minimal_majority(dtype=torch.float32)])
    >>> counts = torch.tensor([[3, 1, 0], [1, 3, 0]])
    >>> [measure_learned_accuracy(network, heads, counts).tolist() for heads in ([0], [])]
    [[1.0], [0.5]]
    """
    strings = make_string_counts(counts)
    kept = torch.zeros_like(network.head_mask)
    kept[:, list(heads)] = 1.0
    predicted = network.logits_from_counts(strings, head_mask=kept * network.head_mask).argmax(-1)
    return (predicted == strings.target).float().mean(1)
