"""The rows of a profile in slices of time: `make gpu MINUTES=8`.

Rows are trained and scored one after another, those of the profile's `order` first; the seeds of a
row run at once. A slice ends at its time with a checkpoint of what runs, and the next one goes on
there. The tables of a finished row are written at once, to be committed:

    reports/results/gpu/STUDY/*.parquet   as those of the other profiles, with the finished rows
    reports/results/gpu/runs.csv          for each seed its settings, hardware, versions and commit

A row of runs.csv is not run again while its settings are the same, wherever it was trained: a
machine that is lent for minutes starts without checkpoints and with the results in git.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from carry import fingerprint
from carry.config import paths, profiles, run_settings
from carry.config.run_settings import Run
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.data.tables import write_tables
from carry.evaluation.rows import evaluate_rows
from carry.jobs import kept
from carry.training.cost import count_step
from carry.training.loop import OutOfTime
from carry.training.rows import list_training_jobs, train_runs
from carry.training.seeds import DEADLINE

PROFILE = "gpu"
LEAST_SECONDS = 60.0  # before the end of a slice, for a row to begin or to be scored
MOST_MINUTES = 7 * 24 * 60
PRODUCT_SIZE, PRODUCT_ROUNDS = 8192, 20  # of the product that tells what a GPU can do

# Columns of runs.csv. `tflops`: 10^12 operations in products with weights a second, of one seed
# beside the others of its row; `product_tflops`: of a large product alone, in the same slice.
COLUMNS = (
    *("row", "study", "seed", "settings", "steps", "seconds", "gpu_memory", "tflops"),
    *("product_tflops", "device", "python", "torch", "numpy", "commit"),
)


def run_slice(minutes: float, profile: str = PROFILE) -> None:
    """Train and score rows of a profile for some minutes; print one line for each row.

    Raises:
        SettingsError: without a GPU, and for a time that is not positive.
    """
    if not 0 < minutes <= MOST_MINUTES:
        raise SettingsError(
            f"minutes: {minutes} does not fit; expected more than 0, at most a week"
        )
    if not torch.cuda.is_available():
        raise SettingsError(
            "gpu: torch sees no GPU here; expected one, or `make repro PROFILE=smoke`, which runs "
            "the same code at a small size"
        )
    deadline = time.time() + 60 * minutes
    os.environ[DEADLINE] = str(deadline)  # workers are started after this
    product = measure_product()
    done = len(read_runs(profile)["row"].unique())
    for run in list_waiting(profile):
        if deadline - time.time() < LEAST_SECONDS:
            break
        began = time.monotonic()
        try:
            finished = run_row(run, deadline, product)
        except OutOfTime as error:
            print(error, flush=True)
            break
        if not finished:
            print(f"{run.name}: trained; the next slice scores it", flush=True)
            break
        done += 1
        print(f"{run.name}: {run.seeds} seeds in {time.monotonic() - began:.0f} s", flush=True)
    total = len(run_settings.list_rows(profile))
    where = paths.display_path(runs_file(profile))
    print(f"{done} of {total} rows have results in {where}; commit its folder")


def list_by_value(profile: str) -> list[str]:
    """Return the rows of a profile, those of its `order` first.

    >>> list_by_value("gpu")[0]
    'addition_abacus_20'
    """
    return list(dict.fromkeys([*profiles.load_profile(profile)["order"],
                               *run_settings.list_rows(profile)]))  # fmt: skip


def list_waiting(profile: str) -> Iterator[Run]:
    """Yield the runs without results of their settings, in the order of `list_by_value`."""
    runs = read_runs(profile)
    for row in list_by_value(profile):
        run = run_settings.load_run(row, profile)
        seeds = runs.loc[
            (runs["row"] == row) & (runs["settings"] == describe_settings(run)), "seed"
        ]
        if not {*range(run.seeds)} <= {*seeds}:
            yield run


def run_row(run: Run, deadline: float, product: float) -> bool:
    """Train all seeds of a run, and write its tables; False if no time is left to score them.

    Raises:
        OutOfTime: for a training that has not ended at the deadline.
    """
    train_runs([run])
    if deadline - time.time() < LEAST_SECONDS:
        return False
    write_problems(run)
    tables = evaluate_rows([run.name], run.profile)
    study = profiles.find_study(run.name)
    add_tables(tables, paths.results_folder(run.profile, study), run.name)
    add_runs(describe_runs(run, study, product), run.profile, run.name)
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


def add_tables(tables: dict[str, pd.DataFrame], folder: Path, row: str) -> None:
    """Replace the lines of a row in the tables of a folder."""
    merged = {}
    for name in {*tables, *(path.stem for path in folder.glob("*.parquet"))}:
        path = folder / f"{name}.parquet"
        parts = [pd.read_parquet(path)] if path.exists() else []
        parts = [part[part["row"] != row] for part in parts] + [tables.get(name, pd.DataFrame())]
        parts = [part for part in parts if len(part)]
        if parts:
            merged[name] = pd.concat(parts, ignore_index=True)
    write_tables(merged, folder)


def add_runs(lines: pd.DataFrame, profile: str, row: str) -> None:
    """Replace the lines of a row in runs.csv."""
    runs = read_runs(profile)
    others = runs[runs["row"] != row]
    with paths.write_atomically(runs_file(profile)) as draft:
        pd.concat([others, lines] if len(others) else [lines]).to_csv(draft, index=False)


def describe_runs(run: Run, study: str, product: float) -> pd.DataFrame:
    """Return the lines of runs.csv of a trained run: one for each seed."""
    operations, versions = count_step(run).operations, fingerprint.list_versions()
    lines = []
    for seed, job in enumerate(list_training_jobs(run)):
        place = kept.find_place(job, paths.jobs_folder(run.profile, "train"))
        done: dict[str, Any] = json.loads((place / kept.DONE).read_text(encoding="utf-8"))
        seconds = done["seconds"] / max(done["share"], 1e-4)
        lines.append({
            "row": run.name, "study": study, "seed": seed, "settings": describe_settings(run),
            "steps": run.training.steps, "seconds": round(seconds, 1),
            "gpu_memory": done["peak_gpu_memory"],
            "tflops": round(operations * run.training.steps / seconds / 1e12, 2),
            "product_tflops": round(product / 1e12, 1), "device": done["device"], **versions,
            "commit": done.get("commit", "unknown"),
        })  # fmt: skip
    return pd.DataFrame(lines, columns=COLUMNS)


def describe_settings(run: Run) -> str:
    """Return a short hash of all settings of a run but its number of seeds.

    >>> run = run_settings.load_run("addition_abacus_20", "gpu")
    >>> describe_settings(run) == describe_settings(run.model_copy(update={"seeds": 9}))
    True
    """
    settings = json.dumps(run.model_dump(exclude={"seeds"}), sort_keys=True)
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
