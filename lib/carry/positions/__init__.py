"""Where a token stands: position schemes are pure functions from marks to ids."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Integer
from torch import Tensor

from carry.config import settings
from carry.data.batch import Batch
from carry.formats import Extent, Format


class Scheme(settings.Settings):
    """A position scheme; its settings are its fields, and its name is its file's.

    In training ids are drawn (offsets, subsets) from a generator; in evaluation they start at a
    given id, 1 as in the papers unless said otherwise.
    """

    movable: ClassVar[bool] = True  # evaluation may start elsewhere than at 1
    ordered: ClassVar[bool] = False  # ids grow from left to right, so that differences are >= 0
    absent: ClassVar[int | None] = None  # the id of tokens that are not counted, if some are not

    @property
    def measures(self) -> bool:
        """Whether the difference of two ids says how far apart their tokens stand."""
        return True

    @abstractmethod
    def train_ids(self, batch: Batch, generator: torch.Generator) -> Integer[Tensor, "b T"]:
        """Return ids as drawn in training; b is B, or 1 where all rows have the same."""

    @abstractmethod
    def ids(self, batch: Batch, start: int = 1) -> Integer[Tensor, "b T"]:
        """Return ids that begin at `start`."""

    def incompatibility(self, form: Format) -> str | None:
        """Return why the scheme does not go with a format, if it does not."""
        return None

    @abstractmethod
    def span(self, extent: Extent) -> int:
        """Return how many ids in a row problems of such an extent need."""

    def fixed_range(self) -> int | None:
        """Return the largest id that the scheme itself can give, if there is one."""
        return None

    @abstractmethod
    def largest(self, extent: Extent) -> int:
        """Return the largest id that training on such problems can show."""


def choose(name: object, where: str = "positions.ids") -> type[Scheme]:
    """Return the kind of scheme called `name`.

    >>> choose("abacus")(offset=99).offset
    99
    """
    return settings.choose_class("carry.positions", Scheme, name, where)


def drawn(scheme: Scheme, a: str, b: str, **format_settings: Any) -> str:
    """Return one sum with the ids of its tokens, for examples in docstrings."""
    from carry.formats import build as build_format
    from carry.formats import text
    from carry.tasks import build as build_task
    from carry.tasks import to_digits

    task = build_task({"name": "addition"})
    batch = build_format(format_settings, task).write(task.solve(*to_digits([[a, b]])))
    ids = scheme.ids(batch).expand(1, -1)[0].tolist()
    return f"{' '.join(text(batch.tokens[0]))} | {' '.join(map(str, ids))}"
