"""Sines and cosines of the id, added to the token (Vaswani et al. 2017, 3.5)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Integer
from pydantic import Field
from torch import Tensor

from carry.models.encodings import Encoding, Ids, Shape


class Sinusoidal(Encoding):
    """Feature pair k of n turns by id / `base`^(k / n); any id can be felt.

    With `base: null` by id * pi (k + 1/2) / n: different ids are then at right angles, as long as
    they differ by less than the width, and the step from one to the next is the same everywhere.
    `turned`: the features are mixed by a random rotation, which is kept with the weights, so that
    the ids of several levels lie in directions of their own, and what has no place (id 0) has no
    features. `scale`: how large features are; tokens have 1 / sqrt(width).
    """

    class Settings(Encoding.Settings):
        """The settings of this kind."""

        base: float | None = Field(default=10_000.0, gt=0.0)
        turned: bool = False
        scale: float = Field(default=1.0, gt=0.0)

    def __init__(self, given: Settings, shape: Shape, ids: Ids) -> None:
        super().__init__(given, shape, ids)
        self.width, self.base, self.scale = shape.width, given.base, given.scale
        rotation = torch.eye(shape.width) if given.turned else None
        self.register_buffer("rotation", rotation)

    def initialise(self, std: float) -> None:
        """Draw the rotation."""
        if self.rotation is not None:
            torch.nn.init.orthogonal_(self.rotation)

    def embed(self, ids: Integer[Tensor, "b T"]) -> Float[Tensor, "b T D"]:
        """Work the features out."""
        features = self.scale * waves(ids, self.width, self.base)
        if self.rotation is None:
            return features
        return (features.to(self.rotation.dtype) @ self.rotation) * (ids > 0)[..., None]


def waves(ids: Integer[Tensor, "*T"], width: int, base: float | None) -> Float[Tensor, "*T D"]:
    """Return `width` features of each id, sines and cosines in turn, at rates as in `Sinusoidal`.

    >>> waves(torch.tensor([0, 1]), 2, 100.0)
    tensor([[0.0000, 1.0000],
            [0.8415, 0.5403]])
    """
    exponent = torch.arange(0, width, 2, device=ids.device) / width
    rates = base**-exponent if base else torch.pi * (exponent + 1 / width)
    angles = ids[..., None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :width]
