"""What one pass shows of models that see counts alone, without reading a string token by token."""

from __future__ import annotations

import torch

from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.models.system import System
from carry.models.teacher_forcing import TeacherForcedPass
from carry.training.batched.network import BatchedNetwork, count_strings


@torch.inference_mode()
def counted_pass(system: System, problems: Problems, batch: Batch) -> TeacherForcedPass:
    """Return what `single_pass` does, from how often each token is there.

    Args:
        system: one of those that `carry.training.batched.network` can compute.
        batch: the same problems as they are written.

    >>> from carry.models.constructions.minimal_majority import minimal_majority
    >>> from carry.tasks import to_digits
    >>> system = minimal_majority(dtype=torch.float32)
    >>> problems = system.task.solve(*to_digits([["0212"], ["1101"]]))
    >>> counted_pass(system, problems, system.format.write(problems)).exact.tolist()
    [True, True]
    """
    counts, network = (
        system.task.counts(problems.operands, problems.lengths),
        BatchedNetwork([system]),
    )
    both = [
        network.by_counts(count_strings(counts, second))[0].argmax(-1) for second in (False, True)
    ]
    _, target, real = batch.response()
    return TeacherForcedPass(torch.stack(both, dim=1), target, real)
