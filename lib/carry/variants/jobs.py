"""Train and score all variants of a set, with all their seeds, as parallel jobs.

The result of each seed is kept in a file outside of DVC's outputs, named by a hash of its settings
and code. A run that was killed trains only the missing seeds, and a changed variant is trained
alone. A damaged file is ignored with a warning, and its seed is trained again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from carry import fingerprint, processes
from carry.certificates import contexts
from carry.certificates.verification import certify_model, find_contexts_or_conflict
from carry.config import paths
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation.intervals import add_interval
from carry.evaluation.mistakes import KINDS
from carry.evaluation.scoring import score_system
from carry.models.hooks import Hooks
from carry.models.parameter_counts import count_network_parameters
from carry.models.system import System
from carry.progress import progress_bar
from carry.randomness import stream
from carry.training.loop import Trainer
from carry.variants import (
    Scale,
    Variant,
    VariantSet,
    check_variant_set,
    errors_at,
    list_variants,
    load_variant_set,
)

LABELS = ("variant_set", "group", "variant", "row", "profile", "seed", "trained")
COLUMNS = {
    "lengths": (
        *LABELS, "times", "digits", "n", "exact", *KINDS, "local_attention", "accuracy", "low",
        "high",
    ),
    "training": (
        *LABELS, "parameters", "steps", "steps_to_999", "exact", "loss", "core_seconds", "verdict",
        "contexts", "wrong",
    ),
}  # fmt: skip
MAX_WINDOW = 2  # ids in a window, for contexts that can be enumerated in seconds
MAX_ATTENTION_TOKENS, ATTENTION_PROBLEMS = 400, 10  # for `local_attention`
LEARNED = 0.999  # held-out exact match of a model that has learned its task

Job = tuple[Variant, int, VariantSet, Path]  # seed, and file of the result


def run_variants(name: str, profile: str) -> tuple[Path, dict[str, pd.DataFrame]]:
    """Train and score every seed of every variant; write the tables, and return them.

    Returns:
        The folder, and the tables by name. Both name the `variant_set`, `group` and `variant`, the
        changed `row` and its `profile`, the `seed`, and the digits it was `trained` to.
        lengths: for each length (`digits`, which is `times` the trained one), how many of `n`
            responses are `exact`, with `accuracy` and its interval (`low`, `high`), how many have
            each fault (see `carry.evaluation.mistakes`), and the share of attention on the place of
            the next token, on the next place, and on the first token (`local_attention`; only for
            short problems). `n` is 0 for lengths beyond a variant's ids or format, and for problems
            longer than `Scale.dense` in models without a window.
        training: the number of `parameters`, the trained `steps`, the first step from which
            held-out exact match stays at 0.999 or above (`steps_to_999`; missing if none), the last
            `exact` match and `loss`, and the processor time of training (`core_seconds`). If
            contexts can be enumerated in seconds, also the `verdict` of a certificate, and the
            number of `contexts` and of `wrong` ones (see `carry.certificates`).

    Raises:
        SettingsError: for a variant that does not build, before any training.
        TrainingDiverged: for a loss that is not a number.
    """
    check_variant_set(name, profile)
    variant_set = load_variant_set(name, profile)
    folder = paths.data_path(profile, "checkpoints", paths.VARIANTS, name)
    jobs = [
        (variant, seed, variant_set, folder / f"{_hash_job(variant, variant_set)}-{seed}.json")
        for variant in list_variants(name, profile)
        for seed in range(variant_set.seeds)
    ]
    files = [file for *_, file in jobs]
    for file in {*folder.glob("*")} - {*files}:  # of earlier settings or code
        file.unlink()
    results = {file: load_result(file) for file in files}
    waiting = [job for job in jobs if results[job[-1]] is None]
    with progress_bar(sum(variant.run.training.steps for variant, *_ in jobs), name) as bar:
        progress = _Progress(bar)
        for variant, *_, file in jobs:
            if results[file] is not None:
                progress.report(file.name, variant.run.training.steps)
        if waiting:
            processes.run_jobs(_run_job, waiting, progress.report, processes.count_cores())
    results |= {file: json.loads(_read_checked(file)) for *_, file in waiting}
    tables = {
        "lengths": add_interval(_tabulate(jobs, [results[file]["lengths"] for file in files])),
        "training": _tabulate(jobs, [[results[file]["training"]] for file in files]),
    }
    target = paths.reports_path(profile, "results", profile, paths.VARIANTS, name)
    for kind, table in tables.items():
        with paths.write_atomically(target / f"{kind}.parquet") as draft:
            table.to_parquet(draft, index=False)
    return target, tables


def _hash_job(variant: Variant, variant_set: VariantSet) -> str:
    """Return a short hash of all settings and code that determine the result of a seed."""
    scored = variant_set.model_dump(include={"times", "problems", "tokens", "dense"})
    code = _hash_code(tuple(variant.run.module_names()))
    inputs = json.dumps([variant.variant_set, variant.run.key(), scored, code], sort_keys=True)
    return hashlib.sha256(inputs.encode()).hexdigest()[:16]


@functools.cache  # it takes half a second
def _hash_code(modules: tuple[str, ...]) -> str:
    return fingerprint.hash_code([__name__, *modules])


def save_result(file: Path, result: dict[str, Any]) -> None:
    """Write the result of a seed to a file that begins with a hash of its content."""
    text = json.dumps(result)
    digest = hashlib.sha256(text.encode()).hexdigest()
    with paths.write_atomically(file) as draft:
        draft.write_text(f"{digest}\n{text}", encoding="utf-8")


def load_result(file: Path) -> dict[str, Any] | None:
    """Return the result in a file of `save_result`; None without a file, and for a damaged one."""
    if not file.exists():
        return None
    try:
        return json.loads(_read_checked(file))
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        print(f"warning: {paths.display_path(file)}: {reason}; this seed is trained again",
              file=sys.stderr)  # fmt: skip
        return None


def _read_checked(file: Path) -> str:
    """Return the content of a file of `save_result`, after a check of its hash."""
    digest, _, text = file.read_bytes().partition(b"\n")
    if digest != hashlib.sha256(text).hexdigest().encode():
        raise ValueError("damaged; its hash does not match its content")
    return text.decode()


class _Progress:
    """One progress bar for all seeds of all variants, in training steps."""

    def __init__(self, bar: Any) -> None:
        self.bar, self.steps = bar, {}

    def report(self, seed: str, step: int) -> None:
        self.steps[seed] = step
        self.bar.update(sum(self.steps.values()) - self.bar.n)


def _run_job(report: Any, variant: Variant, seed: int, variant_set: VariantSet, file: Path) -> None:
    """Train and score one seed of a variant, and save its result."""
    with errors_at(variant.place, f"runs.{variant.run.name}"):
        began = time.process_time()
        trainer = Trainer(variant.run, seed, None)
        trainer.train(lambda step, loss, exact: report(file.name, step))
        seconds = time.process_time() - began
        lengths = [
            _score_length(trainer.system, variant.variant_set, times, variant_set)
            for times in variant_set.times
        ]
    last = trainer.curve[-1]
    training = {
        "parameters": count_network_parameters(trainer.system.network),
        "steps": trainer.step,
        "steps_to_999": _find_learned_step(trainer.curve),
        "exact": last["exact"],
        "loss": last["loss"],
        "core_seconds": seconds,
        **_certify(trainer.system),
    }
    save_result(file, {"lengths": lengths, "training": training})


def _certify(system: System) -> dict[str, Any]:
    """Return the verdict of a certificate, if contexts can be enumerated in seconds.

    If two problems with different targets have the same context, the verdict is "impossible".
    """
    result = {"verdict": None, "contexts": math.nan, "wrong": math.nan}
    try:
        contexts.require_bounded_contexts(system)
    except SettingsError:
        return result
    # Two layers have half a million contexts, and a bound for each takes minutes.
    wide = any(lower + upper > MAX_WINDOW for lower, upper in contexts.compute_id_reach(system))
    if wide or system.network.settings.layers > 1:
        return result
    certificate = certify_model(system, find_contexts_or_conflict(system))
    return result | {name: certificate[name] for name in result if name in certificate}


def _find_learned_step(curve: list[dict[str, Any]]) -> float:
    """Return the first scored step from which exact match stays at `LEARNED`; NaN without one.

    >>> _find_learned_step([{"step": step, "exact": exact} for step, exact in
    ...                     [(10, 0.5), (20, 1.0), (30, 0.9), (40, 1.0), (50, 1.0)]])
    40.0
    """
    first = math.nan
    for score in reversed(curve):
        if score["exact"] < LEARNED:
            break
        first = float(score["step"])
    return first


def _score_length(system: System, name: str, times: int, scale: Scale) -> dict[str, Any]:
    """Score a model on problems of one length; all variants of a set get the same problems."""
    digits = times * system.run.training.digits
    n = _count_problems(system, digits, scale)
    counts, local = dict.fromkeys(("exact", *KINDS), 0), math.nan
    if n:
        run = system.run
        table = _draw_problems(system, name, digits, scale.problems).head(n)
        cells, _, _ = score_system(system, table, (1,), run.evaluation.recurrences)
        counts = {kind: int(cells[kind].sum()) for kind in counts}
        if system.format.extent(digits).tokens <= MAX_ATTENTION_TOKENS:
            local = _measure_local_attention(system, table.head(ATTENTION_PROBLEMS))
    return {"times": times, "digits": digits, "n": n, **counts, "local_attention": local}


@torch.inference_mode()
def _measure_local_attention(system: System, table: pd.DataFrame) -> float:
    """Return the share of attention on a place, on the next place, and on the first token.

    It is a mean over all queries of the responses, heads and layers.
    """
    problems = problem_sets.to_problems(table, system.task).to(system.device)
    batch = system.format.write(problems)
    hooks, network = Hooks(["*.pattern"]), system.network.eval()
    network(batch.tokens, system.ids(batch), hooks=hooks)
    at, _, real = batch.response()
    place = batch.levels[:, :, 0]
    offset = place[:, None] - place.gather(1, at)[:, :, None]
    is_local = (place >= 0)[:, None] & (offset >= 0) & (offset <= 1)
    is_local[:, :, 0] = True
    rows = torch.arange(len(batch))[:, None]
    shares = [
        (pattern[rows, :, at] * is_local[:, :, None]).sum(-1)
        for pattern in hooks.all_layers("pattern")
    ]
    return float(torch.stack(shares).mean(dim=(0, 3))[real].mean())


def _draw_problems(system: System, name: str, digits: int, count: int) -> pd.DataFrame:
    cells = torch.full((count, 2), digits)
    problems = system.task.draw_for_cells(cells, stream(0, "ablations", name, digits))
    return problem_sets.to_table("far", cells, problems, system.task)


def _count_problems(system: System, digits: int, scale: Scale) -> int:
    """Return the number of scored problems of a length; 0 beyond the limits of the model."""
    try:
        extent = system.format.extent(digits)
    except SettingsError:  # the format cannot write them
        return 0
    for index, scheme in enumerate(system.schemes):
        largest = system.largest_id(index)
        if largest is not None and scheme.required_ids(extent) > largest:
            return 0
    if extent.tokens > scale.dense and not _has_windowed_attention(system):
        return 0
    return max(1, min(scale.problems, scale.tokens // extent.tokens))


def _has_windowed_attention(system: System) -> bool:
    """Return whether long problems are read window by window (see `carry.models.neighbours`)."""
    windows = any(pair.get("window") is not None for pair in system.run.positions)
    return windows and system.run.model.get("attention", "auto") in ("auto", "gathered")


def _tabulate(jobs: list[Job], results: list[list[dict[str, Any]]]) -> pd.DataFrame:
    """Return results as a table with `LABELS`."""
    rows = []
    for (variant, seed, *_), parts in zip(jobs, results, strict=True):
        run = variant.run
        names = (variant.variant_set, variant.group, variant.name, run.name, run.profile, seed)
        labels = dict(zip(LABELS, (*names, run.training.digits), strict=True))
        rows += [{**labels, **part} for part in parts]
    return pd.DataFrame(rows)
