"""Learning rate and batch size by step. They never depend on time, so hardware changes nothing."""

from __future__ import annotations

import math

from carry.experiments.run import Training


def compute_learning_rate(step: int, training: Training) -> float:
    """Return the learning rate of a step, counted from 0.

    The rate rises linearly over the share `warmup` of all steps. Then `decay` takes it to
    `final_learning_rate` times the peak: cosine, or trapezoid (Zhai et al. 2022), constant, then
    linear over the share `cooldown` of all steps, or over the last fifth of those after the
    warmup. (The released code of mcleish2024 has a tenth of all steps at both ends.)

    >>> training = Training(steps=100, learning_rate=1.0, warmup=0.1, decay="cosine")
    >>> [round(compute_learning_rate(step, training), 3) for step in (0, 9, 55)]
    [0.1, 1.0, 0.5]
    >>> training = Training(steps=100, learning_rate=1.0, decay="trapezoid", cooldown=0.1)
    >>> [round(compute_learning_rate(step, training), 3) for step in (5, 90, 95, 99)]
    [1.0, 1.0, 0.5, 0.1]
    """
    warmup_steps = round(training.warmup * training.steps)
    if step < warmup_steps:
        return training.learning_rate * (step + 1) / warmup_steps
    progress = (step - warmup_steps) / max(1, training.steps - warmup_steps)
    if training.decay == "none":
        share = 1.0
    elif training.decay == "cosine":
        share = 0.5 + 0.5 * math.cos(math.pi * progress)
    elif training.cooldown is None:
        share = min(1.0, 5.0 * (1.0 - progress))
    else:
        share = min(1.0, (training.steps - step) / (training.cooldown * training.steps))
    return training.learning_rate * (
        training.final_learning_rate + (1.0 - training.final_learning_rate) * share
    )


def compute_batch_size(step: int, training: Training) -> int:
    """Return the batch size of a step. It grows linearly over the share `batch_ramp` of all steps.

    >>> training = Training(steps=100, batch=64, batch_ramp=0.5)
    >>> [compute_batch_size(step, training) for step in (0, 25, 80)]
    [1, 32, 64]
    """
    ramp_steps = training.batch_ramp * training.steps
    if step >= ramp_steps:
        return training.batch
    return max(1, int(training.batch * step / ramp_steps))
