"""Limits of the minimal majority model by its number N: noise and rounding (fraknoi2024, 5.3).

The thresholds are those of `carry.interpretability.majority_constructions.score_majority`: that of
the thesis, and the "mended" one, half way from a tie to the output with one more one.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

# Kinds of faults; a later kind overrides an earlier one.
FAULTS = (
    "no fault",
    "noise: ones missed",
    "rounding: ties missed",
    "rounding: ones missed",
    "N too small: end missed",
)

# At a tie the model computes N + TIE; with one more one at least 2 RISE / (length + 1) more.
TIE, RISE = np.e / (1 + np.e), np.e / (1 + np.e) ** 2


def tolerates_noise(large: np.ndarray, length: np.ndarray, threshold: str) -> np.ndarray:
    """Return whether exact arithmetic detects one more one in all strings up to a length.

    After k zeros, k + 1 ones and t twos the model exceeds its threshold a if and only if
    e^N (k (N - a) + (k + 1) e (N + 1 - a)) + e > a (1 + e + t). More zeros leave less room for
    twos, and both sides are linear in k: testing k = 0 and the largest k suffices.

    Args:
        large: N.
        length: of the longest strings; it has to fit `large`.
        threshold: "thesis" or "mended".

    >>> tolerates_noise(np.array([8.0]), np.array([247.0, 248.0]), "thesis").tolist()
    [True, False]
    """
    rise = RISE / (length + 1) if threshold == "mended" else 0.0
    detected = True
    for zeros in (0.0, np.maximum(length - 1, 0) / 2):
        with np.errstate(over="ignore"):
            weight = np.exp(large) * (zeros * (-TIE - rise) + (zeros + 1) * np.e * (1 - TIE - rise))
        noise = (large + TIE + rise) * (np.e + np.maximum(length - 2 * zeros, 1))
        detected = detected & (weight + np.e > noise)
    return detected


def find_rounding_length(large: np.ndarray, dtype: str, threshold: str) -> np.ndarray:
    """Return the length beyond which no floating point number separates threshold and tie.

    The computed value is about N, where neighbouring numbers differ by one step. With the
    threshold of the thesis, a tie of k is lower by the leaked attention, N e^-N / k; with the
    mended threshold by 0.2 / (length + 1).

    >>> find_rounding_length(np.array([1000.0]), "float32", "mended").round().tolist()
    [3220.0]
    """
    step = np.spacing(large.astype(dtype)).astype(float)
    if threshold == "mended":
        return RISE / step - 1
    return 2 * large * np.exp(-large) / step


def classify_faults(counts: pd.DataFrame) -> pd.Series:
    """Return the kind of fault of each line, one of `FAULTS`.

    Args:
        counts: wrong answers at `ties` and with one more of the `ones`, and without the `end`
            token, by `large` (N), `length` and `threshold`.

    >>> counts = pd.DataFrame({"ties": [0, 2, 0, 5, 0], "ones": [0, 0, 3, 1, 9], "end": 0})
    >>> counts = counts.assign(large=[12.0, 80.0, 5.0, 80.0, 2.0], length=90, threshold="thesis")
    >>> counts.loc[4, "end"] = 1
    >>> [text.split(":")[0] for text in classify_faults(counts)]
    ['no fault', 'rounding', 'noise', 'rounding', 'N too small']
    """
    none, noise, ties, ones, end = FAULTS
    sizes = counts["large"].to_numpy(float), counts["length"].to_numpy(float)
    exact = [tolerates_noise(*sizes, threshold) for threshold in ("mended", "thesis")]
    tolerated = np.where(counts["threshold"] == "mended", *exact)
    faults = pd.Series(none, index=counts.index)
    faults = faults.mask(counts["ties"] > 0, ties)
    faults = faults.mask((counts["ones"] > 0) & tolerated, ones)
    faults = faults.mask((counts["ones"] > 0) & ~tolerated, noise)
    return faults.mask(counts["end"] > 0, end)
