"""Memory of a training: how many problems are computed at once, and what is kept between steps."""

from __future__ import annotations

import ctypes
import math
import os
import sys

import torch

from carry.config.settings import SettingsError
from carry.models.parameter_counts import count_network_parameters
from carry.models.system import System
from carry.training.inputs import TOKENS

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of glibc's mallopt

SHARE = "CARRY_GPU_SHARE"  # of a GPU's memory that a process may use (`carry.jobs.pool`)
CONTEXT_BYTES = 1.0e9  # of a process on a GPU: CUDA, its libraries, their workspaces
STATE_BYTES = 16  # of a weight, its gradient and its two moments
SPARE = 1.25  # what is used for what is kept: buffers of the backward pass, holes


def choose_micro_batch(system: System, device: torch.device) -> int | None:
    """Return how many problems of a batch are computed at once; None: all.

    It is the setting `micro_batch`, or on a GPU as many as fit its memory, in equal parts.

    Raises:
        SettingsError: for a GPU on which one problem does not fit.
    """
    training = system.run.training
    if training.micro_batch is not None:
        return training.micro_batch
    if device.type == "cpu":
        return None
    memory = torch.cuda.get_device_properties(device).total_memory
    fitting = count_fitting_problems(system, memory * float(os.environ.get(SHARE, "1")))
    return math.ceil(training.batch / math.ceil(training.batch / fitting))


def count_fitting_problems(system: System, memory: float) -> int:
    """Return how many problems of a batch a GPU with this memory (bytes) computes at once.

    Raises:
        SettingsError: for a memory in which one problem does not fit.

    >>> from carry.experiments.resolve import make_run
    >>> system = System(make_run({"task": {"name": "addition"}, "training": {"batch": 10**6}}))
    >>> [round(count_fitting_problems(system, size * 1e9) / 1e3) for size in (24, 80)]
    [58, 198]
    """
    batch, problem = system.run.training.batch, count_problem_bytes(system)
    fitting = int((memory - count_fixed_bytes(system)) / problem)
    if fitting < 1:
        needed = (count_fixed_bytes(system) + problem) / 1e9
        raise SettingsError(
            f"runs.{system.run.name}: one problem at a time needs {needed:.1f} GB of a GPU, and "
            f"{memory / 1e9:.1f} GB are there; expected a larger GPU, fewer processes on it "
            "(taskset), or a smaller model"
        )
    return min(fitting, batch)


def count_fixed_bytes(system: System) -> float:
    """Return the bytes of a GPU that a training takes whatever its batch."""
    return CONTEXT_BYTES + STATE_BYTES * count_network_parameters(system.network)


def count_problem_bytes(system: System) -> float:
    """Return the bytes of a GPU for one problem of the longest, by the tensors that layers keep.

    Products keep their inputs in the precision of training, norms theirs in fp32, and fused
    attention keeps no weights. Dropout of attention weights keeps them.
    """
    network, training = system.network, system.run.training
    settings, shape = network.settings, network.shape(network.settings)
    tokens = -(-system.training_extent().tokens // TOKENS) * TOKENS
    number = 2 if training.precision == "bf16" else 4  # bytes
    inner, hidden = shape.heads * shape.head_width, _count_hidden_numbers(settings)
    norms = 4 if getattr(settings, "norm_place", "pre") == "pre_and_post" else 2
    copies = 3 if number == 2 else 1  # of the residual stream, as inputs of products
    layer = (4 * norms + copies * number) * shape.width + number * (6 * inner + hidden)
    layer += 9 * shape.width * (training.dropout > 0)
    weights = 0.0  # of attention
    if training.dropout_inside > 0:
        weights += 4 + 1 + 2 * number
    weights += 8 * sum(_adds_scores(encoding) for encoding in network.encodings)
    depth = shape.layers * network.recurrences
    passes = 1 if training.progressive == 0 or network.recurrences == 1 else 2
    kept = tokens * depth * (layer + weights * shape.heads * tokens)
    # Recorded steps keep their memory, beside that of steps whose shape is not recorded.
    memories = 2 if training.graphs else 1
    return SPARE * passes * memories * kept


def _count_hidden_numbers(settings: object) -> int:
    """Return how many numbers of a feed-forward network are kept for a token."""
    if not getattr(settings, "feed_forward", True):
        return 0
    hidden = getattr(settings, "hidden", None) or 4 * settings.width
    kept = {"relu": 1, "gelu": 2, "gated_gelu": 4, "gated_gelu_tanh": 4}
    return kept[getattr(settings, "activation", "gelu")] * hidden


def _adds_scores(encoding: object) -> bool:
    """Return whether an encoding adds biases or scores to attention, besides windows."""
    from carry.models.encodings import Encoding

    kind = type(encoding)
    return any(getattr(kind, name) is not getattr(Encoding, name) for name in ("bias", "score"))


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next step; where there is no glibc, do nothing.

    By default it returns large blocks to the system after each step, which fills new ones with
    zeros in the next: 5% of the time of a step in fp32, up to 20% in bf16.

    >>> keep_freed_memory()
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(TRIM_THRESHOLD, 2**31 - 1)
            mallopt(MMAP_THRESHOLD, 2**30)  # bytes; larger blocks are still returned
