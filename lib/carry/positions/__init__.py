"""Position schemes: pure functions from the marks of tokens to position ids.

A scheme is one file of this package and one subclass of `Scheme`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import pydantic
import torch
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.config.arguments import check_type
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
    increasing: ClassVar[bool] = False  # whether each id is larger than the previous one
    uncounted_id: ClassVar[int | None] = None  # id of tokens that are not counted, if any

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "label" not in vars(cls):
            cls.label = label_from_class(cls)

    @property
    def ids_measure_distance(self) -> bool:
        """Whether the difference of two ids is a distance, the same in training and evaluation."""
        return True

    @property
    def wraps(self) -> bool:
        """Whether id 1 follows the largest one, so that problems can start at any id."""
        return False

    @abstractmethod
    def train_ids(self, batch: Batch, generator: torch.Generator) -> Integer[Tensor, "b T"]:
        """Return random training ids; b is B, or 1 if all rows have the same ids."""

    @abstractmethod
    def ids(self, batch: Batch, start: int = 1) -> Integer[Tensor, "b T"]:
        """Return evaluation ids that begin at `start`; b is B, or 1."""

    def incompatibility(self, form: Format) -> str | None:
        """Return the reason why the scheme cannot be used with a format, or None."""
        return None

    @abstractmethod
    def required_ids(self, extent: Extent) -> int:
        """Return the number of consecutive ids that problems of this extent need."""

    def id_limit(self) -> int | None:
        """Return the largest id that the scheme's settings allow; None: unlimited."""
        return None

    @abstractmethod
    def largest_id(self, extent: Extent) -> int:
        """Return the largest id that training on problems of this extent can contain."""


class RandomStart(Scheme):
    """A scheme that counts tokens, in training from a random start; other tokens have id 0.

    `limit`: the largest id. `even`: uniform starts rarely show the first and the last ids, so
    starts are uniform over a wider range and clamped to the possible ones, and all ids are trained
    about equally often. `ring`: with a limit, id 1 follows the largest one, and all ids are starts.
    """

    limit: int | None = Field(default=None, ge=1)
    even: bool = False
    ring: bool = False

    @pydantic.model_validator(mode="after")
    def _check_starts(self) -> RandomStart:
        if self.even and self.wraps:
            raise ValueError(
                "even true does not fit ring true, whose starts are uniform; expected one of them"
            )
        return self

    @property
    def wraps(self) -> bool:
        """Whether ids begin again at 1; without a limit they do not, whatever `ring` is.

        `ring` is also a setting of learned embeddings, which shares the row's mapping.
        """
        return self.ring and self.limit is not None

    def id_limit(self) -> int | None:
        """Return the limit."""
        return self.limit

    def draw_moves(
        self,
        needed: Integer[Tensor, "b 1"],
        last_move: Integer[Tensor, "b 1"],
        generator: torch.Generator,
    ) -> Integer[Tensor, "b 1"]:
        """Draw how far ids move from those that begin at 1, for rows that need `needed` ids.

        The moves are from 0 to `last_move`; on a ring, from 0 to the limit less 1.

        >>> from carry.positions.coupled import Coupled
        >>> from carry.randomness import stream
        >>> needed, scheme = torch.full((1000, 1), 4), Coupled(limit=6, even=True)
        >>> scheme.draw_moves(needed, 6 - needed, stream(0, "doctest")).unique().tolist()
        [0, 1, 2]
        """
        share = torch.rand(needed.shape, generator=generator, device=needed.device)
        if self.wraps:
            return (share * self.limit).floor().long()
        beyond = needed - 1 if self.even else torch.zeros_like(needed)
        move = (share * (last_move + 1 + 2 * beyond)).floor().long() - beyond
        return move.clamp(min=0).minimum(last_move)

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

    check_type(scheme, Scheme, "scheme")
    task = build_task({"name": "addition"})
    task.check_texts([a, b])
    batch = build_format(format_settings, task).write(task.solve(*to_digits([[a, b]])))
    ids = scheme.ids(batch).expand(1, -1)[0].tolist()
    return f"{' '.join(to_text(batch.tokens[0]))} | {' '.join(map(str, ids))}"
