"""Sines and cosines of the id, added to the token (Vaswani et al. 2017, 3.5)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Integer
from pydantic import Field
from torch import Tensor

from carry.models.encodings import Encoding, IdRange, ModelSettings

GOLDEN_RATIO = (5**0.5 - 1) / 2


class Sinusoidal(Encoding):
    """Sine and cosine of an angle for each feature pair k of n: id / `base`^(k / n). Any id works.

    With `base: null` the angle is id * pi (k + 1/2) / n: ids that differ by less than the width
    are orthogonal, and every step from one id to the next has the same length.
    `turned`: a random rotation, which is saved with the weights, mixes the features. The ids of
    several levels then lie in different directions, and id 0 (no place) has no features.
    `scale`: the size of the features; token features have 1 / sqrt(width).
    """

    class Settings(Encoding.Settings):
        """The settings of sinusoidal features."""

        base: float | None = Field(default=10_000.0, gt=0.0)
        turned: bool = False
        scale: float = Field(default=1.0, gt=0.0)

    def __init__(self, settings: Settings, model: ModelSettings, ids: IdRange) -> None:
        super().__init__(settings, model, ids)
        self.width, self.base, self.scale = model.width, settings.base, settings.scale
        rotation = torch.eye(model.width) if settings.turned else None
        self.register_buffer("rotation", rotation)

    def initialise(self, std: float) -> None:
        """Draw the rotation."""
        if self.rotation is not None:
            torch.nn.init.orthogonal_(self.rotation)

    def embed(self, ids: Integer[Tensor, "b T"]) -> Float[Tensor, "b T D"]:
        """Compute the features."""
        features = self.scale * compute_sinusoids(ids, self.width, self.base)
        if self.rotation is None:
            return features
        return (features.to(self.rotation.dtype) @ self.rotation) * (ids > 0)[..., None]


def compute_sinusoids(
    ids: Integer[Tensor, "*T"], width: int, base: float | None, largest: int | None = None
) -> Float[Tensor, "*T D"]:
    """Return `width` features of each id, sines and cosines in turn, at the rates of `Sinusoidal`.

    Args:
        largest: the largest id, if there is one. If it is above the width, and there is no base,
            rates are multiples of pi times the golden ratio, modulo pi. With those of `Sinusoidal`
            ids that differ by the width have opposite features. With these the products of nearly
            all pairs of ids are small. The exceptions are differences near twice a Fibonacci
            number: of 128 features, the product is 0.46 at 177, 0.75 at 288 and 0.90 at 466.

    >>> compute_sinusoids(torch.tensor([0, 1]), 2, 100.0)
    tensor([[0.0000, 1.0000],
            [0.8415, 0.5403]])
    """
    exponent = torch.arange(0, width, 2, device=ids.device) / width
    if base is not None:
        rates = base**-exponent
    elif largest is None or largest <= width:
        rates = torch.pi * (exponent + 1 / width)
    else:
        multiples = GOLDEN_RATIO * torch.arange(1, len(exponent) + 1, dtype=torch.float64)
        rates = (torch.pi * (multiples % 1)).to(exponent)
    angles = ids[..., None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :width]
