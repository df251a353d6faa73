"""One seed of a variant as a job: it is trained, scored and, if that is quick, certified.

`carry.variants.jobs` makes the jobs of a set. This module does not depend on it, so that a change
of how jobs are run repeats no training.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from carry.certificates import contexts
from carry.certificates.verification import certify_model, find_contexts_or_conflict
from carry.config import paths
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation.decoding import compute_decoding_ids, group_by_shape
from carry.evaluation.mistakes import KINDS
from carry.evaluation.scoring import score_system
from carry.interpretability.attention import measure_response_attention
from carry.models.parameter_counts import count_network_parameters
from carry.models.system import Start, System
from carry.randomness import stream
from carry.training.loop import Trainer
from carry.training.precision import use_precision
from carry.training.seeds import describe_scores
from carry.variants import Scale, Variant, VariantSet, errors_at

FILE = "result.json"
MAX_WINDOW = 2  # ids in a window, for contexts that can be enumerated in seconds
MAX_ATTENTION_TOKENS, ATTENTION_PROBLEMS = 400, 10  # for `local_attention`
LEARNED = 0.999  # held-out exact match of a model that has learned its task


def train_variant(
    report: Callable[..., None], folder: Path, variant: Variant, seed: int, variant_set: VariantSet
) -> None:
    """Train one seed of a variant, score it, and write the result.

    Raises:
        SettingsError: for a variant that does not build.
        TrainingDiverged: for a loss that is not a number.
    """
    with errors_at(variant.place, f"runs.{variant.run.name}"):
        steps, began = variant.run.training.steps, time.process_time()
        trainer = Trainer(variant.run, seed, None)  # it takes seconds, and they are measured
        trainer.train(lambda step, *scores: report(step / steps, describe_scores(*scores)))
        seconds = time.process_time() - began
        lengths = [
            _score_length(trainer.system, variant.variant_set, times, variant_set)
            for times in variant_set.times
        ]
        band = [
            _score_band(trainer.system, variant.variant_set, digits, variant_set)
            for digits in (variant.run.validation_band() if variant_set.band else ())
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
    with paths.write_atomically(folder / FILE) as draft:
        result = {"lengths": lengths, "training": training, "band": band}
        draft.write_text(json.dumps(result), encoding="utf-8")


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
        draws = stream(0, "ablations", name, digits)
        table = _draw_problems(system, digits, scale.problems, draws).head(n)
        cells, _, _ = score_system(system, table, (scale.start,), run.evaluation.recurrences)
        counts = {kind: int(cells[kind].sum()) for kind in counts}
        if system.format.extent(digits).tokens <= MAX_ATTENTION_TOKENS:
            local = _measure_local_attention(system, table.head(ATTENTION_PROBLEMS))
    return {"times": times, "digits": digits, "n": n, **counts, "local_attention": local}


def _measure_local_attention(system: System, table: pd.DataFrame) -> float:
    """Return the share of attention on a place, on the next place, and on the first token.

    It is a mean over all queries of the responses, heads and layers.
    """
    problems = problem_sets.to_problems(table, system.task).to(system.device)
    batch = system.format.write(problems)
    at, _, _ = batch.response()
    place = batch.levels[:, :, 0]
    offset = place[:, None] - place.gather(1, at)[:, :, None]
    is_local = (place >= 0)[:, None] & (offset >= 0) & (offset <= 1)
    is_local[:, :, 0] = True
    shares = measure_response_attention(system, batch, is_local)
    return float(shares.mean(dim=(0, 2)).mean())


def _score_band(system: System, name: str, digits: int, scale: Scale) -> dict[str, Any]:
    """Score a model on one size of the validation band; see `carry.variants.jobs.run_variants`.

    The problems come from streams of their own, so that no reported score has them.
    """
    n, exact, loss = 0, 0, math.nan
    if _count_problems(system, digits, scale):
        recurrences, n = system.run.evaluation.recurrences, scale.band
        table = _draw_problems(system, digits, n, stream(0, "validation band", name, digits))
        cells, _, _ = score_system(system, table, (scale.start,), recurrences)
        exact = int(cells["exact"].sum())
        loss = measure_loss(system, table, scale.start)
    return {"start": str(scale.start), "digits": digits, "n": n, "exact": exact, "loss": loss}


@torch.inference_mode()
def measure_loss(system: System, table: pd.DataFrame, start: Start) -> float:
    """Return the mean over problems of minus the logarithm of the probability of the response.

    It tells models apart whose responses are all exact. Ids are those of decoding, and "all"
    averages the probabilities of each token over starts.
    """
    problems = problem_sets.to_problems(table, system.task).to(system.device)
    recurrences, losses = system.run.evaluation.recurrences, []
    with use_precision("fp32", system.device):
        for rows in group_by_shape(problems, system.format):
            batch = system.format.write(problems[rows])
            ids_by_start = compute_decoding_ids(system, problems[rows], batch, start)
            batch = batch.trim()
            at, target, real = batch.response()
            logits = (system.logits(batch, ids, at, recurrences) for ids in ids_by_start)
            tokens = [x.log_softmax(-1).gather(-1, target[..., None])[..., 0] for x in logits]
            mean = torch.stack(tokens).logsumexp(0) - math.log(len(tokens))
            losses.append(-torch.where(real, mean, 0.0).sum(1))
    return float(torch.cat(losses).mean())


def _draw_problems(system: System, digits: int, count: int, draws: torch.Generator) -> pd.DataFrame:
    cells = torch.full((count, 2), digits)
    problems = system.task.draw_for_cells(cells, draws)
    return problem_sets.to_table("far", cells, problems, system.task)


def _count_problems(system: System, digits: int, scale: Scale) -> int:
    """Return the number of scored problems of a length; 0 beyond the limits of the model."""
    try:
        extent = system.format.extent(digits)
    except SettingsError:  # the format cannot write them
        return 0
    for index, scheme in enumerate(system.schemes):
        largest = system.largest_id(index)
        last = system.last_id(index, scheme.required_ids(extent), scale.start)
        if largest is not None and last > largest:
            return 0
    if extent.tokens > scale.dense and not _has_windowed_attention(system):
        return 0
    return max(1, min(scale.problems, scale.tokens // extent.tokens))


def _has_windowed_attention(system: System) -> bool:
    """Return whether long problems are read window by window (see `carry.models.neighbours`)."""
    windows = any(pair.get("window") is not None for pair in system.run.positions)
    return windows and system.run.model.get("attention", "auto") in ("auto", "gathered")
