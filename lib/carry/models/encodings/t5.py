"""T5: a learned bias for each head and bucket of distances (Raffel et al. 2020, 2.1)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from pydantic import Field, model_validator
from torch import Tensor, nn

from carry.models.encodings import Encoding, Ids, Shape


class T5(Encoding):
    """Biases by the bucket of i - j, query id i, key id j, in one table for all layers.

    The first half of the `buckets` hold one distance each, the others grow evenly in its logarithm
    up to `max_distance`, and the last holds all beyond. They are those of a decoder, which looks
    back only: keys with later ids would share the bucket of distance 0.
    """

    class Settings(Encoding.Settings):
        """The settings of this kind."""

        buckets: int = Field(default=32, ge=2)
        max_distance: int = Field(default=128, ge=2)

        @model_validator(mode="after")
        def _grow(self) -> T5.Settings:
            if self.max_distance <= self.buckets // 2:
                raise ValueError(
                    f"max_distance {self.max_distance} with buckets {self.buckets} does not fit, "
                    f"expected more than {self.buckets // 2}, the buckets of one distance each"
                )
            return self

    needs_order = True

    def __init__(self, given: Settings, shape: Shape, ids: Ids) -> None:
        super().__init__(given, shape, ids)
        self.width = shape.width
        first = torch.tensor(first_distances(given.buckets, given.max_distance))
        self.register_buffer("starts", first, persistent=False)
        self.biases = nn.Parameter(torch.zeros(given.buckets, shape.heads))

    def initialise(self, std: float) -> None:
        """Set the first biases, whose spread does not depend on that of embeddings."""
        nn.init.normal_(self.biases, std=self.width**-0.5)

    def bias(
        self, layer: int, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "_ H Q T"]:
        """Look the buckets of the distances up."""
        distance = (query[:, :, None] - key[:, None, :]).clamp(min=0)
        bucket = torch.bucketize(distance, self.starts, right=True) - 1
        return F.embedding(bucket, self.biases).permute(0, 3, 1, 2)


def first_distances(buckets: int, max_distance: int) -> list[int]:
    """Return the smallest distance of each bucket, for comparisons in whole numbers.

    Of n buckets, distance d from e = n // 2 on is in e + floor((n - e) log(d / e) / log(m / e)),
    with m the `max_distance`.

    >>> first_distances(8, 32)
    [0, 1, 2, 3, 4, 7, 12, 20]
    """
    exact = buckets // 2
    growth = (max_distance / exact) ** (1 / (buckets - exact))
    # A whole number may come out a little larger, which is no reason to round up.
    grown = [math.ceil(exact * growth**step - 1e-9) for step in range(buckets - exact)]
    return [*range(exact), *grown]
