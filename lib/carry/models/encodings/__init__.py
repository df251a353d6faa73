"""How the model feels ids: added to tokens, turned into rotations, or into attention biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int8, Integer
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from carry.config import settings
from carry.positions import Scheme


@dataclass(frozen=True)
class Shape:
    """The sizes of a model that encodings depend on."""

    width: int
    heads: int
    head_width: int
    layers: int


class Ids(NamedTuple):
    """What an encoding knows of the ids that it is to feel."""

    largest: int  # that training can show
    absent: int | None = None  # that of tokens which are not counted


class Window(NamedTuple):
    """From how far below its own id up to how far above it a token sees others."""

    behind: int
    ahead: int


def _both(window: object) -> object:
    """Return a window that is one number as two."""
    return [window, window] if isinstance(window, int) else window


Steps = Annotated[int, Field(ge=0)]
Sides = Annotated[list[Steps], Field(min_length=2, max_length=2), BeforeValidator(_both)]


class Encoding(nn.Module):
    """An encoding of ids; what a kind does not do, it leaves as it is here.

    `window`: a token sees only tokens whose ids are at most so far from its own, `[behind, ahead]`
    if that differs below and above, and itself. Of several windows all must allow it, and one at
    least has to count both tokens. `first`: it sees the first token, too, wherever it stands.

    Shapes: ids [b, T], where b is the batch, or 1 if all rows share their ids.
    """

    class Settings(settings.Settings):
        """The settings that all kinds have; some have more."""

        window: Sides | None = None
        first: bool = True

    needs_order: ClassVar[bool] = False  # ids must grow from left to right

    def __init__(self, given: Settings, shape: Shape, ids: Ids) -> None:
        super().__init__()
        self.window = None if given.window is None else Window(*given.window)
        self.first, self.absent = given.first, ids.absent
        self.limit: int | None = None  # the largest id that can be felt; None: any

    def initialise(self, std: float) -> None:
        """Set the first weights, of embeddings with the spread of the model's own."""

    def embed(self, ids: Integer[Tensor, "b T"]) -> Float[Tensor, "b T D"] | None:
        """Return what is added to the token embeddings."""
        return None

    def rotate(
        self, x: Float[Tensor, "B H T d"], ids: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "B H T d"]:
        """Return queries or keys turned by their ids."""
        return x

    def bias(
        self, layer: int, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "_ H Q T"] | None:
        """Return what is added to the attention scores of a layer."""
        return None

    def score(
        self,
        layer: int,
        queries: Float[Tensor, "B H Q d"],
        query: Integer[Tensor, "_ Q"],
        key: Integer[Tensor, "_ T"],
    ) -> Float[Tensor, "B H Q T"] | None:
        """Return what is added to the scores given queries, not rotated; scaled as they are."""
        return None

    def visible(
        self, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Int8[Tensor, "_ Q T"] | None:
        """Return 1 where the window shows a key, -1 where it hides it, 0 where it says nothing."""
        if self.window is None:
            return None
        query, key = query[:, :, None], key[:, None, :]
        shown = (key >= query - self.window.behind) & (key <= query + self.window.ahead)
        said = 2 * shown.to(torch.int8) - 1
        if self.absent is None:
            return said
        return said * ((query != self.absent) & (key != self.absent))


def choose(name: object, where: str) -> type[Encoding]:
    """Return the encoding called `name`.

    >>> choose("rope", "positions.0.encoding").__name__
    'RoPE'
    """
    return settings.choose_class("carry.models.encodings", Encoding, name, where)


def check(kind: type[Encoding], scheme: Scheme, where: str) -> None:
    """Refuse an encoding for a scheme whose ids it has no meaning for."""
    if kind.needs_order and not scheme.ordered:
        name = type(scheme).__name__.lower()
        raise settings.SettingsError(
            f"{where}.encoding: {kind.__name__} needs ids that grow from left to right, and those "
            f"of {name!r} do not; expected ids 'index' or 'randomized'"
        )


def check_window(given: Encoding.Settings, scheme: Scheme, where: str) -> None:
    """Refuse a window over ids whose differences do not say how far apart tokens stand."""
    if given.window is not None and not scheme.measures:
        name = type(scheme).__name__.lower()
        raise settings.SettingsError(
            f"{where}.window: {given.window} does not fit ids {name!r}, whose differences do not "
            "say how far apart tokens stand; expected 'index', 'coupled', or 'abacus' of offset 1"
        )
