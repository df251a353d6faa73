"""What the jobs of a profile take on a number of workers: `carry plan`.

The seconds of a job are those of its kept result, if it has one. Else they are estimated from its
settings (`carry.training.cost`), times how much slower or faster this profile's kept jobs were than
their own estimates.
"""

from __future__ import annotations

import functools
import heapq
import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from carry.config import paths, profiles, run_settings
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation.starts import count_passes
from carry.experiments.run import Run
from carry.jobs import kept
from carry.models.parameter_counts import count_network_parameters, count_parameters
from carry.models.system import System
from carry.training.cost import count_step, estimate_training_seconds, load_rates
from carry.training.memory import (
    count_fitting_problems,
    count_fixed_bytes,
    count_problem_bytes,
)
from carry.training.rows import list_training_jobs
from carry.variants import list_variants, load_variant_set

GPU_PROFILES = ("gpu", "paper")  # the others are for the cores of a machine
MAX_WORKERS = 100_000
GIGABYTE = 1e9
PROCESS_BYTES = 420e6  # of a process with torch and this library
STATE_BYTES = 16  # of a weight, its gradient and its two moments
GPU_SIZES = (24, 80)  # GB of the GPUs for which memory is stated: a large one for games, an H100
FILE_COPIES = 3  # of trained weights: the kept result, the row's folder, DVC's cache
# Bytes that a layer keeps for the backward pass on a CPU, for units of `StepCost`, as measured in
# fp32 (within 0.9 to 1.1). `carry.training.memory` counts those on a GPU.
KEPT_BYTES = {"activations": 72, "weights": 88, "biases": 0}


class PlannedJob(NamedTuple):
    """One job of a stage: what it takes, as estimated and, if its result is kept, as measured."""

    study: str
    row: str
    stage: str
    seconds: float  # estimated
    memory: float  # bytes
    storage: float  # bytes
    measured: dict[str, float]  # seconds, memory; empty without a kept result


