"""Random numbers without global state: a named stream for each seed and purpose."""

from __future__ import annotations

import hashlib

import torch
from jaxtyping import Integer
from torch import Tensor

# splitmix64: the increment of its counter, then shifts with the factors that follow them.
INCREMENT = 0x9E3779B97F4A7C15
SHIFTS_AND_FACTORS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def stream(seed: int, *purpose: str | int, device: str | torch.device = "cpu") -> torch.Generator:
    """Return a generator that depends only on the seed and the words of its purpose.

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


def hash_to_range(
    key: Integer[Tensor, "*B"], count: int | Integer[Tensor, "*#B"]
) -> Integer[Tensor, "*B"]:
    """Return a pseudorandom number from 0 to `count` - 1 for each key, always the same.

    The bits are the outputs of splitmix64 (Steele, Lea & Flood 2014) started at 0, with key 0
    first. The upper 31 bits are used, so that the probability of a number is off by at most
    `count` / 2^31; `count` is at most 2^31.

    >>> hash_to_range(torch.arange(8), 10).tolist()
    [8, 4, 0, 9, 1, 3, 1, 7]
    """
    bits = (key.long() + 1) * _to_signed(INCREMENT)  # products wrap around
    for shift, factor in SHIFTS_AND_FACTORS:
        bits = (bits ^ _shift_right(bits, shift)) * _to_signed(factor)
    bits = bits ^ _shift_right(bits, 31)
    return _shift_right(bits, 64 - 31) * count >> 31


def _to_signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _shift_right(bits: Integer[Tensor, "*B"], by: int) -> Integer[Tensor, "*B"]:
    """Shift unsigned 64-bit numbers, which are stored as signed ones."""
    return (bits >> by) & ((1 << (64 - by)) - 1)
