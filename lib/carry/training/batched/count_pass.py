"""The teacher-forced pass of models that depend on counts only, without reading each token."""

from __future__ import annotations

import torch

from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.models.system import System
from carry.models.teacher_forcing import TeacherForcedPass
from carry.training.batched.network import BatchedNetwork, make_string_counts


@torch.inference_mode()
def counts_pass(system: System, problems: Problems, batch: Batch) -> TeacherForcedPass:
    """Return the result of `teacher_forced_pass`, computed from the counts of the tokens.

    Args:
        system: a system that `BatchedNetwork` computes.
        batch: the problems as the system's format writes them.

    >>> from carry.models.constructions.minimal_majority import build_minimal_majority
    >>> from carry.tasks import to_digits
    >>> system = build_minimal_majority(dtype=torch.float32)
    >>> problems = system.task.solve(*to_digits([["0212"], ["1101"]]))
    >>> counts_pass(system, problems, system.format.write(problems)).exact.tolist()
    [True, True]
    """
    counts = system.task.count_symbols(problems.operands, problems.lengths)
    network = BatchedNetwork([system]).to(counts.device)
    logits = [
        network.logits_from_counts(make_string_counts(counts, after_answer))[0]
        for after_answer in (False, True)
    ]
    _, target, real = batch.response()
    return TeacherForcedPass(torch.stack([x.argmax(-1) for x in logits], dim=1), target, real)
