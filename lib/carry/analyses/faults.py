"""Faulty models: the number of contexts where they are wrong, next to a score on random problems.

Three kinds of models are analysed: the last weights, the snapshots of training, and the last
weights with noise. For a model whose ids or windows determine no answer, the verdict says so.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch

from carry.analyses import ANY, Report, analyse_seeds, ignore
from carry.certificates.contexts import ConflictingContexts
from carry.certificates.verification import (
    EnumeratedContexts,
    certify_model,
    find_contexts_or_conflict,
    predict_tokens,
)
from carry.evaluation import trained_models
from carry.evaluation.intervals import add_interval
from carry.evaluation.scoring import list_labels
from carry.experiments.run import Run
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream

TASK = ANY
LABELS = ("row", "scale", "seed", "trained")
COUNTS = ("contexts", "wrong", "n", "exact")
COLUMNS = {
    "verdicts": (
        *LABELS, "verdict", "contexts", "wrong", "context", "target", "predicted", "problem",
        "right", "written",
    ),
    "learned": ("step", *COUNTS, *LABELS, "accuracy", "low", "high"),
    "disturbed": ("noise", *COUNTS, *LABELS, "accuracy", "low", "high"),
}  # fmt: skip
PROBLEMS = 1_000  # random problems, of the sizes of training
NOISE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # as shares of the standard deviation of each tensor
MAX_CONTEXTS = 100_000  # of models that are scored after every snapshot


def tables(run: Run, report: Report = ignore) -> dict[str, pd.DataFrame]:
    """Certify every seed of a row, and count the wrong contexts of its snapshots and with noise.

    Returns:
        verdicts: the `verdict`, the number of `contexts` and of `wrong` ones; of a wrong one the
            `context`, its `target` and the `predicted` token, and a `problem` with this context,
            with the `right` response and the `written` one.
        learned: for each `step` with a snapshot, the number of `contexts` and of `wrong` ones, and
            how many of `n` random problems of trained sizes are `exact`, with an interval.
        disturbed: the same with `noise` added to the last weights.
        The last two are empty if there are more than `MAX_CONTEXTS`.

    Raises:
        SettingsError: if the row has no weights, or its contexts are not bounded.
    """
    contexts = find_contexts_or_conflict(trained_models.load_seed(run))
    return analyse_seeds(report, _analyse_seed, run, contexts)


def _analyse_seed(
    system: System, contexts: EnumeratedContexts | ConflictingContexts
) -> dict[str, pd.DataFrame]:
    result = certify_model(system, contexts)
    example = result.get("counterexample", {})
    verdict = {"verdict": result["verdict"], "contexts": result["contexts"]}
    verdict |= {"wrong": result.get("wrong", 0), "context": example.get("context")}
    verdict |= {name: example.get(name) for name in ("target", "predicted")}
    verdict |= {name: example.get(name) for name in ("problem", "right", "written")}
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
    labels = list_labels(system)
    return {
        "verdicts": pd.DataFrame([{**labels, **verdict}]),
        "learned": _tabulate("learned", learned, labels),
        "disturbed": _tabulate("disturbed", disturbed, labels),
    }


def _tabulate(name: str, rows: list[dict[str, Any]], labels: dict[str, Any]) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    return add_interval(table.assign(**labels)) if rows else table.reindex(columns=COLUMNS[name])


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
    generator = stream(seed, "noise", noise)
    return {
        name: tensor
        + noise * tensor.std(correction=0) * torch.randn(tensor.shape, generator=generator)
        for name, tensor in weights.items()
    }
