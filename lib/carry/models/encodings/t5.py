"""T5: a learned bias for each head and bucket of distances (Raffel et al. 2020, 2.1)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from carry.models.encodings import Encoding, IdRange, ModelShape, gather_biases

BUCKETS, MAX_DISTANCE = 32, 128


class T5(Encoding):
    """Biases by the bucket of i - j, query id i, key id j, in one table for all layers.

    The first half of the `BUCKETS` hold one distance each. The others grow evenly in the logarithm
    of the distance up to `MAX_DISTANCE`, and the last one holds all larger distances. These are the
    buckets of a decoder: keys with later ids share the bucket of distance 0.
    """

    needs_order = True

    def __init__(self, settings: Encoding.Settings, shape: ModelShape, ids: IdRange) -> None:
        super().__init__(settings, shape, ids)
        self.width = shape.width
        starts = compute_bucket_starts(BUCKETS, MAX_DISTANCE)
        self.register_buffer("starts", torch.tensor(starts), persistent=False)
        self.biases = nn.Parameter(torch.zeros(BUCKETS, shape.heads))

    def initialise(self, std: float) -> None:
        """Set the first biases; their spread does not depend on the embeddings'."""
        nn.init.normal_(self.biases, std=self.width**-0.5)

    def bias(
        self, layer: int, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "_ H Q T"]:
        """Return the biases of the buckets of the distances."""
        distance = (query[:, :, None] - key[:, None, :]).clamp(min=0)
        bucket = torch.bucketize(distance, self.starts, right=True) - 1
        return gather_biases(self.biases, bucket)


def compute_bucket_starts(buckets: int, max_distance: int) -> list[int]:
    """Return the smallest distance of each bucket, so that integers can be compared.

    Of n buckets, with e = n // 2 and m the `max_distance`, a distance d >= e is in bucket
    e + floor((n - e) log(d / e) / log(m / e)).

    >>> compute_bucket_starts(8, 32)
    [0, 1, 2, 3, 4, 7, 12, 20]
    """
    exact = buckets // 2
    growth = (max_distance / exact) ** (1 / (buckets - exact))
    # Rounding may leave an integer slightly too large, and it must not be rounded up then.
    starts = [math.ceil(exact * growth**step - 1e-9) for step in range(buckets - exact)]
    return [*range(exact), *starts]
