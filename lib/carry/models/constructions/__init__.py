"""Transformers with constructed weights, from the proofs of the works."""

from __future__ import annotations

import torch
from jaxtyping import Float, Integer
from torch import Tensor


def signed_bits(index: Integer[Tensor, "*W"], bits: int) -> Float[Tensor, "*W K"]:
    """Return the lowest bits of numbers as +1 and -1, the lowest bit first.

    >>> signed_bits(torch.tensor(6), 3).tolist()
    [-1.0, 1.0, 1.0]
    """
    return 2.0 * (index[..., None] >> torch.arange(bits) & 1) - 1.0
