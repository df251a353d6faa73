"""One head and one feature that decide the noisy majority (fraknoi2024, 5.3).

The embedding is query, key and value at once, with a large number N:

    token       ^    0     1      2    =    4      5
    embedding   0    N     N+1    0    1    N^2    N^2

After `=`, whose query is 1, a one has e times the weight of a zero, which has e^N times the
weight of any other token: the output of the head, (zeros N + ones e (N + 1)) / (zeros + ones e), is
between N and N + 1, and with more ones than zeros it is more than

    a = (N + e (N + 1)) / (1 + e)

(The thesis has the two answers the other way round: it states that the output is at least a with as
many zeros as ones. With zeros alone it is N, which is less.) After an answer the output is N^2, and
the next token is the end.

With as many ones as zeros the output is a, up to the weights of other tokens, about e^-N: a larger
N loses it in rounding, and the answer is chance. If the model knows the length of the longest
strings, its threshold is half way to the output with one more one. In single precision that fails
too, at N and lengths in the hundreds (see `carry.interpretability.majority_constructions`).
"""

from __future__ import annotations

import math

import torch

from carry.experiments.resolve import make_run
from carry.formats import BOS, EOS, EQUALS
from carry.models.system import System
from carry.tasks.noisy_majority import ONES_ANSWER, ZEROS_ANSWER


def build_minimal_majority(
    large: float = 12.0, length: int | None = None, dtype: torch.dtype = torch.float64
) -> System:
    """Return the model for a number N, which has to exceed the logarithm of the noise.

    Args:
        large: N.
        length: of the longest strings; None uses the threshold of the thesis.

    >>> from carry.evaluation.ask import ask, read_answer
    >>> model = build_minimal_majority()
    >>> [read_answer(model, ask(model, string)) for string in ("0110", "0112", "2", "22202")]
    ['4', '5', '4', '4']
    """
    model = {
        "width": 1,
        "heads": 1,
        "norm": "none",
        "feed_forward": False,
        "output": False,
        "biases": False,
        "logit_bias": True,
    }
    settings = {"task": {"name": "noisy_majority"}, "model": model}
    system = System(make_run(settings, "minimal_majority"))
    network = system.network.to(dtype)
    embeddings = {BOS: 0.0, 0: large, 1: large + 1, 2: 0.0, EQUALS: 1.0}
    embeddings |= dict.fromkeys((ZEROS_ANSWER, ONES_ANSWER), large**2)
    threshold = (large + math.e * (large + 1)) / (1 + math.e)
    if length is not None:
        threshold += math.e / (1 + math.e) ** 2 / (length + 1)
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
        for token, value in embeddings.items():
            network.tokens.weight[token] = value
        block, logits = network.blocks[0], network.logits
        block.query.weight[:], block.key_value.weight[:] = 1.0, 1.0
        # The residual stream also holds the embedding of the token, which is 1 for `=`.
        logits.weight[ZEROS_ANSWER], logits.bias[ZEROS_ANSWER] = -1.0, threshold + 1
        logits.weight[ONES_ANSWER], logits.bias[ONES_ANSWER] = 1.0, -threshold - 1
        logits.weight[EOS], logits.bias[EOS] = 4.0, -12 * (large + 1)
    return system