def plan_campaign(
    profile: str, workers: int, device: str | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return what training and scoring the rows of a profile take, by study and in all.

    Args:
        workers: the number of cores, or of GPUs.
        device: `cpu` or `gpu`; by default what the profile is made for.

    Returns:
        The table, and what it is based on. The table has for each `study` the number of `rows` and
            `jobs`, the `hours` of one core or GPU, those of the `longest` job, those until all
            workers have ended (`wall`), the most `memory` of a job and the `storage`, in GB. Stages
            run one after another, as DVC runs them.

    Raises:
        SettingsError: for an unknown profile or device, and for a number of workers below 1.

    >>> table, notes = plan_campaign("notebook", 2)
    >>> table["study"].iloc[-1], notes["device"]
    ('all', 'cpu')
    """
    if not 1 <= workers <= MAX_WORKERS:
        raise SettingsError(f"workers: {workers} does not fit; expected 1 to {MAX_WORKERS}")
    profiles.load_profile(profile)
    device = device or ("gpu" if profile in GPU_PROFILES else "cpu")
    rates = load_rates(device)
    jobs = [*_plan_rows(profile, device), *_plan_variants(profile, device)]
    ratio = _compare_with_estimates(jobs)
    studies = dict.fromkeys(job.study for job in jobs)
    table = pd.DataFrame(
        _summarise(study, [job for job in jobs if job.study == study], workers, ratio)
        for study in studies
    )
    sums, maxima = ["rows", "jobs", "hours", "wall", "storage"], ["longest", "memory"]
    table.loc[len(table)] = {"study": "all", **table[sums].sum(), **table[maxima].max()}
    return table, {
        "device": device,
        "measured_jobs": sum(bool(job.measured) for job in jobs),
        "measured_rates": rates.measured,
    }


def print_plan(profile: str, workers: int, device: str | None = None) -> None:
    """Print the table of `plan_campaign`, and what it is based on."""
    table, notes = plan_campaign(profile, workers, device)
    unit = "GPU" if notes["device"] == "gpu" else "core"
    names = {"hours": f"{unit}-hours", "longest": "longest job", "wall": "wall time"}
    names |= {"memory": "memory", "storage": "storage"}
    print(f"profile {profile} on {workers} workers with a {unit} each; hours, GB")
    shown = table.astype({"rows": int, "jobs": int}).rename(columns=names)
    print(shown.to_string(index=False, float_format=lambda value: f"{value:.2f}"))
    count, jobs = notes["measured_jobs"], int(table["jobs"].iloc[-1])
    kind = "measured" if notes["measured_rates"] else "estimated: nobody has measured them"
    print(f"{count} of {jobs} jobs are measured; the others by rates that are {kind}")
    print("not included: analyses, certificates, figures, and the scores of variants")


def tabulate_memory(profile: str, sizes: Sequence[int] = GPU_SIZES) -> pd.DataFrame:
    """Return the memory of a GPU that a seed of each row of a profile takes, in GB.

    Columns: `row`; `weights`, in millions; `batch`; `whole`, with the batch in one part; and for
    each size of a GPU in GB the problems that are computed at once, 0 where one does not fit.

    >>> tabulate_memory("notebook").columns.tolist()
    ['row', 'weights', 'batch', 'whole', '24 GB', '80 GB']
    """
    lines = []
    for row in run_settings.list_rows(profile):
        run = run_settings.load_run(row, profile)
        if run.training.batched_seeds:  # on a CPU
            continue
        system, batch = System(run, device="meta"), run.training.batch
        fixed, problem = count_fixed_bytes(system), count_problem_bytes(system)
        line = {"row": row, "weights": count_network_parameters(system.network) / 1e6}
        line |= {"batch": batch, "whole": (fixed + batch * problem) / GIGABYTE}
        for size in sizes:
            try:
                line[f"{size} GB"] = count_fitting_problems(system, size * GIGABYTE)
            except SettingsError:
                line[f"{size} GB"] = 0
        lines.append(line)
    return pd.DataFrame(lines)


def print_memory(profile: str) -> None:
    """Print the table of `tabulate_memory`."""
    print(f"profile {profile}: millions of weights, GB of a GPU for a batch at once,")
    print("and problems at once on a GPU of a size (0: one problem does not fit, and is refused)")
    table = tabulate_memory(profile)
    print(table.to_string(index=False, float_format=lambda value: f"{value:.1f}"))


def pack_jobs(seconds: Iterable[float], workers: int) -> float:
    """Return when the last worker ends, if each takes the longest job that waits.

    >>> pack_jobs([1, 5, 2, 2], 2)
    5.0
    """
    ends = [0.0] * workers
    for duration in sorted(seconds, reverse=True):
        heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)


def _plan_rows(profile: str, device: str) -> Iterator[PlannedJob]:
    """Yield the jobs that train and score the rows of a profile."""
    for row in run_settings.list_rows(profile):
        run, study = run_settings.load_run(row, profile), profiles.find_study(row)
        yield from _plan_training(run, study, device)
        seconds = _estimate_scoring(run, device)
        for seed in range(run.seeds):
            name = f"{row}/seed_{seed}"
            measured = _read_measured(profile, "evaluate", name, device)
            yield PlannedJob(study, row, "evaluate", seconds, PROCESS_BYTES, 0.0, measured)


def _plan_variants(profile: str, device: str) -> Iterator[PlannedJob]:
    """Yield the jobs of all sets of variants, without the time of their scores."""
    for name in profiles.load_profile(profile)["variant_sets"]:
        seeds, study = load_variant_set(name, profile).seeds, f"variants: {name}"
        for variant in list_variants(name, profile):
            seconds = estimate_training_seconds(variant.run, device)
            memory = _estimate_memory(variant.run, count_parameters(variant.run), device)
            for seed in range(seeds):
                job = f"{name}/{variant.group}/{variant.name}/seed_{seed}"
                measured = _read_measured(profile, "variants", job, device)
                row = f"{variant.group}/{variant.name}"
                yield PlannedJob(study, row, "variants", seconds, memory, 0.0, measured)


def _plan_training(run: Run, study: str, device: str) -> Iterator[PlannedJob]:
    # The costs of jobs are seconds of a core.
    factor = estimate_training_seconds(run, device) / estimate_training_seconds(run, "cpu")
    jobs, parameters = list_training_jobs(run), count_parameters(run)
    memory = _estimate_memory(run, parameters, device)
    snapshots = run.training.steps // (run.training.snapshot_every or run.training.steps)
    storage = 4 * parameters * (1 + snapshots) * FILE_COPIES * run.seeds / len(jobs)
    for job in jobs:
        measured = _read_measured(run.profile, "train", job.name, device)
        seconds = job.cost * factor
        yield PlannedJob(study, run.name, "train", seconds, memory, storage, measured)


def _read_measured(profile: str, stage: str, name: str, device: str) -> dict[str, float]:
    """Return what a kept job has taken on a kind of device; nothing without one.

    Of a job that a checkpoint shortened the whole is extrapolated.
    """
    for marker in sorted((paths.jobs_folder(profile, stage) / name).glob(f"*/{kept.DONE}")):
        try:
            done = json.loads(marker.read_text(encoding="utf-8"))
            if (done["peak_gpu_memory"] > 0) != (device == "gpu"):
                continue
            clock = "seconds" if device == "gpu" else "core_seconds"
            memory = done["peak_gpu_memory" if device == "gpu" else "peak_memory"]
            return {"seconds": done[clock] / done["share"], "memory": memory}
        except (ValueError, KeyError, TypeError, ZeroDivisionError):  # a damaged result
            continue
    return {}


def _compare_with_estimates(jobs: Sequence[PlannedJob]) -> dict[str, float]:
    """Return for each stage how many times longer its kept jobs took than their estimates."""
    ratios: dict[str, list[float]] = {job.stage: [] for job in jobs}
    for job in jobs:
        if job.measured:
            ratios[job.stage].append(job.measured["seconds"] / job.seconds)
    return {stage: statistics.median(values or [1.0]) for stage, values in ratios.items()}


def _summarise(
    study: str, jobs: Sequence[PlannedJob], workers: int, ratio: dict[str, float]
) -> dict[str, Any]:
    seconds = [job.measured.get("seconds", job.seconds * ratio[job.stage]) for job in jobs]
    stages: dict[str, list[float]] = {}
    for job, duration in zip(jobs, seconds, strict=True):
        stages.setdefault(job.stage, []).append(duration)
    return {
        "study": study,
        "rows": len({job.row for job in jobs}),
        "jobs": len(jobs),
        "hours": sum(seconds) / 3600,
        "longest": max(seconds) / 3600,
        "wall": sum(pack_jobs(times, workers) for times in stages.values()) / 3600,
        "memory": max(job.measured.get("memory", job.memory) for job in jobs) / GIGABYTE,
        "storage": sum(job.storage for job in jobs) / GIGABYTE,
    }


def _estimate_memory(run: Run, parameters: int, device: str) -> float:
    """Return the bytes that training one seed needs on its device."""
    if run.training.batched_seeds:
        return PROCESS_BYTES
    if device == "gpu":
        system = System(run, device="meta")
        problems = run.training.micro_batch or run.training.batch
        try:
            problems = min(problems, count_fitting_problems(system, GPU_SIZES[-1] * GIGABYTE))
        except SettingsError:  # training would refuse it
            problems = 1
        return count_fixed_bytes(system) + problems * count_problem_bytes(system)
    step = count_step(run)
    kept_bytes = sum(size * getattr(step, unit) for unit, size in KEPT_BYTES.items())
    return PROCESS_BYTES + STATE_BYTES * parameters + kept_bytes


def _estimate_scoring(run: Run, device: str) -> float:
    """Return the seconds to score one seed.

    A pass over a problem costs a third of a training step for it, times its length over a trained
    one's.
    """
    training = run.training
    example = estimate_training_seconds(run, device) / (training.steps * training.batch)
    sizes, counts = _count_sizes(problem_sets.get_problem_set_name(run), run.profile)
    within = sizes <= run.evaluation.largest_size()
    lengths = np.maximum(sizes[within] / training.digits, 1)
    return float(example / 3 * count_passes(run) * (lengths * counts[within]).sum())


@functools.cache  # many rows share a set
def _count_sizes(name: str, profile: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of the problems of a set (the larger of i and j), and their numbers."""
    settings = problem_sets.load_problem_set(name, profile)
    cells = torch.cartesian_prod(*[torch.arange(1, settings.grid + 1)] * 2)
    pairs = [(size, settings.each) for size in cells.amax(1).tolist()] if settings.grid else []
    equal = range(1, (settings.longest or settings.grid) + 1) if settings.equal else []
    pairs += [(size, settings.equal) for size in equal]
    pairs += [(max(cell.cell()), cell.each) for cell in settings.far]
    pairs += [(part.most, part.count) for part in settings.ranges.values()]
    pairs += [(size, settings.test) for size in [*settings.lengths, *settings.beyond]]
    pairs += [(settings.digits, settings.draw)] if settings.draw else []
    sizes, counts = np.array(pairs or [(1, 0)], dtype=float).T
    return sizes, counts
