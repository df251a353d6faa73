"""Local contexts: everything that the next token depends on, if attention has bounded windows.

Example: the query is the first 2 of the answer, and its window shows its place and the next higher
place, relative to which the last line counts:

    ^ 3 5 6 + 9 4 = 2 0        the tokens so far
    ^ 5 6 4 0                  the context: two places of each number, and the first token
    * 0 1 0 0                  places above the query

Two tokens with the same context have the same logits, regardless of all other tokens and of the
length of the sequence, because hidden tokens have attention weight 0. The model has one layer; with
several ones a context would contain those of the visible tokens, recursively.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.formats import PAD
from carry.models.architectures import Architecture
from carry.models.architectures.transformer import Transformer
from carry.models.attention import AttentionContext
from carry.models.encodings.none import NoPE
from carry.models.encodings.relative import Relative
from carry.models.system import System

PROBLEMS_PER_BATCH = 50
CONTEXTS_PER_CHUNK = 100_000  # for keys, which take ten times the memory of the contexts
CONTEXTS_TO_MERGE = 2_000_000
HIDDEN_ID = 10**9  # outside every window
# Settings that change no logit, or whose values all have bounds on rounding (see `logit_bounds`).
# Contexts and bounds are proved for the defaults of all others.
FREE_SETTINGS = {
    "width", "heads", "head_width", "hidden", "norm", "norm_epsilon", "norm_place", "biases",
    "logit_bias", "final_norm", "embedding_std", "divide_gradient", "attention",
}  # fmt: skip


@dataclass(frozen=True)
class Contexts:
    """Contexts as short sequences, which the model processes like any other sequence.

    Shapes: N contexts of at most W tokens. The first token of the sequence stands first, and the
    query last. Padding stands after the first token; its ids hide it.
    """

    tokens: Integer[Tensor, "N W"]
    ids: list[Integer[Tensor, "N W"]]  # one tensor for each encoding
    target: Integer[Tensor, " N"]  # the correct next token
    problem: Integer[Tensor, " N"]  # the number of the problem that contains the context
    slot: Integer[Tensor, " N"]  # and the slot of its response

    def __getitem__(self, rows: Tensor | slice) -> Contexts:
        ids = [encoding_ids[rows] for encoding_ids in self.ids]
        return Contexts(
            self.tokens[rows], ids, self.target[rows], self.problem[rows], self.slot[rows]
        )

    def __len__(self) -> int:
        return len(self.tokens)

    def long(self) -> Contexts:
        """Return the contexts as int64, which models need; int32 takes half the memory."""
        return replace(self, tokens=self.tokens.long(), ids=[ids.long() for ids in self.ids])


def require_supported_network(network: Architecture, where: str = "") -> None:
    """Refuse a network whose contexts or float32 errors have no bound.

    Args:
        where: what precedes the names of settings in messages.

    Raises:
        SettingsError: with the setting that has no bound.
    """
    if type(network) is not Transformer:
        raise SettingsError(
            f"{where}model.name: {network.name!r} has no certificate; expected 'transformer'"
        )
    for field, info in Transformer.Settings.model_fields.items():
        value = getattr(network.settings, field)
        if field not in FREE_SETTINGS and value != info.default:
            raise SettingsError(
                f"{where}model.{field}: {value!r} has no certificate; expected {info.default!r}"
            )
    for index, encoding in enumerate(network.encodings):
        if type(encoding) not in (Relative, NoPE):
            raise SettingsError(
                f"{where}positions.{index}.encoding: {type(encoding).__name__} has no certificate; "
                "expected 'relative' or 'none'"
            )


def require_bounded_contexts(system: System) -> None:
    """Refuse a model whose next token may depend on distant tokens or on absolute positions.

    Raises:
        SettingsError: with the setting that makes contexts unbounded.
    """
    where = f"runs.{system.run.name}."
    require_supported_network(system.network, where)
    if not system.schemes:
        raise SettingsError(
            f"{where}positions: none, so contexts are unbounded; expected ids with a window"
        )
    for index, encoding in enumerate(system.network.encodings):
        if encoding.window is None:
            raise SettingsError(
                f"{where}positions.{index}.window: none, so contexts are unbounded; expected one"
            )


@torch.inference_mode()
def extract_contexts(
    system: System, batch: Batch, selected: Bool[Tensor, "B A"], first_problem: int = 0
) -> Contexts:
    """Return the contexts of selected response tokens, each with its correct next token.

    Args:
        selected: which tokens of the response (see `Batch.response`).
        first_problem: the number of the first problem of the batch.

    >>> from carry.formats import to_text
    >>> from carry.experiments.resolve import make_run
    >>> from carry.tasks import to_digits
    >>> pair = {"ids": "abacus", "encoding": "relative", "window": [0, 1]}
    >>> system = System(make_run({"task": {"name": "addition"}, "positions": [pair]}))
    >>> batch = system.format.write(system.task.solve(*to_digits([[653, 49]])))
    >>> selected = torch.tensor([[False, False, True, False]])
    >>> to_text(extract_contexts(system, batch, selected).tokens[0])
    '^5640'
    """
    index, target, real = batch.response()
    ids = [scheme_ids.expand(len(batch), -1) for scheme_ids in system.ids(batch)]
    row, slot = (selected & real).nonzero(as_tuple=True)
    query, query_ids = index[row, slot][:, None], [scheme_ids[row] for scheme_ids in ids]
    context = AttentionContext(system.network.encodings, query, query_ids, ids[0].shape[1])
    visible, sees_first = context.visible[:, 0], context.sees_first
    first = visible[:, 0].clone() if sees_first else torch.zeros_like(visible[:, 0])
    visible[:, 0] &= ~first
    total, width = visible.shape[1], int(visible.sum(1).max())
    # A stable sort moves the visible tokens to the end, in their order.
    order = visible.int().argsort(dim=1, stable=True)[:, total - width :]
    kept = torch.cat([first[:, None], visible.gather(1, order)], dim=1)
    order = torch.nn.functional.pad(order, (1, 0))
    return Contexts(
        torch.where(kept, batch.tokens[row].gather(1, order), PAD).int(),
        [torch.where(kept, values[row].gather(1, order), HIDDEN_ID).int() for values in ids],
        target[row, slot],
        (first_problem + row).int(),
        slot.int(),
    )


def iterate_contexts(system: System, problems: Problems) -> Iterator[Contexts]:
    """Yield the contexts of all response tokens of problems, batch by batch."""
    for rows in torch.arange(len(problems)).split(PROBLEMS_PER_BATCH):
        batch = system.format.write(problems[rows])
        yield extract_contexts(system, batch, batch.response()[2], int(rows[0]))


def compute_context_keys(system: System, contexts: Contexts) -> np.ndarray:
    """Return a key for each context; contexts with one key have the same logits.

    A key lists the tokens, with the differences of their ids to the query's, clipped as the
    encodings clip them. Attention does not depend on the order of its keys, so these are sorted.
    """
    chunks = torch.arange(len(contexts)).split(CONTEXTS_PER_CHUNK)
    return np.concatenate([_compute_keys(system, contexts[rows]) for rows in chunks])


def _compute_keys(system: System, contexts: Contexts) -> np.ndarray:
    code, code_count = contexts.tokens.long(), system.format.vocabulary_size()
    for encoding, ids in zip(system.network.encodings, contexts.ids, strict=True):
        clip = getattr(encoding, "clip", 0)
        difference = (ids - ids[:, -1:]).long().clamp(-clip, clip) + clip
        if encoding.uncounted_id is not None:
            uncounted = ids == encoding.uncounted_id
            uncounted = uncounted.long() + 2 * uncounted[:, -1:].long()
            difference = torch.where(uncounted > 0, 2 * clip + uncounted, difference)
        code = code * (2 * clip + 4) + difference
        code_count *= 2 * clip + 4
    code = torch.where(contexts.ids[0] == HIDDEN_ID, -1, code)
    code[:, 1:-1] = code[:, 1:-1].sort(dim=1).values
    dtype = np.int32 if code_count < 2**31 else np.int64
    return np.ascontiguousarray(code.numpy().astype(dtype))


class ConflictingContexts(Exception):
    """Two problems share a context and have different next tokens: every model fails on one."""

    def __init__(self, first: Contexts, second: Contexts) -> None:
        super().__init__("one context has two correct next tokens")
        self.first, self.second = first, second


def unique_contexts(system: System, parts: Iterable[Contexts]) -> Contexts:
    """Return each context once, from the first problem that contains it.

    Raises:
        ConflictingContexts: if one context has two correct next tokens.
    """
    waiting: list[Contexts] = []
    for part in parts:
        waiting.append(_remove_duplicates(system, part))
        if len(waiting) > 1 and sum(map(len, waiting[1:])) > CONTEXTS_TO_MERGE:
            waiting = [_remove_duplicates(system, concatenate_contexts(waiting))]
    return _remove_duplicates(system, concatenate_contexts(waiting))


def _remove_duplicates(system: System, contexts: Contexts) -> Contexts:
    keys = compute_context_keys(system, contexts)
    flat = keys.view(np.dtype((np.void, keys.dtype.itemsize * keys.shape[1])))[:, 0]
    _, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
    representative = torch.from_numpy(first[inverse])
    conflicts = (contexts.target != contexts.target[representative]).nonzero()[:, 0]
    if len(conflicts):
        one = conflicts[:1]
        raise ConflictingContexts(contexts[representative[one]], contexts[one])
    return contexts[torch.from_numpy(np.sort(first))]


def concatenate_contexts(parts: Sequence[Contexts]) -> Contexts:
    """Return contexts of different widths as one."""
    width = max(part.tokens.shape[1] for part in parts)

    def widen(values: Integer[Tensor, "N W"], empty: int) -> Integer[Tensor, "N V"]:
        padding = values.new_full((len(values), width - values.shape[1]), empty)
        return torch.cat([values[:, :1], padding, values[:, 1:]], dim=1)

    ids = zip(*(part.ids for part in parts), strict=True)
    return Contexts(
        torch.cat([widen(part.tokens, PAD) for part in parts]),
        [torch.cat([widen(values, HIDDEN_ID) for values in of_encoding]) for of_encoding in ids],
        torch.cat([part.target for part in parts]),
        torch.cat([part.problem for part in parts]),
        torch.cat([part.slot for part in parts]),
    )
