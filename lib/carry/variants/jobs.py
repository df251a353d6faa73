"""All variants of an ablation and all their seeds, trained and scored side by side.

What a seed has come to is kept where DVC does not delete it, under a name made of its settings and
of the code that it reaches. An ablation that was killed goes on with those that are lacking, and so
does one of which a variant has changed.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from carry import fingerprint, processes
from carry.certificates import contexts
from carry.certificates.verification import certificate, found
from carry.config import paths
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation.intervals import add_interval
from carry.evaluation.mistakes import KINDS
from carry.evaluation.scoring import score_system
from carry.models.architectures.transformer import parameters
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.progress import progress_bar
from carry.randomness import stream
from carry.training.loop import Trainer, device_of
from carry.variants import (
    Scale,
    Variant,
    VariantSet,
    blamed,
    check_variant_set,
    list_variants,
    load_variant_set,
)

LOOKS = 2  # places that models may look around for all contexts to be enumerated in seconds
DRAWN, LOOKED_AT = 400, 10  # tokens of a problem, and problems, whose attention is looked at
LEARNED = 0.999  # of held-out problems, from which on they count as learned


def run_variants(name: str, profile: str) -> tuple[Path, dict[str, pd.DataFrame]]:
    """Train and score every seed of every variant; keep the tables, and return them.

    Returns:
        The folder, and the tables by name. All have one row for each `seed`, which is named by
        `ablation`, `group` and `variant`, by the `row` that is changed and its `profile`, and by
        the digits it was `trained` to.
        lengths: one row more for each length, which is `times` the trained one: how many of `n`
            problems with operands of so many `digits` are wholly right, the end included
            (`exact`), and that as `accuracy` with its interval (`low`, `high`); how many have each
            fault (see `carry.evaluation.mistakes`); and which share of attention goes to where the
            next token is settled, a place and the next and the first token (`near`, in problems
            of not too many tokens). Where a variant cannot go, for its ids or its format end
            before, n is 0 and the accuracy missing; so it is where the model would compare too
            many tokens with each other (`Scale.dense`).
        training: how many `parameters` the model has, the `steps` it was trained, the first score
            from which on held-out exact match stays at 0.999 or above (`steps_to_999`, missing if
            there is none), that match (`exact`) and the `loss` at the end, and for information the
            time that training took of one core (`core_seconds`); where contexts are few enough to
            be enumerated, the `verdict` of a certificate, and in how many of `contexts` the model
            is `wrong` (see `carry.certificates`).

    Raises:
        SettingsError: for a variant that does not build, before anything is trained.
        TrainingDiverged: for a loss that is not a number.
    """
    check_variant_set(name, profile)
    asked, kept = (
        load_variant_set(name, profile),
        paths.data_path(profile, "checkpoints", paths.VARIANTS, name),
    )
    jobs = [
        (variant, seed, asked, kept / f"{_known_by(variant, asked)}-{seed}.json")
        for variant in list_variants(name, profile)
        for seed in range(asked.seeds)
    ]
    places = [place for *_, place in jobs]
    for path in {*kept.glob("*")} - {*places}:  # of settings or code that are gone
        path.unlink()
    waiting = [job for job in jobs if not job[-1].exists()]
    with progress_bar(sum(variant.run.training.steps for variant, *_ in jobs), name) as shown:
        progress = _Progress(shown)
        for variant, _, _, place in jobs:
            if place.exists():
                progress.report(place.name, variant.run.training.steps)
        if waiting:
            processes.run_jobs(_job, waiting, progress.report, processes.count_cores())
    found = [json.loads(place.read_text()) for place in places]
    tables = {
        "lengths": add_interval(_labelled(jobs, [of["lengths"] for of in found])),
        "training": _labelled(jobs, [[of["training"]] for of in found]),
    }
    folder = paths.reports_path(profile, "results", profile, paths.VARIANTS, name)
    for kind, table in tables.items():
        with paths.write_atomically(folder / f"{kind}.parquet") as draft:
            table.to_parquet(draft, index=False)
    return folder, tables


def _known_by(variant: Variant, asked: VariantSet) -> str:
    """Return a short hash of all that makes a seed's numbers what they are."""
    scored = asked.model_dump(include={"times", "problems", "tokens", "dense"})
    code = _code(tuple(variant.run.parts()))
    made_of = json.dumps([variant.ablation, variant.run.key(), scored, code], sort_keys=True)
    return hashlib.sha256(made_of.encode()).hexdigest()[:16]


@functools.cache  # half a second, asked for each seed
def _code(parts: tuple[str, ...]) -> str:
    return fingerprint.hash_code([__name__, *parts])


class _Progress:
    """One bar for all seeds of all variants: steps done of all."""

    def __init__(self, shown: Any) -> None:
        self.shown, self.steps = shown, {}

    def report(self, seed: str, step: int) -> None:
        self.steps[seed] = step
        self.shown.update(sum(self.steps.values()) - self.shown.n)


