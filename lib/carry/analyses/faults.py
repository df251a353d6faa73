"""In how many contexts models are wrong that are not right everywhere, and what shows it.

Models on their way, as training kept them; models whose weights have been disturbed; and models
whose marks or windows do not suffice. What a score on random problems says of them stands beside.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch

from carry import processes, progress
from carry.analyses import ANY
from carry.certificates.contexts import Undetermined
from carry.certificates.verification import Enumerated, certificate, found, said
from carry.config import run_settings
from carry.evaluation import trained_models
from carry.evaluation.intervals import add_interval
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream

TASK = ANY
ASKED = 1_000  # random problems, of the sizes that are trained
NOISE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # shares of the spread of each tensor's weights
FEW = 100_000  # contexts that can be asked again and again


def tables(row: str, profile: str) -> dict[str, pd.DataFrame]:
    """Certify every seed of a row, and what has become of it or was to become of it.

    Returns:
        Each with row, profile, seed, and the digits it was `trained` to.
        verdicts: the `verdict`, of how many `contexts` how many are `wrong`, and of a wrong one the
            `context`, what is `due` there and what is `said`, and the `problem` that shows it, with
            the `right` response and the one `written`.
        learned: after each `step` of which weights were kept, in how many of `contexts` the model
            is `wrong`, and how many of `n` random problems of trained sizes are `exact`, with
            interval.
        disturbed: so with `noise` added to the last weights, a share of their spread.
        The latter two are empty where contexts are many.

    Raises:
        SettingsError: if there are no weights, or no contexts.
    """
    of = run_settings.load_run(row, profile)
    first = trained_models.load_trained(profile, row)
    known = found(first)
    jobs = [(row, profile, seed, known) for seed in range(of.seeds)]
    with progress.progress_bar(len(jobs), row, unit="seed") as shown:
        each = processes.run_jobs(_of_seed, jobs, shown.update)
    return {name: pd.concat([part[name] for part in each], ignore_index=True) for name in each[0]}


def _of_seed(
    report: Any, row: str, profile: str, seed: int, known: Enumerated | Undetermined
) -> dict[str, pd.DataFrame]:
    system = trained_models.load_trained(profile, row, seed)
    own = certificate(system, known)
    verdict = {"verdict": own["verdict"], "contexts": own["contexts"], "wrong": own.get("wrong")}
    told = own.get("counterexample", {})
    verdict |= {name: told.get(name) for name in
                ("context", "due", "said", "problem", "right", "written")}  # fmt: skip
    learned, disturbed = [], []
    if isinstance(known, Enumerated) and known.complete and len(known.contexts) <= FEW:
        for step, weights in trained_models.load_snapshots(profile, row, seed).items():
            system.network.load_state_dict(weights)
            learned.append({"step": step, **_asked(system, known)})
        last = trained_models.load_trained(profile, row, seed).network.state_dict()
        for noise in NOISE:
            system.network.load_state_dict(_with_noise(last, noise, seed))
            disturbed.append({"noise": noise, **_asked(system, known)})
    report(1)
    names = {"row": row, "profile": profile, "seed": seed, "trained": system.run.training.digits}
    return {
        "verdicts": pd.DataFrame([{**names, **verdict}]),
        "learned": _counted(learned, names),
        "disturbed": _counted(disturbed, names),
    }


def _counted(rows: list[dict[str, Any]], names: dict[str, Any]) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    return add_interval(table.assign(**names)) if len(table) else table


def _asked(system: System, known: Enumerated) -> dict[str, int]:
    """Ask a model all contexts, and some random problems."""
    wrong = int((said(system, known.contexts) != known.contexts.target).sum())
    problems = system.task.draw(ASKED, system.run.training.digits, stream(0, "faults"))
    exact = int(teacher_forced_pass(system, system.format.write(problems)).exact.sum())
    return {"contexts": len(known.contexts), "wrong": wrong, "n": ASKED, "exact": exact}


def _with_noise(
    weights: dict[str, torch.Tensor], noise: float, seed: int
) -> dict[str, torch.Tensor]:
    """Return weights with normal noise, for each tensor a share of its spread."""
    generator = stream(seed, "noise", noise)
    return {
        name: of + noise * of.std(correction=0) * torch.randn(of.shape, generator=generator)
        for name, of in weights.items()
    }
