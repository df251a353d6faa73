"""Waves over the numbers of modular addition (fraknoi2024, section 4, after Nanda et al. 2023).

A frequency k stands for w = 2 pi k / P. A model that adds by rotation has logits

    logits[a, b, c]  =  sum over some k of  amplitude_k * cos(w_k (a + b - c))

key frequencies     those few k; here the fewest with 95% of what such waves explain of the logits
restricted logits   their constant, and their waves in a + b at key frequencies: all else is gone
excluded logits     the logits without these waves: what a model knows that is no rotation

Logits come as [P * P, P], the pair (a, b) in row a * P + b.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor

HOLDS = 0.95  # of what waves explain, by key frequencies


def spectrum(weights: Float[Tensor, "P D"]) -> Float[Tensor, " K"]:
    """Return the share of power at each frequency 1 .. P // 2 of what varies over the numbers.

    >>> number = torch.arange(7)
    >>> wave = torch.cos(2 * torch.pi * 3 * number / 7)[:, None]
    >>> spectrum(5.0 + wave).round(decimals=3).tolist()
    [0.0, 0.0, 1.0]
    """
    power = torch.fft.rfft(weights.double(), dim=0).abs().square().sum(1)
    if len(weights) % 2 == 0:
        power[-1] /= 2  # the others stand for a pair, k and P - k
    return power[1:] / power[1:].sum()


def key_frequencies(share: Float[Tensor, " K"], holds: float = HOLDS) -> list[int]:
    """Return the fewest frequencies that hold so much of what all of them have, in order.

    >>> key_frequencies(torch.tensor([0.01, 0.6, 0.02, 0.37]))
    [2, 4]
    """
    most, order = share.sort(descending=True)
    before = most.cumsum(0) - most
    return sorted((order[before < holds * most.sum()] + 1).tolist())


def sums(numbers: int) -> Integer[Tensor, " B"]:
    """Return the answer to every pair, counted a * P + b."""
    of = torch.arange(numbers)
    return (of[:, None] + of).flatten() % numbers


def waves_of_sums(logits: Float[Tensor, "B P"], frequencies: Sequence[int]) -> Float[Tensor, "P P"]:
    """Return, for each sum and c, the part of the logits that are waves in a + b at some k.

    Waves in a + b are what is left of a mean over all pairs of a sum; 0 stands for the constant.
    """
    numbers = logits.shape[1]
    mean = torch.zeros(numbers, numbers, dtype=torch.float64)
    mean.index_add_(0, sums(numbers), logits.double()).div_(numbers)
    found = torch.fft.rfft(mean, dim=0)
    kept = torch.zeros(len(found), 1, dtype=found.dtype)
    kept[list(frequencies)] = 1.0
    return torch.fft.irfft(found * kept, n=numbers, dim=0)


def restricted(logits: Float[Tensor, "B P"], keys: Sequence[int]) -> Float[Tensor, "B P"]:
    """Return the logits that key frequencies alone would give.

    >>> logits = rotation(11, {2: 3.0, 5: 1.0})
    >>> noisy = logits + torch.arange(121)[:, None] % 11 * torch.arange(11)
    >>> gone = restricted(noisy, [2, 5]) - logits
    >>> bool(torch.allclose(gone, gone[:1], atol=1e-9))  # but for a constant of each c
    True
    """
    return waves_of_sums(logits, [0, *keys])[sums(logits.shape[1])]


def excluded(logits: Float[Tensor, "B P"], keys: Sequence[int]) -> Float[Tensor, "B P"]:
    """Return the logits without their waves at key frequencies.

    >>> left = excluded(rotation(11, {2: 3.0, 5: 1.0}), [2])
    >>> bool(torch.allclose(left, rotation(11, {5: 1.0}), atol=1e-9))
    True
    """
    return logits.double() - waves_of_sums(logits, keys)[sums(logits.shape[1])]


def rotation(numbers: int, amplitudes: dict[int, float]) -> Float[Tensor, "B P"]:
    """Return the logits of a model that adds by rotation, at frequencies of some amplitudes.

    >>> rotation(5, {1: 2.0}).argmax(1)[:6].tolist()  # 0 + 0, 0 + 1, ..., 1 + 0
    [0, 1, 2, 3, 4, 1]
    """
    apart = sums(numbers)[:, None] - torch.arange(numbers)
    turns = {k: 2 * math.pi * k / numbers * apart.double() for k in amplitudes}
    return sum(amplitudes[k] * torch.cos(turn) for k, turn in turns.items())


def explained(logits: Float[Tensor, "B P"]) -> Float[Tensor, " K"]:
    """Return the share of the logits' variance that cos(w (a + b - c)) explains, by frequency.

    What is the same for all c of a pair is left out of the variance: softmax does not see it.

    >>> explained(rotation(7, {1: 3.0, 2: 4.0})).round(decimals=3).tolist()
    [0.36, 0.64, 0.0]
    """
    numbers = logits.shape[1]
    centred = logits.double() - logits.double().mean(1, keepdim=True)
    apart = (sums(numbers)[:, None] - torch.arange(numbers)) % numbers
    mean = torch.zeros(numbers, dtype=torch.float64)
    mean.index_add_(0, apart.flatten(), centred.flatten()).div_(len(logits))
    amplitude = torch.fft.rfft(mean).real[1:] * 2 / numbers
    power = amplitude.square() / 2
    if numbers % 2 == 0:
        power[-1] /= 2  # its cosine is 1 or -1, and was counted twice
    return power / centred.square().mean()


def losses(logits: Float[Tensor, "B P"], answers: Integer[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Return the loss of each pair, among the numbers alone: no model doubts that one is due."""
    return F.cross_entropy(logits.double(), answers, reduction="none")


def on_circle(weights: Float[Tensor, "P D"], frequency: int) -> Float[Tensor, "P 2"]:
    """Return where each number stands in the plane of a wave's cosine and sine.

    The plane is fitted to the other half of the numbers, even or odd: among as many directions as
    there are numbers, one that is fitted to all of them draws a circle out of noise.

    >>> number = torch.arange(9.0)
    >>> turn = 2 * torch.pi * 2 * number / 9
    >>> places = on_circle(torch.stack([torch.cos(turn), torch.sin(turn)], dim=1), 2)
    >>> [round(x, 1) for x in places.norm(dim=1).tolist()]
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    numbers = len(weights)
    turn = 2 * math.pi * frequency / numbers * torch.arange(numbers, dtype=torch.float64)
    waves = torch.stack([torch.cos(turn), torch.sin(turn)], dim=1)
    centred = weights.double() - weights.double().mean(0)
    found = torch.empty(numbers, 2, dtype=torch.float64)
    for half in range(2):
        drawn = torch.arange(numbers) % 2 == half
        plane = torch.linalg.lstsq(waves[~drawn], centred[~drawn]).solution  # [2, D]
        found[drawn] = torch.linalg.lstsq(plane.T, centred[drawn].T).solution.T
    return found