def _job(report: Any, variant: Variant, seed: int, asked: VariantSet, place: Path) -> None:
    """Train one seed of a variant and score it, and keep what it has come to."""
    with blamed(variant.where, f"runs.{variant.run.name}"):
        began = time.process_time()
        trainer = Trainer(variant.run, seed, None)
        trainer.train(lambda step, loss, exact: report(place.name, step))
        spent = time.process_time() - began
        scored = [_scored(trainer.system, variant.ablation, times, asked) for times in asked.times]
    last = trainer.curve[-1]
    training = {
        "parameters": parameters(trainer.system.network),
        "steps": trainer.step,
        "steps_to_999": _learned_at(trainer.curve),
        "exact": last["exact"],
        "loss": last["loss"],
        "core_seconds": spent,
        **_certified(trainer.system),
    }
    with paths.write_atomically(place) as draft:
        draft.write_text(json.dumps({"lengths": scored, "training": training}))


def _certified(system: System) -> dict[str, Any]:
    """Return in how many of its contexts a model is wrong, if they can be enumerated quickly.

    Where two contexts look alike, that is "impossible", whatever the model.
    """
    nothing = {"verdict": None, "contexts": math.nan, "wrong": math.nan}
    try:
        contexts.check(system)
    except SettingsError:
        return nothing
    # Of two layers there are half a million, and a bound for each takes minutes.
    many = any(behind + ahead > LOOKS for behind, ahead in contexts.reach(system))
    if many or system.network.given.layers > 1:
        return nothing
    own = certificate(system, found(system))
    return nothing | {name: own[name] for name in nothing if name in own}


def _learned_at(curve: list[dict[str, Any]]) -> float:
    """Return the first scored step from which on nearly all is right; not a number if none is.

    >>> _learned_at([{"step": step, "exact": exact} for step, exact in
    ...              [(10, 0.5), (20, 1.0), (30, 0.9), (40, 1.0), (50, 1.0)]])
    40.0
    """
    found = math.nan
    for scored in reversed(curve):
        if scored["exact"] < LEARNED:
            break
        found = float(scored["step"])
    return found


def _scored(system: System, name: str, times: int, asked: Scale) -> dict[str, int]:
    """Count how many problems of one length are wholly right.

    They are drawn for the ablation and the length, so that all variants have the same.
    """
    digits = times * system.run.training.digits
    n = _count(system, digits, asked)
    counts, near = dict.fromkeys(("exact", *KINDS), 0), math.nan
    if n:
        table, of = _problems(system, name, digits, asked.problems).head(n), system.run
        cells, _, _ = score_system(system, table, (1,), of.evaluation.recurrences, device_of(of))
        counts = {name: int(cells[name].sum()) for name in counts}
        if system.format.extent(digits).tokens <= DRAWN:
            near = _near(system, table.head(LOOKED_AT))
    return {"times": times, "digits": digits, "n": n, **counts, "near": near}


@torch.inference_mode()
def _near(system: System, table: pd.DataFrame) -> float:
    """Return the share of attention that goes to a place and the next, and to the first token.

    It is that of the tokens before each token of a response, over all heads and layers.
    """
    batch = system.format.write(problem_sets.to_problems(table, system.task))
    inside, network = Hooks(["*.pattern"]), system.network.cpu().eval()
    network(batch.tokens, system.ids(batch), inside=inside)
    at, _, real = batch.response()
    place = batch.levels[:, :, 0]
    ahead = place[:, None] - place.gather(1, at)[:, :, None]
    seen = (place >= 0)[:, None] & (ahead >= 0) & (ahead <= 1)
    seen[:, :, 0] = True
    rows = torch.arange(len(batch))[:, None]
    shares = [(of[rows, :, at] * seen[:, :, None]).sum(-1) for of in inside.each("pattern")]
    return float(torch.stack(shares).mean(dim=(0, 3))[real].mean())


def _problems(system: System, name: str, digits: int, count: int) -> pd.DataFrame:
    cells = torch.full((count, 2), digits)
    drawn = system.task.sample(cells, stream(0, "ablations", name, digits))
    return problem_sets.to_table("far", cells, drawn, system.task)


def _count(system: System, digits: int, asked: Scale) -> int:
    """Return how many problems of a length are scored; none where the model cannot go there."""
    try:
        extent = system.format.extent(digits)
    except SettingsError:  # the format cannot write them
        return 0
    for index, scheme in enumerate(system.schemes):
        table = system.largest_id(index)
        if table is not None and scheme.span(extent) > table:
            return 0
    if extent.tokens > asked.dense and not _is_local(system):
        return 0
    return max(1, min(asked.problems, asked.tokens // extent.tokens))


def _is_local(system: System) -> bool:
    """Return whether long problems are read window by window (see `carry.models.neighbours`)."""
    windows = any(pair.get("window") is not None for pair in system.run.positions)
    return windows and system.run.model.get("attention", "auto") in ("auto", "gathered")


def _labelled(jobs: list[tuple], found: list[list[dict[str, Any]]]) -> pd.DataFrame:
    """Return what was found as rows that name the ablation, the variant, the row and the seed."""
    rows = []
    for (variant, seed, *_), some in zip(jobs, found, strict=True):
        of = variant.run
        names = {"ablation": variant.ablation, "group": variant.group, "variant": variant.name}
        names |= {"row": of.name, "profile": of.profile, "seed": seed}
        rows += [{**names, "trained": of.training.digits, **one} for one in some]
    return pd.DataFrame(rows)
