"""Fourier analysis of modular addition (fraknoi2024, section 4, after Nanda et al. 2023).

Frequency k has the angle w = 2 pi k / P. A model that adds by rotation has logits

    logits[a, b, c]  =  sum over few k of  amplitude_k * cos(w_k (a + b - c))

key frequencies     these few k: the fewest that hold 95% of the variance that such waves explain
restricted logits   the constant and the waves in a + b at key frequencies, without the rest
excluded logits     the logits without these waves: what a model knows without rotation

Logits have shape [P * P, P], with the pair (a, b) in row a * P + b.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Integer
from torch import Tensor

KEY_SHARE = 0.95  # of the variance that waves explain is at key frequencies


def compute_spectrum(weights: Float[Tensor, "P D"]) -> Float[Tensor, " K"]:
    """Return the share of power at each frequency 1 .. P // 2, without the constant.

    >>> number = torch.arange(7)
    >>> wave = torch.cos(2 * torch.pi * 3 * number / 7)[:, None]
    >>> compute_spectrum(5.0 + wave).round(decimals=3).tolist()
    [0.0, 0.0, 1.0]
    """
    power = torch.fft.rfft(weights.double(), dim=0).abs().square().sum(1)
    if len(weights) % 2 == 0:
        power[-1] /= 2  # the others stand for two frequencies, k and P - k
    return power[1:] / power[1:].sum()


def find_key_frequencies(share: Float[Tensor, " K"]) -> list[int]:
    """Return the fewest frequencies that hold the share `KEY_SHARE` of the total, in order.

    >>> find_key_frequencies(torch.tensor([0.01, 0.6, 0.02, 0.37]))
    [2, 4]
    """
    descending, order = share.sort(descending=True)
    before = descending.cumsum(0) - descending
    return sorted((order[before < KEY_SHARE * descending.sum()] + 1).tolist())


def modular_sums(numbers: int) -> Integer[Tensor, " B"]:
    """Return the answer to every pair, in the order a * P + b."""
    number = torch.arange(numbers)
    return (number[:, None] + number).flatten() % numbers


def project_on_waves(
    logits: Float[Tensor, "B P"], frequencies: Sequence[int]
) -> Float[Tensor, "B P"]:
    """Return the part of the logits that are waves in a + b at these frequencies.

    It is a projection of the mean over all pairs of a sum; frequency 0 is the constant. At key
    frequencies with 0 it is the restricted logits; at key frequencies alone, it is what the
    excluded logits lack.

    >>> wave = torch.cos(2 * torch.pi * 3 * modular_sums(11).double() / 11)[:, None].expand(-1, 11)
    >>> bool(torch.allclose(project_on_waves(7.0 + wave, [3]), wave))
    True
    """
    numbers = logits.shape[1]
    mean = torch.zeros(numbers, numbers, dtype=torch.float64)
    mean.index_add_(0, modular_sums(numbers), logits.double()).div_(numbers)
    transformed = torch.fft.rfft(mean, dim=0)
    kept = torch.zeros(len(transformed), 1, dtype=transformed.dtype)
    kept[list(frequencies)] = 1.0
    return torch.fft.irfft(transformed * kept, n=numbers, dim=0)[modular_sums(numbers)]


def explained_variance(logits: Float[Tensor, "B P"]) -> Float[Tensor, " K"]:
    """Return the share of the logits' variance that cos(w (a + b - c)) explains, by frequency.

    The mean over c of each pair does not count as variance: softmax ignores it.

    >>> angle = 2 * torch.pi / 7 * (modular_sums(7)[:, None] - torch.arange(7)).double()
    >>> logits = 3 * torch.cos(angle) + 4 * torch.cos(2 * angle)
    >>> explained_variance(logits).round(decimals=3).tolist()
    [0.36, 0.64, 0.0]
    """
    numbers = logits.shape[1]
    centred = logits.double() - logits.double().mean(1, keepdim=True)
    difference = (modular_sums(numbers)[:, None] - torch.arange(numbers)) % numbers
    mean = torch.zeros(numbers, dtype=torch.float64)
    mean.index_add_(0, difference.flatten(), centred.flatten()).div_(len(logits))
    amplitude = torch.fft.rfft(mean).real[1:] * 2 / numbers
    power = amplitude.square() / 2
    if numbers % 2 == 0:
        power[-1] /= 2  # its cosine is 1 or -1, and was counted twice
    return power / centred.square().mean()


def project_on_circle(weights: Float[Tensor, "P D"], frequency: int) -> Float[Tensor, "P 2"]:
    """Return the coordinates of each number in the plane of a wave's cosine and sine.

    The plane of the even numbers is fitted to the odd ones, and the other way round: with as many
    features as numbers, a plane fitted to all numbers would show a circle in noise.

    >>> number = torch.arange(9.0)
    >>> angle = 2 * torch.pi * 2 * number / 9
    >>> places = project_on_circle(torch.stack([torch.cos(angle), torch.sin(angle)], dim=1), 2)
    >>> [round(x, 1) for x in places.norm(dim=1).tolist()]
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    numbers = len(weights)
    angle = 2 * math.pi * frequency / numbers * torch.arange(numbers, dtype=torch.float64)
    waves = torch.stack([torch.cos(angle), torch.sin(angle)], dim=1)
    centred = weights.double() - weights.double().mean(0)
    coordinates = torch.empty(numbers, 2, dtype=torch.float64)
    for half in range(2):
        projected = torch.arange(numbers) % 2 == half
        plane = torch.linalg.lstsq(waves[~projected], centred[~projected]).solution  # [2, D]
        coordinates[projected] = torch.linalg.lstsq(plane.T, centred[projected].T).solution.T
    return coordinates
