"""Position schemes: pure functions from the marks of tokens to position ids.

A scheme is one file of this package and one subclass of `Scheme`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import pydantic
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Integer
from pydantic import Field
from torch import Tensor

from carry.config.settings import Settings, choose_class, label_from_class
from carry.data.batch import Batch
from carry.formats import Extent, Format


class Scheme(Settings):
    """A position scheme: its settings are its fields, and its name is the name of its file.

    In training, ids are randomized (offsets, subsets) by a generator; in evaluation they start at
    a chosen id, 1 by default as in the papers.
    """

    label: ClassVar[str]  # name in figures and tables; derived from the class name by default
    accepts_start: ClassVar[bool] = True  # whether evaluation can start at any id
    start_is_fixed: ClassVar[bool] = True  # whether training, too, always starts at id 1
    increasing: ClassVar[bool] = False  # whether each id is larger than the previous one
    uncounted_id: ClassVar[int | None] = None  # id of tokens that are not counted, if any
    # Whether the difference of two ids is a distance, the same in training and evaluation.
    ids_measure_distance: ClassVar[bool] = True
    # Whether id 1 follows the largest one, so that problems can start at any id.
    wraps: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "label" not in vars(cls):
            cls.label = label_from_class(cls)

    @abstractmethod
    def ids(self, batch: Batch, start: int = 1) -> Integer[Tensor, "b T"]:
        """Return evaluation ids that begin at `start`; b is B, or 1 if all rows have the same."""

    def train_ids(self, batch: Batch, generator: torch.Generator) -> Integer[Tensor, "b T"]:
        """Return training ids, which a generator may draw; by default those of evaluation."""
        return self.ids(batch)

    def unknowable(self, batch: Batch, ids: Integer[Tensor, "b T"]) -> Bool[Tensor, "b T"] | None:
        """Return the tokens that training `ids` make unpredictable, or None if there are none."""
        return None

    def incompatibility(self, form: Format) -> str | None:
        """Return the reason why the scheme cannot be used with a format, or None."""
        return None

    @abstractmethod
    def required_ids(self, extent: Extent) -> int:
        """Return the number of consecutive ids that problems of this extent need."""

    def id_limit(self) -> int | None:
        """Return the largest id that the scheme's settings allow; None: unlimited."""
        return None

    def largest_id(self, extent: Extent) -> int:
        """Return the largest id that training on problems of this extent can contain."""
        return self.id_limit() or self.required_ids(extent)


