"""Train and score all variants of a set: all seeds of all variants are one pool of jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from carry.config import paths
from carry.data.tables import write_tables
from carry.evaluation.intervals import add_interval
from carry.evaluation.mistakes import KINDS
from carry.jobs import Job, run_jobs
from carry.training.cost import estimate_training_seconds
from carry.variants import (
    Variant,
    VariantSet,
    check_variant_set,
    list_variants,
    load_variant_set,
)
from carry.variants.choice import choose_variants
from carry.variants.seeds import FILE, train_variant

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
    "band": (*LABELS, "start", "digits", "n", "exact", "loss", "accuracy", "low", "high"),
}  # fmt: skip


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
        band: only of a set with a `band`, for each size in the validation band, how many of `n`
            responses are `exact` from the `start` of the set, with `accuracy` and its interval, and
            the mean `loss` of a response: minus the logarithm of its probability.
        choices: only of such a set, see `carry.variants.choice.choose_variants`.

    Raises:
        SettingsError: for a variant that does not build, before any training.
        TrainingDiverged: for a loss that is not a number.
    """
    check_variant_set(name, profile)
    variant_set = load_variant_set(name, profile)
    seeds = [
        (variant, seed)
        for variant in list_variants(name, profile)
        for seed in range(variant_set.seeds)
    ]
    jobs = [_make_job(variant, seed, variant_set) for variant, seed in seeds]
    places = run_jobs(jobs, paths.jobs_folder(profile, "variants"), name)
    results = [json.loads((place / FILE).read_text(encoding="utf-8")) for place in places]
    tables = {
        "lengths": add_interval(_tabulate(seeds, [result["lengths"] for result in results])),
        "training": _tabulate(seeds, [[result["training"]] for result in results]),
    }
    if variant_set.band:
        tables["band"] = add_interval(_tabulate(seeds, [result["band"] for result in results]))
        tables["choices"] = choose_variants(tables["band"], tables["lengths"])
    folder = paths.variants_folder(profile, name)
    write_tables(tables, folder)
    return folder, tables


def _make_job(variant: Variant, seed: int, variant_set: VariantSet) -> Job:
    run = variant.run
    scored = variant_set.model_dump(
        include={"times", "problems", "tokens", "dense", "band", "start"}
    )
    return Job(
        name=f"{variant.variant_set}/{variant.group}/{variant.name}/seed_{seed}",
        work=train_variant,
        arguments=(variant, seed, variant_set),
        inputs=json.dumps([run.key(), run.evaluation.model_dump(), seed, scored], sort_keys=True),
        modules=tuple(run.module_names()),
        cost=estimate_training_seconds(run),
    )


def _tabulate(
    seeds: Sequence[tuple[Variant, int]], results: Sequence[Sequence[dict[str, Any]]]
) -> pd.DataFrame:
    """Return results as a table with `LABELS`."""
    rows = []
    for (variant, seed), parts in zip(seeds, results, strict=True):
        run = variant.run
        names = (variant.variant_set, variant.group, variant.name, run.name, run.profile, seed)
        labels = dict(zip(LABELS, (*names, run.training.digits), strict=True))
        rows += [{**labels, **part} for part in parts]
    return pd.DataFrame(rows)
