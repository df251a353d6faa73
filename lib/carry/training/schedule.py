"""Learning rate and batch size, by steps (never by the clock, so that hardware changes nothing)."""

from __future__ import annotations

import math

from carry.config.run_settings import Training


def rate_at(step: int, training: Training) -> float:
    """Return the learning rate of a step, counted from 0.

    Linear warm-up over the share `warmup` of all steps, then `decay` to `final_rate` times the
    rate: linear, cosine, or trapezoid (constant, then linear over the last fifth).

    >>> plan = Training(steps=100, learning_rate=1.0, warmup=0.1, decay="linear")
    >>> rate_at(0, plan), rate_at(9, plan), round(rate_at(99, plan), 3)
    (0.1, 1.0, 0.011)
    """
    warm = round(training.warmup * training.steps)
    if step < warm:
        return training.learning_rate * (step + 1) / warm
    gone = (step - warm) / max(1, training.steps - warm)
    if training.decay == "none":
        share = 1.0
    elif training.decay == "linear":
        share = 1.0 - gone
    elif training.decay == "cosine":
        share = 0.5 + 0.5 * math.cos(math.pi * gone)
    else:
        share = min(1.0, 5.0 * (1.0 - gone))
    return training.learning_rate * (
        training.final_learning_rate + (1.0 - training.final_learning_rate) * share
    )


def batch_at(step: int, training: Training) -> int:
    """Return the batch size of a step: it grows linearly over the share `batch_ramp` of steps.

    >>> plan = Training(steps=100, batch=64, batch_ramp=0.5)
    >>> batch_at(0, plan), batch_at(25, plan), batch_at(80, plan)
    (1, 32, 64)
    """
    ramp = training.batch_ramp * training.steps
    if step >= ramp:
        return training.batch
    return max(1, int(training.batch * step / ramp))
