"""ALiBi: attention with linear biases, without weights (Press et al. 2021)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from carry.models.encodings import Encoding, IdRange, ModelSettings


class ALiBi(Encoding):
    """A bias -r |i - j| for query id i and key id j, with a slope r for each head."""

    def __init__(self, settings: Encoding.Settings, model: ModelSettings, ids: IdRange) -> None:
        super().__init__(settings, model, ids)
        slopes = torch.tensor(compute_slopes(model.heads))
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(
        self, layer: int, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "_ H Q T"]:
        """Compute the biases in the precision of the slopes (fp32), also under autocast."""
        distance = (query[:, :, None] - key[:, None, :]).abs().to(self.slopes.dtype)
        return -self.slopes[:, None, None] * distance[:, None]


def compute_slopes(heads: int) -> list[float]:
    """Return the slope of each head (Press et al. 2021, section 3, and the released code).

    With n heads, n a power of two, head h has slope 2^(-8h / n). With any other number, the first
    heads have the slopes of the next lower power of two. The other heads have every second slope
    of the next higher one.

    >>> compute_slopes(4)
    [0.25, 0.0625, 0.015625, 0.00390625]
    >>> compute_slopes(6)[4:]
    [0.5, 0.125]
    """
    power = 2 ** (heads.bit_length() - 1)
    first = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    return first if power == heads else first + compute_slopes(2 * power)[::2][: heads - power]
