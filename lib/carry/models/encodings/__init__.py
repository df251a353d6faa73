"""Encodings of ids: added to tokens, as rotations of queries and keys, or as attention biases."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

from jaxtyping import Float, Integer
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from carry.config import settings as config

# Eight times the depth of the largest model of the papers, and fifty times its width. A row is
# checked on a model without memory, which these keep below a few seconds.
Depth = Annotated[int, Field(ge=1, le=256)]
Width = Annotated[int, Field(ge=1, le=100_000)]


class ModelSettings(config.Settings):
    """The settings that all architectures share, on which encodings depend."""

    layers: Depth = 1
    width: Width = 128
    heads: Width = 4

    @property
    def head_size(self) -> int:
        """The width of a head; without a setting `head_width` the heads share the model's."""
        return getattr(self, "head_width", None) or self.width // self.heads


class IdRange(NamedTuple):
    """The ids that an encoding gets from its scheme."""

    largest: int  # in training
    uncounted: int | None = None  # the id of tokens that the scheme does not count


class Window(NamedTuple):
    """The largest differences to lower and to higher ids that a token attends to."""

    lower: int
    upper: int


def _to_pair(window: object) -> object:
    """Return a window of one number as two numbers."""
    return [window, window] if isinstance(window, int) else window


Side = Annotated[int, Field(ge=0)]
Sides = Annotated[list[Side], Field(min_length=2, max_length=2), BeforeValidator(_to_pair)]


class Encoding(nn.Module):
    """An encoding of ids. A subclass overrides the methods that it needs; the defaults do nothing.

    `window`: a token attends to itself and to tokens whose ids differ from its id by at most this
    number; `[lower, upper]` sets different limits for lower and for higher ids. With several
    windows, each one has to allow a token, and at least one of them has to count both tokens.
    `first`: a token also attends to the first token of the sequence.

    Shapes: ids [b, T], where b is the batch, or 1 if all rows share their ids.
    """

    class Settings(config.Settings):
        """The settings of every encoding."""

        window: Sides | None = None
        first: bool = True

    label: ClassVar[str] = ""  # for figures and tables; by default the name of the class
    needs_order: ClassVar[bool] = False  # ids must grow from left to right

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "label" not in vars(cls):
            cls.label = cls.__name__

    def __init__(self, settings: Settings, model: ModelSettings, ids: IdRange) -> None:
        super().__init__()
        self.window = None if settings.window is None else Window(*settings.window)
        self.sees_first, self.uncounted_id = settings.first, ids.uncounted
        self.limit: int | None = None  # the largest id that it can encode; None: any id

    def initialise(self, std: float) -> None:
        """Set the first weights; embeddings get the standard deviation of the token embeddings."""

    def embed(self, ids: Integer[Tensor, "b T"]) -> Float[Tensor, "b T D"] | None:
        """Return the vectors that are added to the token embeddings."""
        return None

    def rotate(
        self, x: Float[Tensor, "B H T d"], ids: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "B H T d"]:
        """Return queries or keys rotated by their ids, which must be linear in them."""
        return x

    def bias(
        self, layer: int, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "_ H Q T"] | None:
        """Return the bias that is added to the attention scores of a layer."""
        return None

    def score(
        self,
        layer: int,
        queries: Float[Tensor, "B H Q d"],
        query: Integer[Tensor, "_ Q"],
        key: Integer[Tensor, "_ T"],
    ) -> Float[Tensor, "B H Q T"] | None:
        """Return scores that depend on the queries; attention scales them like its own scores.

        Args:
            queries: the query vectors before rotation, in which scores must be linear.
            query: their ids.
            key: the ids of the keys.
        """
        return None


def choose_encoding(name: object, where: str) -> type[Encoding]:
    """Return the encoding called `name`.

    >>> choose_encoding("rope", "positions.0.encoding").__name__
    'RoPE'
    """
    return config.choose_class("carry.models.encodings", Encoding, name, where)


def gather_biases(
    biases: Float[Tensor, "R H"], rows: Integer[Tensor, "b Q T"]
) -> Float[Tensor, "b H Q T"]:
    """Return the biases of each head, picked from a table by row.

    >>> import torch
    >>> gather_biases(torch.tensor([[1.0], [2.0]]), torch.tensor([[[0, 1]]])).tolist()
    [[[[1.0, 2.0]]]]
    """
    return biases.T[:, rows].transpose(0, 1)
