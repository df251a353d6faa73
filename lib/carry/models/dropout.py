"""Dropout in training passes, with draws of its own (Srivastava et al. 2014)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

# The share that each activation has, by its name in `carry.models.hooks`.
SHARES = {
    "embed": "embeddings",
    "pattern": "inside",
    "attn_out": "outputs",
    "mlp_post": "inside",
    "mlp_out": "outputs",
}


class Dropout(NamedTuple):
    """Sets random activations of a training pass to 0, and enlarges the others to keep the mean.

    The shares of `outputs` (of attention and of feed-forward networks), of activations `inside`
    (attention weights and hidden units) and of `embeddings` (of tokens plus ids) are those of
    `Training`: `dropout`, `dropout_inside`, `dropout_embeddings`. `draws` gives the random numbers
    in the order of the pass.

    >>> from carry.randomness import stream
    >>> dropout = Dropout(0.5, 0.0, 0.0, stream(0, "doctest"))
    >>> dropout.apply("attn_out", torch.ones(1000)).unique().tolist()
    [0.0, 2.0]
    >>> dropout.apply("embed", torch.ones(1000)).unique().tolist()
    [1.0]
    """

    outputs: float
    inside: float
    embeddings: float
    draws: torch.Generator

    def apply(self, name: str, x: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """Return the activation of this name after dropout."""
        share = getattr(self, SHARES[name]) if name in SHARES else 0.0
        if not share:
            return x
        kept = torch.rand(x.shape, generator=self.draws, device=x.device) >= share
        return torch.where(kept, x / (1 - share), 0.0)
