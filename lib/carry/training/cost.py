"""What a training step computes: it orders the jobs of a pool, and is compared in headlines."""

from __future__ import annotations

import functools

import torch

from carry.data.training_batches import draw_held_out
from carry.experiments.run import Run
from carry.models.system import System
from carry.randomness import stream

SAMPLE = 100  # problems whose written lengths are measured


def count_training_operations(run: Run) -> float:
    """Return the floating-point operations of training one seed, forward and backward, with scores.

    These are products with weights; products of queries with keys are not counted.

    >>> from carry.experiments.resolve import make_run
    >>> small, large = (make_run({"model": {"width": width}}) for width in (64, 256))
    >>> count_training_operations(large) > 10 * count_training_operations(small)
    True
    """
    return run.training.steps * _count_step(run.model_dump_json(exclude={"label"}))


@functools.cache  # it takes some 20 milliseconds
def _count_step(settings: str) -> float:
    """Return the operations of a step of the run with these settings."""
    system = System(Run.model_validate_json(settings), device="meta")
    training, network = system.run.training, system.network
    tokens, answers = _measure_lengths(system)
    if training.loss == "everything":
        answers = tokens
    depth = network.settings.layers * network.recurrences
    # The last layer is computed for the answers alone, except for keys and values (a sixth).
    seen = tokens - (tokens - answers) * 5 / 6 / depth
    numbers = sum(weights.numel() for weights in network.hidden_matrices()) * network.recurrences
    numbers_read = network.logits.weight.numel() if hasattr(network, "logits") else 0
    forward = 2 * (seen * numbers + answers * numbers_read)  # of one problem
    scored = training.score_problems / training.score_every / 3  # a third of a step each
    # The progressive loss takes a second pass, on average of half the recurrences or fewer.
    passes = 1 + (training.progressive > 0 and network.recurrences > 1) / 2
    batch = training.batch * (1 - training.batch_ramp / 2)  # the mean over all steps
    return 3 * forward * (batch * passes + scored)


def _measure_lengths(system: System) -> tuple[float, float]:
    """Return the mean number of tokens of a training problem, and of its response."""
    run, task = system.run, system.task
    if run.data_set is not None and run.data_set.lengths:
        lengths = torch.tensor(run.data_set.lengths)
        cells = torch.stack([lengths, lengths], dim=1)
        problems = task.draw_for_cells(cells, stream(0, "cost"))
    else:  # an even sample of the cells
        problems = draw_held_out(run, task, "cost", SAMPLE)
    batch = system.format.write(problems)
    length, start = batch.length.double(), batch.start.double()
    padding = run.training.random_padding * start
    return float((length + padding).mean()), float((length - start).mean())