class RandomStart(Scheme):
    """A scheme that counts tokens, in training from a random start; other tokens have id 0.

    `limit`: the largest id. `even`: uniform starts rarely show the first and the last ids, so
    starts are uniform over a wider range and clamped to the possible ones, and all ids are trained
    about equally often (pieces between jumps are placed uniformly). `ring`: with a limit, id 1
    follows the largest one, and all ids are starts. A subclass has, as settings or constants,
    `offset`, the largest first id without a limit, and `per_example`, whether rows differ in it.

    `jumps`: ids are not consecutive in all training examples. Up to so many random cuts, uniform
    from none, divide the places of an example into pieces, which get random ids that do not
    overlap; all its numbers are cut at the same places. Queries thus meet ids as far away as in
    longer problems. It is positional skip-wise training (Zhu et al. 2024, arXiv:2309.10400) inside
    numbers. `gaps`: in half of the examples ids are instead a random increasing subset of the
    possible ones (Ruoss et al. 2023). Ids of evaluation are always consecutive.
    """

    limit: int | None = Field(default=None, ge=1)
    even: bool = False
    ring: bool = False
    jumps: int = Field(default=0, ge=0, le=20)  # each is a draw of all batches
    gaps: bool = False

    @pydantic.model_validator(mode="after")
    def _check_starts(self) -> RandomStart:
        if self.even and self.wraps:
            raise ValueError(
                "even true does not fit ring true, whose starts are uniform; expected one of them"
            )
        if self.jumps and self.gaps:
            raise ValueError(f"jumps {self.jumps} does not fit gaps true; expected one of them")
        if self.has_skips and (self.wraps or self.start_is_fixed):
            name, value = ("jumps", self.jumps) if self.jumps else ("gaps", "true")
            found = "ring true" if self.wraps else "ids that always start at 1"
            raise ValueError(
                f"{name} {value} does not fit {found}; expected a limit or an offset, and no ring"
            )
        return self

    @property
    def has_skips(self) -> bool:
        """Whether training ids are not always consecutive."""
        return self.jumps > 0 or self.gaps

    @property
    def start_is_fixed(self) -> bool:
        """Whether training, too, always starts at id 1."""
        return self.limit is None and self.offset == 1

    @property
    def ids_measure_distance(self) -> bool:
        """On a ring, the smallest id follows the largest one; pieces and gaps move ids apart."""
        return not self.wraps and not self.has_skips

    @property
    def wraps(self) -> bool:
        """Whether ids begin again at 1; without a limit they do not, whatever `ring` is.

        `ring` is also a setting of learned embeddings, which shares the row's mapping.
        """
        return self.ring and self.limit is not None

    def id_limit(self) -> int | None:
        """Return the limit."""
        return self.limit

    def largest_id(self, extent: Extent) -> int:
        """Return the limit, or the last id of the longest problem at the largest offset."""
        return self.limit or self.required_ids(extent) + self.offset - 1

    def train_ids(self, batch: Batch, generator: torch.Generator) -> Integer[Tensor, "b T"]:
        """Return ids from a random start, for each row or for all alike."""
        ids = self.ids(batch)
        if self.start_is_fixed:
            return ids
        needed = ids.amax(1, keepdim=True)
        if not self.per_example:
            needed = needed.amax(0, keepdim=True)
        free = self._find_room(needed) - needed
        moved = self.move_ids(ids, self._draw_moves(needed, free, generator))
        if not self.has_skips:
            return moved
        draw = self._draw_jumps if self.jumps else self._draw_gaps
        return torch.where(ids > 0, draw(ids, moved, needed, free, generator), 0)

    def _find_room(self, needed: Tensor) -> Tensor:
        """Return the largest id that training gives to problems that need so many ids."""
        return torch.full_like(needed, self.limit) if self.limit else needed + self.offset - 1

    def _draw_moves(self, needed: Tensor, free: Tensor, generator: torch.Generator) -> Tensor:
        """Draw how far ids move from those that begin at 1: up to `free`, or on a ring at all."""
        draws = {"generator": generator, "device": needed.device}
        if self.limit is None and not self.even:
            return torch.randint(self.offset, needed.shape, **draws)
        share = torch.rand(needed.shape, **draws)
        if self.wraps:
            return (share * self.limit).floor().long()
        beyond = needed - 1 if self.even else torch.zeros_like(needed)
        move = (share * (free + 1 + 2 * beyond)).floor().long() - beyond
        return move.clamp(min=0).minimum(free)

    def _draw_jumps(
        self, ids: Tensor, moved: Tensor, needed: Tensor, free: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Return ids in pieces, and `moved` in the rows that have no cut."""
        rows = len(needed)
        share = torch.rand(rows, 1 + self.jumps, generator=generator, device=ids.device)
        count = (share[:, :1] * (1 + self.jumps)).floor()
        cuts = 1 + (share[:, 1:] * (needed - 1)).floor().long()
        is_cut = torch.arange(self.jumps, device=ids.device) < count
        cuts = torch.where(is_cut, cuts, needed).sort(1).values
        first = F.pad(cuts, (1, 0))  # ids before each piece
        lengths = torch.cat([cuts, needed], dim=1) - first
        moves = (place_pieces(lengths, free, generator) - first).expand(len(ids), -1)
        piece = (ids[:, :, None] > cuts[:, None]).sum(2)
        fits = (count > 0) & (free >= (lengths > 0).sum(1, keepdim=True) - 1)
        return torch.where(fits, ids + moves.gather(1, piece), moved)

    def _draw_gaps(
        self, ids: Tensor, moved: Tensor, needed: Tensor, free: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Return increasing random ids in half of the rows, and `moved` in the others."""
        possible = torch.arange(int((needed + free).max()), device=ids.device) < needed + free
        share = torch.rand(possible.shape, generator=generator, device=ids.device)
        rank = torch.where(possible, share, 2.0).argsort(1).argsort(1)
        chosen = (rank < needed).cumsum(1).expand(len(ids), -1).contiguous()
        random_ids = 1 + torch.searchsorted(chosen, ids.contiguous())
        half = torch.rand(needed.shape, generator=generator, device=ids.device) < 0.5
        return torch.where(half, random_ids, moved)

    def pack_ids(
        self, first: Batch, second: Batch, generator: torch.Generator
    ) -> list[Integer[Tensor, "b _"]]:
        """Return training ids of two problems in one sequence, which do not overlap."""
        pair = [self.ids(first), self.ids(second)]
        needed = torch.stack([ids.amax(1) for ids in pair], dim=1)
        free = self._find_room(needed.amax(1, keepdim=True)) - needed.sum(1, keepdim=True)
        moves = place_pieces(needed, free, generator).split(1, dim=1)
        return [self.move_ids(ids, move) for ids, move in zip(pair, moves, strict=True)]

    def unknowable(self, batch: Batch, ids: Integer[Tensor, "b T"]) -> Bool[Tensor, "b T"] | None:
        """Return the tokens that no query can find: their ids, or the one below, lie past a jump.

        A query knows its own id. It cannot tell where the ids go on after a jump: neither those of
        the next token, nor those of the tokens that this one depends on.

        >>> from carry.positions.abacus import Abacus
        >>> from carry.formats import build_format
        >>> from carry.tasks import build_task, to_digits
        >>> task = build_task({"name": "addition"})
        >>> batch = build_format({}, task).write(task.solve(*to_digits([["653", "49"]])))
        >>> ids = torch.tensor([[0, 7, 8, 2, 0, 7, 8, 0, 7, 8, 2, 0]])
        >>> Abacus(limit=9, jumps=1).unknowable(batch, ids)[0].nonzero()[:, 0].tolist()
        [3, 10]
        """
        if not self.jumps:
            return None
        plain = self.ids(batch).expand(len(ids), -1)
        moves = torch.where(plain > 0, ids - plain, 0)
        table = torch.zeros(len(ids), int(plain.max()) + 1, dtype=moves.dtype, device=ids.device)
        below = (plain - 1).clamp(min=0)
        has_below = torch.zeros_like(table).scatter(1, plain, 1).gather(1, below) > 0
        moves_below = table.scatter(1, plain, moves).gather(1, below)
        first = (plain > 1) & has_below & (moves != moves_below)
        both = (plain[:, 1:] > 0) & (plain[:, :-1] > 0)
        crossing = both & (moves[:, 1:] != moves[:, :-1])
        return first | F.pad(crossing, (1, 0))

    def move_ids(
        self, ids: Integer[Tensor, "b T"], move: int | Integer[Tensor, "_ 1"]
    ) -> Integer[Tensor, "b T"]:
        """Return ids moved by a number for each row; 0 stays, and a ring wraps around.

        >>> from carry.positions.coupled import Coupled
        >>> ids = torch.tensor([[0, 1, 2, 3]])
        >>> [Coupled(limit=6, ring=ring).move_ids(ids, 4).tolist() for ring in (False, True)]
        [[[0, 5, 6, 7]], [[0, 5, 6, 1]]]
        """
        moved = (ids + move - 1) % self.limit + 1 if self.wraps else ids + move
        return torch.where(ids > 0, moved, 0)


def place_pieces(
    lengths: Integer[Tensor, "b P"], free: Integer[Tensor, "b 1"], generator: torch.Generator
) -> Integer[Tensor, "b P"]:
    """Return how many ids lie below each of P pieces, placed in random order.

    An id between two pieces is always free: nothing follows the end of a number.

    Args:
        lengths: the ids that each piece needs; an empty piece needs no place.
        free: the ids that are left over, at least as many as there are gaps between pieces.

    >>> from carry.randomness import stream
    >>> lengths, free = torch.tensor([[3, 2]]), torch.tensor([[2]])
    >>> draws = [place_pieces(lengths, free, stream(n, "pieces"))[0].tolist() for n in range(99)]
    >>> sorted({tuple(draw) for draw in draws})
    [(0, 4), (0, 5), (1, 5), (3, 0), (4, 0), (4, 1)]
    """
    shares = torch.rand(2, *lengths.shape, generator=generator, device=lengths.device)
    rank = shares[0].argsort(1).argsort(1)
    lower = rank[:, None, :] < rank[:, :, None]
    exists = lengths > 0
    rest = free + 1 - exists.sum(1, keepdim=True)
    gaps = (shares[1] * (rest + 1)).floor().long().sort(1).values
    return ((lengths + exists)[:, None, :] * lower).sum(2) + gaps.gather(1, rank)


def choose_scheme(name: object, where: str = "positions.ids") -> type[Scheme]:
    """Return the class of the scheme with this name.

    >>> choose_scheme("abacus")(offset=99).offset
    99
    """
    return choose_class("carry.positions", Scheme, name, where)


def show_ids(scheme: Scheme, a: str, b: str, **format_settings: Any) -> str:
    """Return the tokens of one sum and their ids as text, for examples in docstrings."""
    from carry.formats import build_format, to_text
    from carry.tasks import build_task, to_digits

    task = build_task({"name": "addition"})
    batch = build_format(format_settings, task).write(task.solve(*to_digits([[a, b]])))
    ids = scheme.ids(batch).expand(1, -1)[0].tolist()
    return f"{' '.join(to_text(batch.tokens[0]))} | {' '.join(map(str, ids))}"
