"""Seeds in slices of time: `make gpu MINUTES=8`, or `carry slice ROW --profile long --minutes 90`.

Seeds are trained and scored one after another, rows of the profile's `order` first: on a GPU all
seeds of a row at once, on CPUs as many seeds as there are cores, the first seed of all rows before
any second one. A slice ends at its time with a checkpoint of what runs, and the next one goes on
there. The tables of a finished seed are added to those in git at once:

    reports/results/PROFILE/STUDY/*.parquet   as the stage `evaluate` writes them
    reports/results/PROFILE/runs.csv          for each seed its settings, hardware, versions, commit
    reports/models/PROFILE/STUDY/ROW/         its weights, of rows that the profile has in `models`

A seed in runs.csv is not run again while its settings are the same, wherever it was trained: a
machine that is lent for minutes starts without checkpoints and with the results in git.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from carry import fingerprint
from carry.config import paths, profiles, run_settings
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.data.tables import write_tables
from carry.evaluation.rows import evaluate_runs, list_evaluation_jobs
from carry.experiments.run import Run
from carry.jobs import Job, kept, run_jobs
from carry.jobs.local import count_workers
from carry.pipeline.files import copy_files
from carry.training.cost import count_step
from carry.training.loop import OutOfTime
from carry.training.rows import list_training_jobs, read_curves
from carry.training.seeds import DEADLINE

PROFILE = "gpu"
LEAST_SECONDS = 60.0  # before the end of a slice, for a row to begin or to be scored
MOST_MINUTES = 7 * 24 * 60
PRODUCT_SIZE, PRODUCT_ROUNDS = 8192, 20  # of the product that tells what a GPU can do

# Columns of runs.csv. `seconds`: of the clock, `core_seconds`: of the processor, without those of
# other programs. `tflops`: 10^12 operations in products with weights a second, of one seed beside
# the others of its row; `product_tflops`: of a large product alone, in the same slice.
COLUMNS = (
    *("row", "study", "seed", "settings", "steps", "seconds", "core_seconds", "gpu_memory"),
    *("tflops", "product_tflops", "device", "python", "torch", "numpy", "commit"),
)


class Part(NamedTuple):
    """Seeds of a run that one slice trains and scores together."""

    run: Run
    seeds: list[int]

    def list_jobs(self) -> list[Job]:
        """Return the jobs that train these seeds; groups of batched seeds are trained whole."""
        jobs = list_training_jobs(self.run)
        return jobs if self.run.training.batched_seeds else [jobs[seed] for seed in self.seeds]


def run_slice(minutes: float, profile: str = PROFILE, rows: Sequence[str] = ()) -> None:
    """Train and score seeds of a profile for some minutes; print one line for each row.

    Args:
        rows: only these (default: all).

    Raises:
        SettingsError: for an unknown row or profile, for the profile gpu without a GPU, and for a
            time that is not positive.
    """
    if not 0 < minutes <= MOST_MINUTES:
        raise SettingsError(
            f"minutes: {minutes} does not fit; expected more than 0, at most a week"
        )
    rows = [run.name for run in run_settings.load_runs(rows or list_by_value(profile), profile)]
    if profile == PROFILE and not torch.cuda.is_available():
        raise SettingsError(
            "gpu: torch sees no GPU here; expected one, or `make repro PROFILE=smoke`, which runs "
            "the same code at a small size"
        )
    deadline = time.time() + 60 * minutes
    os.environ[DEADLINE] = str(deadline)  # workers are started after this
    product = measure_product() if torch.cuda.is_available() else float("nan")
    while parts := choose_parts(list_waiting(profile, rows)):
        names = ", ".join(part.run.name for part in parts)
        if deadline - time.time() < LEAST_SECONDS:
            break
        began = time.monotonic()
        try:
            finished = run_parts(parts, deadline, product)
        except OutOfTime as error:
            print(error, flush=True)
            break
        if not finished:
            print(f"{names}: trained; the next slice scores it", flush=True)
            break
        count = sum(len(part.seeds) for part in parts)
        counted = f"{count} seed{'s' * (count > 1)}"
        print(f"{names}: {counted} in {time.monotonic() - began:.0f} s", flush=True)
    done = len(rows) - len(list_waiting(profile, rows))
    where = paths.display_path(runs_file(profile))
    print(f"{done} of {len(rows)} rows have all seeds in {where}; commit its folder")


def list_by_value(profile: str) -> list[str]:
    """Return the rows of a profile, those of its `order` first.

    >>> list_by_value("gpu")[0]
    'addition_abacus_20_jumps_longer'
    """
    return list(dict.fromkeys([*profiles.load_profile(profile)["order"],
                               *run_settings.list_rows(profile)]))  # fmt: skip


def list_waiting(profile: str, rows: Sequence[str]) -> list[Part]:
    """Return the seeds of rows that have no results of their settings."""
    parts = []
    for row in rows:
        run = run_settings.load_run(row, profile)
        done = list_finished(run)
        waiting = [seed for seed in range(run.seeds) if seed not in done]
        parts += [Part(run, waiting)] if waiting else []
    return parts


def list_finished(run: Run) -> set[int]:
    """Return the seeds of a run that have results of its settings."""
    runs = _read_own_runs(run)
    return {*runs.loc[runs["settings"] == describe_settings(run), "seed"].astype(int)}


def list_outdated(run: Run) -> set[int]:
    """Return the seeds of a run that have results of other settings."""
    return {*_read_own_runs(run)["seed"].astype(int)} - list_finished(run)


def _read_own_runs(run: Run) -> pd.DataFrame:
    runs = read_runs(run.profile)
    return runs[runs["row"] == run.name]


def choose_parts(waiting: Sequence[Part]) -> list[Part]:
    """Return what runs at once: the seeds of a row on a GPU, else a seed on each core.

    On CPUs every row gets its first seed before any row gets its second.
    """
    if torch.cuda.is_available():
        return [*waiting[:1]]
    chosen: dict[int, list[int]] = {}
    room = count_workers()
    for seed, place in sorted((seed, at) for at, part in enumerate(waiting) for seed in part.seeds):
        batched = waiting[place].run.training.batched_seeds
        if room > 0 and not (batched and place in chosen):
            seeds = waiting[place].seeds if batched else [seed]
            chosen[place] = [*chosen.get(place, []), *seeds]
            room -= len(seeds)
    return [Part(waiting[place].run, seeds) for place, seeds in chosen.items()]


def run_parts(parts: Sequence[Part], deadline: float, product: float) -> bool:
    """Train seeds, and add their tables; False if no time is left to score them.

    Raises:
        OutOfTime: for a training that has not ended at the deadline.
    """
    profile = parts[0].run.profile
    jobs = [part.list_jobs() for part in parts]
    label = ", ".join(part.run.name for part in parts)
    pool = [job for group in jobs for job in group]
    places = iter(run_jobs(pool, paths.jobs_folder(profile, "train"), label))
    folders = [[next(places) for _ in group] for group in jobs]
    if deadline - time.time() < LEAST_SECONDS:
        return False
    scoring = []
    for part, group in zip(parts, folders, strict=True):
        write_problems(part.run)
        weights = {
            seed: path
            for seed in part.seeds
            for folder in group
            for path in folder.glob(f"seed_{seed}.safetensors")
        }
        scoring += list_evaluation_jobs(part.run, weights)
    tables = evaluate_runs([part.run for part in parts], scoring)
    for part, group in zip(parts, folders, strict=True):
        run, study = part.run, profiles.find_study(part.run.name)
        own = {name: table[table["row"] == run.name] for name, table in tables.items()}
        curves = read_curves(run, group)
        own["curves"] = curves[curves["seed"].isin(part.seeds)]
        results = paths.results_folder(profile, study)
        if run.name in profiles.load_profile(profile)["models"]:
            files = [file for folder in group for file in folder.glob("seed_*.safetensors")]
            copy_files(files, paths.models_folder(profile, study, run.name))
        add_tables(own, results, run.name, {*part.seeds} | list_outdated(run))
        add_runs(describe_runs(part, group, study, product), run)
    return True


def write_problems(run: Run) -> None:
    """Write the problems that score a run, and their set if its settings have changed."""
    name = problem_sets.get_problem_set_name(run)
    settings = problem_sets.load_problem_set(name, run.profile).model_dump_json()
    table = paths.data_path(run.profile, "problems", f"{name}.parquet")
    note = table.with_suffix(".json")
    if not (table.exists() and note.exists() and note.read_text(encoding="utf-8") == settings):
        problem_sets.write_problem_set(name, run.profile)
        with paths.write_atomically(note) as draft:
            draft.write_text(settings, encoding="utf-8")
    questions = problem_sets.select_questions(run, problem_sets.read_table(run.profile, name))
    with paths.write_atomically(problem_sets.find_questions_file(run)) as draft:
        questions.to_parquet(draft, index=False)


def add_tables(tables: dict[str, pd.DataFrame], folder: Path, row: str, replaced: set[int]) -> None:
    """Add lines of a row to the tables of a folder, and remove earlier lines of `replaced` seeds.

    Seeds that runs.csv does not have stay: `make repro` wrote them.
    """
    merged = {}
    for name in {*tables, *(path.stem for path in folder.glob("*.parquet"))}:
        path = folder / f"{name}.parquet"
        parts = [pd.read_parquet(path)] if path.exists() else []
        parts = [part[(part["row"] != row) | ~part["seed"].isin(replaced)] for part in parts]
        parts = [part for part in [*parts, tables.get(name, pd.DataFrame())] if len(part)]
        if parts:
            merged[name] = pd.concat(parts, ignore_index=True)
    write_tables(merged, folder)


def add_runs(lines: pd.DataFrame, run: Run) -> None:
    """Add seeds of a run to runs.csv, and remove its lines of other settings."""
    runs = read_runs(run.profile)
    same = (runs["settings"] == describe_settings(run)) & ~runs["seed"].isin(lines["seed"])
    others = runs[(runs["row"] != run.name) | same]
    with paths.write_atomically(runs_file(run.profile)) as draft:
        pd.concat([others, lines] if len(others) else [lines]).to_csv(draft, index=False)


def describe_runs(part: Part, folders: Sequence[Path], study: str, product: float) -> pd.DataFrame:
    """Return the lines of runs.csv of trained seeds: one for each."""
    run, lines = part.run, []
    operations, versions = count_step(run).operations, fingerprint.list_versions()
    for folder in folders:
        done: dict[str, Any] = json.loads((folder / kept.DONE).read_text(encoding="utf-8"))
        share = max(done["share"], 1e-4)  # of the training, after its last checkpoint
        seconds, core_seconds = done["seconds"] / share, done["core_seconds"] / share
        lines += [
            {
                "row": run.name, "study": study, "seed": seed, "settings": describe_settings(run),
                "steps": run.training.steps, "seconds": round(seconds, 1),
                "core_seconds": round(core_seconds, 1), "gpu_memory": done["peak_gpu_memory"],
                "tflops": round(operations * run.training.steps / seconds / 1e12, 2),
                "product_tflops": round(product / 1e12, 1), "device": done["device"], **versions,
                "commit": done.get("commit", "unknown"),
            }
            for seed in part.seeds
            if (folder / f"seed_{seed}.safetensors").exists()
        ]  # fmt: skip
    return pd.DataFrame(lines, columns=COLUMNS)


def describe_settings(run: Run) -> str:
    """Return a short hash of the settings of a run that are not defaults, without its seeds.

    A new setting whose default changes nothing leaves it as it is.

    >>> run = run_settings.load_run("addition_abacus_20_jumps_longer", "gpu")
    >>> describe_settings(run) == describe_settings(run.model_copy(update={"seeds": 9}))
    True
    """
    settings = run.model_dump(exclude={"seeds"}, exclude_defaults=True)
    settings = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(settings.encode()).hexdigest()[:12]


def read_runs(profile: str) -> pd.DataFrame:
    """Return runs.csv of a profile; an empty table if there is none."""
    path = runs_file(profile)
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=COLUMNS)


def runs_file(profile: str) -> Path:
    """Return the file that lists the finished seeds of a profile."""
    return paths.results_path(profile, "results", "runs.csv")


def measure_product() -> float:
    """Return the operations a second of a large product of this GPU in bf16."""
    a, b = (torch.randn(PRODUCT_SIZE, PRODUCT_SIZE, device="cuda").bfloat16() for _ in range(2))
    for _ in range(3):
        a @ b
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(PRODUCT_ROUNDS):
        a @ b
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    del a, b
    torch.cuda.empty_cache()  # for the workers
    return PRODUCT_ROUNDS * 2 * PRODUCT_SIZE**3 / seconds
