"""One head and one feature that find the noisy majority (fraknoi2024, 5.3).

The embedding is query, key and value at once, with a large number N:

    token       ^    0     1      2    =    4      5
    embedding   0    N     N+1    0    1    N^2    N^2

Behind `=`, whose query is 1, a one counts e times as much as a zero, and all else e^N times less:
the head finds (zeros N + ones e (N + 1)) / (zeros + ones e), between N and N + 1, and more than

    a = (N + e (N + 1)) / (1 + e)

if there are more ones. (The thesis has the two answers the other way round: it says that what is
found is at least a if there are as many zeros. With all zeros it is N, which is less.) Behind an
answer the head finds N^2, and the end is due.

Of as many ones as zeros it finds a itself, but for what leaks to other tokens, e^-N or so: with a
larger N that is lost in rounding, and the answer is chance. Told the length of the longest strings,
the model sets its threshold half way to what it finds where there is one more one. In single
precision that ends too, where N and lengths are hundreds (see `carry.interpretability.majority_constructions`).
"""

from __future__ import annotations

import math

import torch

from carry.config.run_settings import make_run
from carry.config.settings import SettingsError
from carry.formats import BOS, EOS, EQUALS
from carry.models.system import System
from carry.tasks.noisy_majority import ONES, ZEROS


def minimal_majority(
    large: float = 12.0, length: int | None = None, dtype: torch.dtype = torch.float64
) -> System:
    """Return the model for some N, which has to be larger than the logarithm of the noise.

    Args:
        large: N.
        length: of the longest strings; without it the threshold is that of the thesis.

    >>> from carry.evaluation.ask import answer, ask
    >>> model = minimal_majority()
    >>> [answer(model, ask(model, string)) for string in ("0110", "0112", "2", "22202")]
    ['4', '5', '4', '4']

    Raises:
        SettingsError: for an N of 0 or less, or a length below 1.
    """
    if large <= 0:
        raise SettingsError(f"large: {large} does not fit, expected a number above 0")
    if length is not None and length < 1:
        raise SettingsError(f"length: {length} does not fit, expected at least 1")
    model = {
        "width": 1,
        "heads": 1,
        "norm": "none",
        "feed_forward": False,
        "output": False,
        "biases": False,
        "logit_bias": True,
    }
    given = {"task": {"name": "noisy_majority"}, "model": model}
    system = System(make_run(given, "minimal_majority"))
    network = system.network.to(dtype)
    embedded = {BOS: 0.0, 0: large, 1: large + 1, 2: 0.0, EQUALS: 1.0}
    embedded |= dict.fromkeys((ZEROS, ONES), large**2)
    middle = (large + math.e * (large + 1)) / (1 + math.e)
    if length is not None:
        middle += math.e / (1 + math.e) ** 2 / (length + 1)
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
        for token, value in embedded.items():
            network.tokens.weight[token] = value
        block, logits = network.blocks[0], network.logits
        block.query.weight[:], block.key_value.weight[:] = 1.0, 1.0
        # The stream holds the token itself too, which is 1 for `=`.
        logits.weight[ZEROS], logits.bias[ZEROS] = -1.0, middle + 1
        logits.weight[ONES], logits.bias[ONES] = 1.0, -middle - 1
        logits.weight[EOS], logits.bias[EOS] = 4.0, -12 * (large + 1)
    return system
