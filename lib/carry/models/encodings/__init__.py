"""How the model feels ids: added to tokens, turned into rotations, or into attention biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from carry import settings
from carry.positions import Scheme


@dataclass(frozen=True)
class Shape:
    """The sizes of a model that encodings depend on."""

    width: int
    heads: int
    head_width: int
    layers: int


class Encoding(nn.Module):
    """An encoding of ids; what a kind does not do, it leaves as it is here.

    Shapes: ids [b, T], where b is the batch, or 1 if all rows share their ids.
    """

    class Settings(settings.Settings):
        """The settings of this kind."""

    needs_order: ClassVar[bool] = False  # ids must grow from left to right

    def __init__(self, given: settings.Settings, shape: Shape, largest: int) -> None:
        super().__init__()
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
    ) -> Bool[Tensor, "_ Q T"] | None:
        """Return which keys a query may see; the first token is always seen besides."""
        return None


def choose(name: object, where: str) -> type[Encoding]:
    """Return the encoding called `name`.

    >>> choose("rope", "positions.0.encoding").__name__
    'RoPE'
    """
    return settings.choose("carry.models.encodings", Encoding, name, where)


def check(kind: type[Encoding], scheme: Scheme, where: str) -> None:
    """Refuse an encoding for a scheme whose ids it has no meaning for."""
    if kind.needs_order and not scheme.ordered:
        name = type(scheme).__name__.lower()
        raise settings.SettingsError(
            f"{where}.encoding: {kind.__name__} needs ids that grow from left to right, and those "
            f"of {name!r} do not; expected ids 'index' or 'randomized'"
        )
