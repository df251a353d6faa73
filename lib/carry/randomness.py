"""Randomness as an argument: one named stream for each seed and purpose."""

from __future__ import annotations

import hashlib

import torch
from jaxtyping import Integer
from torch import Tensor

# Of splitmix64: the step of its counter, then each shift with the factor behind it.
STEP, FACTORS = 0x9E3779B97F4A7C15, ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def stream(seed: int, *purpose: str | int, device: str | torch.device = "cpu") -> torch.Generator:
    """Return a generator that depends on nothing but the seed and the words of its purpose.

    >>> a, b = stream(0, "data"), stream(0, "data")
    >>> torch.equal(torch.rand(3, generator=a), torch.rand(3, generator=b))
    True
    >>> stream(0, "data").initial_seed() == stream(0, "offsets").initial_seed()
    False
    """
    words = "/".join([str(seed), *map(str, purpose)])
    digest = hashlib.sha256(words.encode()).digest()
    generator = torch.Generator(device=device)
    generator.manual_seed(int.from_bytes(digest[:8], "big") >> 1)  # 63 bits: seeds are signed
    return generator


def drawn_for(
    key: Integer[Tensor, "*B"], count: int | Integer[Tensor, "*#B"]
) -> Integer[Tensor, "*B"]:
    """Return for each key a number from 0 to `count` - 1, as if drawn evenly, and always the same.

    For what is to look random and yet be a function of what it is drawn for. The bits are those of
    splitmix64 (Steele, Lea & Flood 2014) started at 0, the one of key 0 first; the upper 31 are
    taken, so that a number's share is off by no more than `count` in 2^31.

    >>> drawn_for(torch.arange(8), 10).tolist()
    [8, 4, 0, 9, 1, 3, 1, 7]
    """
    bits = (key.long() + 1) * _signed(STEP)  # products wrap around
    for shift, factor in FACTORS:
        bits = (bits ^ _shifted(bits, shift)) * _signed(factor)
    bits = bits ^ _shifted(bits, 31)
    return _shifted(bits, 64 - 31) * count >> 31


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _shifted(bits: Integer[Tensor, "*B"], by: int) -> Integer[Tensor, "*B"]:
    """Shift to the right and let zeros in, whatever the sign."""
    return (bits >> by) & ((1 << (64 - by)) - 1)
