"""Local contexts: all that the next token depends on, where attention sees bounded neighbourhoods.

A query at the 7 of the answer, with a window from its own place to one place up:

    ^ 3 5 6 + 9 4 = 2 0        what it has read
    ^ 5 6 4 0                  what it sees: its place and the next of both numbers, the first
    * 0 1 0 0                  how many places on

Two tokens with the same context have the same logits, whatever else stands around them and however
far: what is hidden has weight 0. Through several layers a context holds what is seen by what is
seen, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry.config.settings import SettingsError
from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.formats import PAD
from carry.models.architectures.transformer import Transformer
from carry.models.attention import AttentionContext, PositionEncodings
from carry.models.encodings.none import NoPE
from carry.models.encodings.relative import Relative
from carry.models.encodings.shaw import Shaw
from carry.models.system import System

AT_ONCE = 50  # problems that are written together
KEYS = 100_000  # that are worked out together, with ten times the memory that they then take
FAR = 10**9  # an id that no window reaches
BOUNDED = (Relative, Shaw, NoPE)  # encodings that feel clipped differences, or nothing

Report = Callable[[int], None]


@dataclass(frozen=True)
class Contexts:
    """Contexts as short sequences, which the model reads as any other.

    Shapes: N contexts of at most W tokens; the first token stands first, the query last, and what
    is between stands at the end; before it is padding, hidden by its ids.
    """

    tokens: Integer[Tensor, "N W"]
    ids: list[Integer[Tensor, "N W"]]  # one for each encoding
    target: Integer[Tensor, " N"]  # the token that is due
    problem: Integer[Tensor, " N"]  # where it stands: in which problem, and in which slot of its
    slot: Integer[Tensor, " N"]  # response

    def __getitem__(self, rows: Tensor | slice) -> Contexts:
        ids = [of[rows] for of in self.ids]
        return Contexts(
            self.tokens[rows], ids, self.target[rows], self.problem[rows], self.slot[rows]
        )

    def __len__(self) -> int:
        return len(self.tokens)

    def long(self) -> Contexts:
        """Return the same as indices, which take twice the room."""
        return replace(self, tokens=self.tokens.long(), ids=[of.long() for of in self.ids])


def check(system: System) -> None:
    """Refuse a model whose next token may depend on what is far, or on where it stands.

    Raises:
        SettingsError: naming what is felt from afar.
    """
    where, network = f"runs.{system.run.name}", system.network
    if type(network) is not Transformer:
        name = type(network).__name__.lower()
        raise SettingsError(f"{where}.model.name: {name!r} has no contexts; expected 'transformer'")
    if network.given.recurrences > 1 or network.given.injection != "none":
        raise SettingsError(
            f"{where}.model.recurrences: {network.given.recurrences} with injection "
            f"{network.given.injection!r} does not fit a certificate, its neighbourhood grows with "
            "them; expected 1 and 'none'"
        )
    if not system.schemes:
        raise SettingsError(
            f"{where}.positions: none, so that a token sees all before it, and its neighbourhood "
            "is unbounded; expected ids with a window"
        )
    for index, encoding in enumerate(network.encodings):
        place = f"{where}.positions.{index}"
        if type(encoding) not in BOUNDED:
            raise SettingsError(
                f"{place}.encoding: {type(encoding).__name__} tells where a token stands, "
                "wherever that is, so contexts are unbounded; expected 'relative', 'shaw' or 'none'"
            )
        if encoding.window is None:
            raise SettingsError(
                f"{place}.window: none, so that a token sees others however far they are and its "
                "neighbourhood is unbounded; expected a window"
            )


def reach(system: System) -> list[tuple[int, int]]:
    """Return how far below and above a token's id what it depends on may be, at each pair of ids.

    >>> from carry.config.run_settings import make_run
    >>> pair = {"ids": "abacus", "encoding": "relative", "window": [0, 1]}
    >>> made = {"task": {"name": "addition"}, "positions": [pair], "model": {"layers": 2}}
    >>> reach(System(make_run(made)))
    [(0, 2)]
    """
    layers = system.network.given.layers
    return [tuple(layers * side for side in of.window) for of in system.network.encodings]


@torch.inference_mode()
def contexts(
    system: System, batch: Batch, wanted: Bool[Tensor, "B A"], first_problem: int = 0
) -> Contexts:
    """Return the contexts of some response tokens, each with what is due after it.

    Args:
        wanted: which of the response's tokens are looked at (see `Batch.response`).
        first_problem: the number of the batch's first problem.

    >>> from carry.formats import text
    >>> from carry.config.run_settings import make_run
    >>> from carry.tasks import to_digits
    >>> pair = {"ids": "abacus", "encoding": "relative", "window": [0, 1]}
    >>> system = System(make_run({"task": {"name": "addition"}, "positions": [pair]}))
    >>> batch = system.format.write(system.task.solve(*to_digits([[653, 49]])))
    >>> wanted = torch.tensor([[False, False, True, False]])
    >>> text(contexts(system, batch, wanted).tokens[0])
    '^5640'
    """
    at, target, real = batch.response()
    ids = [of.expand(len(batch), -1) for of in system.ids(batch)]
    total = batch.tokens.shape[1]
    row, slot = (wanted & real).nonzero(as_tuple=True)
    own = at[row, slot]
    felt = PositionEncodings(system.network.encodings, "plain", lambda x, _: x, 1)
    if system.network.given.layers == 1:
        seen = AttentionContext(felt, own[:, None], [of[row] for of in ids], total).visible[:, 0]
    else:
        everywhere = torch.arange(total, device=at.device).expand(len(batch), -1)
        visible = AttentionContext(felt, everywhere, ids, total).visible
        seen = visible[row, own]
        for _ in range(system.network.given.layers - 1):
            seen = (seen[:, None].float() @ visible[row].float())[:, 0] > 0
    begins = seen[:, 0].clone() if felt.first else torch.zeros_like(seen[:, 0])
    seen[:, 0] &= ~begins
    width = int(seen.sum(1).max())
    order = seen.int().argsort(dim=1, stable=True)[:, total - width :]
    inside = seen.gather(1, order)
    index = torch.nn.functional.pad(order, (1, 0))
    inside = torch.cat([begins[:, None], inside], dim=1)
    return Contexts(
        torch.where(inside, batch.tokens[row].gather(1, index), PAD).int(),
        [torch.where(inside, of[row].gather(1, index), FAR).int() for of in ids],
        target[row, slot],
        (first_problem + row).int(),
        slot.int(),
    )


def of_problems(
    system: System, problems: Problems, report: Report = lambda problems: None
) -> Iterator[Contexts]:
    """Yield the contexts of all response tokens of problems, of some at once.

    Args:
        report: called with how many problems have been looked at since its last call.
    """
    for rows in torch.arange(len(problems)).split(AT_ONCE):
        batch = system.format.write(problems[rows])
        yield contexts(system, batch, batch.response()[2], int(rows[0]))
        report(len(rows))


def keys(system: System, some: Contexts) -> np.ndarray:
    """Return a key for each context: two are equal if and only if the model cannot tell them apart.

    A key lists the tokens with their differences to the query, as far as these are felt; in one
    layer their order makes no difference, and they are sorted.
    """
    parts = [_keys(system, some[rows]) for rows in torch.arange(len(some)).split(KEYS)]
    return np.concatenate(parts)


def _keys(system: System, some: Contexts) -> np.ndarray:
    layers, most = system.network.given.layers, system.format.symbols()
    code = some.tokens.long()
    for encoding, ids in zip(system.network.encodings, some.ids, strict=True):
        felt = getattr(encoding, "clip", 0) + (layers - 1) * 2 * max(encoding.window)
        apart = (ids - ids[:, -1:]).long().clamp(-felt, felt) + felt
        if encoding.absent is not None:
            lacks = (ids == encoding.absent).long() + 2 * (ids[:, -1:] == encoding.absent).long()
            apart = torch.where(lacks > 0, 2 * felt + lacks, apart)
        code, most = code * (2 * felt + 4) + apart, most * (2 * felt + 4)
    hidden = some.ids[0] == FAR
    code = torch.where(hidden, -1, code)
    if layers == 1:
        code[:, 1:-1] = code[:, 1:-1].sort(dim=1).values
    kind = np.int32 if most < 2**31 else np.int64
    return np.ascontiguousarray(code.numpy().astype(kind))


class Undetermined(Exception):
    """Two problems have a context in common and go on differently: no such model can be right."""

    def __init__(self, one: Contexts, other: Contexts) -> None:
        super().__init__("one context, two next tokens")
        self.one, self.other = one, other

    def __reduce__(self) -> tuple:
        """Travel to another process whole: by itself an exception takes its text alone."""
        return type(self), (self.one, self.other)


def distinct(system: System, parts: Iterable[Contexts]) -> Contexts:
    """Return each context once, with the first place where it stands.

    Raises:
        Undetermined: if the same context asks for two different tokens.
    """
    kept: Contexts | None = None
    waiting: list[Contexts] = []
    for part in parts:
        waiting.append(_once(system, part))
        if sum(map(len, waiting)) > 2_000_000:
            kept, waiting = _once(system, joined([*([kept] if kept else []), *waiting])), []
    return _once(system, joined([*([kept] if kept else []), *waiting]))


def _once(system: System, some: Contexts) -> Contexts:
    rows = keys(system, some)
    flat = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
    _, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
    representative = torch.from_numpy(first[inverse])
    differ = (some.target != some.target[representative]).nonzero()[:, 0]
    if len(differ):
        raise Undetermined(some[representative[differ[:1]]], some[differ[:1]])
    return some[torch.from_numpy(np.sort(first))]


def joined(parts: Sequence[Contexts]) -> Contexts:
    """Return contexts of unlike width as one."""
    width = max(part.tokens.shape[1] for part in parts)

    def whole(each: Sequence[Tensor], empty: int) -> Tensor:
        return torch.cat([_widened(of, width, empty) for of in each])

    return Contexts(
        whole([part.tokens for part in parts], PAD),
        [whole(of, FAR) for of in zip(*(part.ids for part in parts), strict=True)],
        *(torch.cat([getattr(part, name) for part in parts])
          for name in ("target", "problem", "slot")),
    )  # fmt: skip


def _widened(of: Integer[Tensor, "N W"], width: int, empty: int) -> Integer[Tensor, "N V"]:
    more = of.new_full((len(of), width - of.shape[1]), empty)
    return torch.cat([of[:, :1], more, of[:, 1:]], dim=1)
