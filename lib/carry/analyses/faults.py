"""Faulty models: the number of contexts where they are wrong, next to a score on random problems.

Three kinds of models are analysed: the last weights, the snapshots of training, and the last
weights with noise. For a model whose ids or windows determine no answer, the verdict says so.
"""

from __future__ import annotations

import pandas as pd
import torch

from carry.analyses import INTERVAL, LABELS
from carry.certificates.verification import (
    EnumeratedContexts,
    certify_model,
    find_contexts_or_conflict,
    predict_tokens,
)
from carry.evaluation import trained_models
from carry.evaluation.intervals import add_interval
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream

EXAMPLE = ("context", "target", "predicted")
COUNTS = ("contexts", "wrong", "n", "exact", *LABELS, "trained", *INTERVAL)
COLUMNS = {
    "verdicts": (*LABELS, "trained", "verdict", "contexts", "wrong", *EXAMPLE),
    "learned": ("step", *COUNTS),
    "disturbed": ("noise", *COUNTS),
}
PROBLEMS = 1_000  # random problems, of the sizes of training
NOISE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # as shares of the standard deviation of each tensor
MAX_CONTEXTS = 100_000  # of models that are scored after every snapshot


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Certify a model, and count the wrong contexts of its snapshots and with noise.

    Returns:
        verdicts: the `verdict`, the number of `contexts` and of `wrong` ones; of a wrong one the
            `context`, its `target` and the `predicted` token.
        learned: for each `step` with a snapshot, the number of `contexts` and of `wrong` ones, and
            how many of `n` random problems of trained sizes are `exact`, with an interval.
        disturbed: the same with `noise` added to the last weights.
        The last two are left out if there are more than `MAX_CONTEXTS`.
    """
    contexts = find_contexts_or_conflict(system)
    result = certify_model(system, contexts)
    example = result.get("counterexample", {})
    verdict = {"verdict": result["verdict"], "contexts": result["contexts"]}
    verdict |= {"wrong": result.get("wrong", 0)}
    verdict |= {name: example.get(name) for name in EXAMPLE}
    learned, disturbed = [], []
    if (
        isinstance(contexts, EnumeratedContexts)
        and contexts.complete
        and len(contexts.contexts) <= MAX_CONTEXTS
    ):
        last = {name: tensor.clone() for name, tensor in system.network.state_dict().items()}
        for step, weights in trained_models.load_snapshots(system.run, system.seed).items():
            system.network.load_state_dict(weights)
            learned.append({"step": step, **_score(system, contexts)})
        for noise in NOISE:
            system.network.load_state_dict(_add_noise(last, noise, system.seed))
            disturbed.append({"noise": noise, **_score(system, contexts)})
    tables = {"verdicts": pd.DataFrame([verdict])}
    for name, rows in {"learned": learned, "disturbed": disturbed}.items():
        if rows:
            tables[name] = add_interval(pd.DataFrame(rows))
    return tables


def _score(system: System, contexts: EnumeratedContexts) -> dict[str, int]:
    """Count the wrong contexts of a model, and its exact responses to random problems."""
    wrong = int((predict_tokens(system, contexts.contexts) != contexts.contexts.target).sum())
    problems = system.task.draw(PROBLEMS, system.run.training.digits, stream(0, "faults"))
    exact = int(teacher_forced_pass(system, system.format.write(problems)).exact.sum())
    return {"contexts": len(contexts.contexts), "wrong": wrong, "n": PROBLEMS, "exact": exact}


def _add_noise(
    weights: dict[str, torch.Tensor], noise: float, seed: int
) -> dict[str, torch.Tensor]:
    """Return weights with normal noise, scaled by the standard deviation of each tensor."""
    generator, noisy = stream(seed, "noise", noise), {}
    for name, tensor in weights.items():
        scale = noise * tensor.std(correction=0)
        noisy[name] = tensor + scale * torch.randn(tensor.shape, generator=generator)
    return noisy
