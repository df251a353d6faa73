"""T5: a learned bias for each head and bucket of distances (Raffel et al. 2020, 2.1)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from carry.models.encodings import Encoding, IdRange, ModelSettings, gather_biases

BUCKETS, MAX_DISTANCE = 32, 128


class T5(Encoding):
    """Biases by the bucket of i - j, query id i, key id j, in one table for all layers.

    The first half e of the n `BUCKETS` hold one distance each. With m the `MAX_DISTANCE`, larger
    distances d are in bucket e + floor((n - e) log(d / e) / log(m / e)), or the last. These are the
    buckets of a decoder: keys with later ids share the bucket of distance 0.
    """

    needs_order = True

    def __init__(self, settings: Encoding.Settings, model: ModelSettings, ids: IdRange) -> None:
        super().__init__(settings, model, ids)
        self.width = model.width
        exact = BUCKETS // 2
        growth = (MAX_DISTANCE / exact) ** (1 / (BUCKETS - exact))
        # The smallest distance of each bucket, so that integers can be compared. Rounding may leave
        # an integer slightly too large, and it must not be rounded up then.
        starts = [math.ceil(exact * growth**step - 1e-9) for step in range(BUCKETS - exact)]
        self.register_buffer("starts", torch.tensor([*range(exact), *starts]), persistent=False)
        self.biases = nn.Parameter(torch.zeros(BUCKETS, model.heads))

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
