"""ALiBi: attention with linear biases, nothing of which is learned (Press et al. 2021)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from carry.models.encodings import Encoding, Ids, Shape


class ALiBi(Encoding):
    """A bias -r |i - j|, query id i, key id j, whose slope r is each head's own, see `slopes`."""

    def __init__(self, given: Encoding.Settings, shape: Shape, ids: Ids) -> None:
        super().__init__(given, shape, ids)
        self.register_buffer("slopes", torch.tensor(slopes(shape.heads)), persistent=False)

    def bias(
        self, layer: int, query: Integer[Tensor, "_ Q"], key: Integer[Tensor, "_ T"]
    ) -> Float[Tensor, "_ H Q T"]:
        """Work the biases out, in the precision of the slopes (fp32), whatever products are in."""
        distance = (query[:, :, None] - key[:, None, :]).abs().to(self.slopes.dtype)
        return -self.slopes[:, None, None] * distance[:, None]


def slopes(heads: int) -> list[float]:
    """Return the slope of each head (Press et al. 2021, section 3, and the released code).

    Of n heads, a power of two, head h has 2^(-8h / n). Of any other number, the first heads have
    the slopes of the power of two below it, the others every second slope of the one above.

    >>> slopes(4)
    [0.25, 0.0625, 0.015625, 0.00390625]
    >>> slopes(6)[4:]
    [0.5, 0.125]
    """
    power = 2 ** (heads.bit_length() - 1)
    first = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    return first if power == heads else first + slopes(2 * power)[::2][: heads - power]
