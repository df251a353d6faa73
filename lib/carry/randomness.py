"""Randomness as an argument: one named stream for each seed and purpose."""

from __future__ import annotations

import hashlib

import torch


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
