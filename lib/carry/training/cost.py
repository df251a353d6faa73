"""What the training of a run takes, estimated from its settings.

The estimate orders the jobs of a pool and plans campaigns (`carry plan`); no result depends on it.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch

from carry import formats, tasks
from carry.config import profiles
from carry.config.settings import Settings, SettingsError, suggest_name
from carry.data.training_batches import draw_held_out
from carry.experiments.run import Run
from carry.models.identity import identify
from carry.models.system import System
from carry.randomness import stream

RATES = Path(__file__).with_name("rates.yaml")  # `python benchmarks/rates.py` measures them
BATCH = 128  # strings in a step of `BatchedRates`
SAMPLE = 100  # problems whose written lengths are measured


class StepCost(NamedTuple):
    """What one training step computes, forward and backward, with its share of the scores."""

    passes: float  # through layers, whatever their size
    operations: float  # floating-point operations of products with weights
    activations: float  # numbers that layers pass on: tokens x width x layers
    weights: float  # attention weights: pairs of tokens x heads x layers
    biases: float  # attention weights to which position encodings add something
    orthogonal: float  # floating-point operations of Muon
    written: float  # tokens that are drawn and written, on a core


class BatchedRates(Settings):
    """Seconds of a step of a row with `batched_seeds`, with batches of `BATCH` strings."""

    step: float  # of each group of models
    model: float
    number: float  # of the width of each model, or of its heads if they are more
    token: float  # of each such number of each token, with dropout of embeddings


class Rates(Settings):
    """Seconds that a device needs for each unit of `StepCost`."""

    measured: bool  # else estimated
    passes: float
    operations: float
    activations: float
    weights: float
    biases: float
    orthogonal: float
    written: float  # 0 on a core, whose other rates include it
    unrecorded: float  # how many times longer passes take whose kernels are launched one by one
    batched: BatchedRates


def estimate_training_seconds(run: Run, device: str = "cpu") -> float:
    """Return the seconds that training one seed takes on one core, or alone on one GPU.

    Early stops (`stop_at`) are not foreseen.

    Args:
        device: `cpu` or `gpu`, as in rates.yaml.

    Raises:
        SettingsError: for settings that do not fit, and for an unknown device.

    >>> from carry.experiments.resolve import make_run
    >>> small = {"task": {"name": "addition"}, "model": {"layers": 1, "width": 64}}
    >>> large = {"task": {"name": "addition"}, "model": {"layers": 2, "width": 256}}
    >>> estimate_training_seconds(make_run(large)) > 4 * estimate_training_seconds(make_run(small))
    True
    """
    rates = load_rates(device)
    if run.training.batched_seeds:
        step = _time_batched_step(run, rates.batched)
    else:
        cost = count_step(run)
        if not run.training.graphs:
            cost = cost._replace(passes=cost.passes * rates.unrecorded)
        step = sum(getattr(rates, unit) * count for unit, count in cost._asdict().items())
    return run.training.steps * step


_counted: dict[str, StepCost] = {}  # by identity: it takes some 20 milliseconds


def count_step(run: Run) -> StepCost:
    """Return what one training step of a run computes."""
    key = json.dumps(identify(run), sort_keys=True)
    if key not in _counted:
        _counted[key] = _count_step(run)
    return _counted[key]


def _count_step(run: Run) -> StepCost:
    training = run.training
    network = System(run, device="meta").network
    try:
        matrices = [tuple(weights.shape) for weights in network.hidden_matrices()]
    except SettingsError:  # an architecture that does not name them
        matrices = [tuple(weights.shape) for weights in network.parameters() if weights.ndim == 2]
    tokens, answers = _measure_lengths(run)
    if training.loss == "everything":
        answers = tokens
    shape = network.shape(network.settings)
    depth = shape.layers * network.recurrences
    # The last layer is computed for the answers alone, except for keys and values (a sixth).
    seen = tokens - (tokens - answers) * 5 / 6 / depth
    numbers = sum(rows * columns for rows, columns in matrices) * network.recurrences
    numbers_read = network.logits.weight.numel() if hasattr(network, "logits") else 0
    operations = 2 * (seen * numbers + answers * numbers_read)  # forward, for one problem
    pairs = tokens * seen * shape.heads * depth
    biased = sum(encoding.needs_attention for encoding in network.encodings)
    # A score is a forward pass, a third of a step, in batches of 16 problems.
    scored = training.score_problems / training.score_every / 3
    problems = training.batch * (1 + training.progressive) + scored
    return StepCost(
        passes=depth * (1 + training.progressive + scored / 16),
        operations=3 * operations * problems,
        activations=seen * shape.width * depth * problems,
        weights=pairs * problems,
        biases=pairs * biased * problems,
        orthogonal=sum(map(_count_orthogonal, matrices)) if training.optimizer == "muon" else 0.0,
        written=tokens * training.batch,
    )


@functools.cache
def load_rates(device: str) -> Rates:
    """Return the rates of a kind of device.

    Raises:
        SettingsError: for a device that rates.yaml does not have.
    """
    table: dict[str, Any] = profiles.read_yaml(RATES)
    if device not in table:
        raise SettingsError(f"device: {device!r} is unknown, {suggest_name(device, table)}")
    return Rates.parse(table[device], f"rates.{device}")


def _time_batched_step(run: Run, rates: BatchedRates) -> float:
    """Return the seconds of one seed; two groups of seeds share the time of their steps."""
    batches, numbers, tokens = count_batched_step(run)
    model = rates.model * batches + rates.number * numbers + rates.token * tokens
    return rates.step / max(1, run.seeds / 2) + model


def count_batched_step(run: Run) -> tuple[float, float, float]:
    """Return the units of `model`, `number` and `token` of one model with `batched_seeds`."""
    batches = run.training.batch / BATCH
    numbers = batches * max(run.model.get("width", 1), run.model.get("heads", 1))
    read = _measure_lengths(run)[0] if run.training.dropout_embeddings else 0.0
    return batches, numbers, numbers * read


def _measure_lengths(run: Run) -> tuple[float, float]:
    """Return the mean number of tokens of a training problem, and of its response."""
    task = tasks.build_task(run.task, f"runs.{run.name}.task")
    form = formats.build_format(run.format, task, f"runs.{run.name}.format")
    if run.data_set is not None and run.data_set.lengths:
        lengths = torch.tensor(run.data_set.lengths)
        cells = torch.stack([lengths, lengths], dim=1)
        problems = task.draw_for_cells(cells, stream(0, "cost"))
    else:  # an even sample of the cells
        problems = draw_held_out(run, task, "cost", SAMPLE)
    batch = form.write(problems)
    length, start = batch.length.double(), batch.start.double()
    padding = run.training.random_padding * start
    return float((length + padding).mean()), float((length - start).mean())


def _count_orthogonal(shape: tuple[int, int]) -> float:
    """Return the operations of five Newton-Schulz steps of a matrix."""
    short, long = sorted(shape)
    return 5 * 2 * (2 * short * short * long + short**3)
