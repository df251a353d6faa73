"""What one pass shows of models that see counts alone, without reading a string token by token."""

from __future__ import annotations

import torch

from carry.batch import Batch, Problems
from carry.models.single_pass import Pass
from carry.models.system import System
from carry.models.together import Together, counted


@torch.inference_mode()
def counted_pass(system: System, problems: Problems, batch: Batch) -> Pass:
    """Return what `single_pass` does, from how often each token is there.

    Args:
        system: one of those that `carry.models.together` can compute.
        batch: the same problems as they are written.

    >>> from carry.models.constructions.minimal_majority import minimal_majority
    >>> from carry.tasks import to_digits
    >>> system = minimal_majority(dtype=torch.float32)
    >>> problems = system.task.solve(*to_digits([["0212"], ["1101"]]))
    >>> counted_pass(system, problems, system.format.write(problems)).exact.tolist()
    [True, True]
    """
    counts, network = system.task.counts(problems.operands, problems.lengths), Together([system])
    both = [network.by_counts(counted(counts, second))[0].argmax(-1) for second in (False, True)]
    _, target, real = batch.response()
    return Pass(torch.stack(both, dim=1), target, real)
