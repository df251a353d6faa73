"""The training of rows: all seeds of all rows are one pool of jobs."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from carry.config import paths, profiles, run_settings
from carry.config.run_settings import Run
from carry.jobs import Job, kept, run_jobs
from carry.training.cost import estimate_training_seconds
from carry.training.seeds import train_seed

# Of the result table with the learning curves: also on what each seed was trained, and with which
# versions and commit.
ORIGIN = ("device", "python", "torch", "numpy", "commit")
COLUMNS = {"curves": ("row", "profile", "seed", "step", "loss", "exact", "rate", "heads", *ORIGIN)}


def list_training_jobs(run: Run) -> list[Job]:
    """Return the jobs that train the seeds of a run: one for each seed, or for each group.

    >>> run = run_settings.load_run("addition_relative", "notebook")
    >>> [job.name for job in list_training_jobs(run)]
    ['addition_relative/seed_0']

    Raises:
        SettingsError: for a run with `batched_seeds` that cannot be trained this way.
    """
    modules, cost = tuple(run.module_names()), estimate_training_seconds(run)
    if run.training.batched_seeds:  # imported by name, so that other rows do not depend on it
        batched = importlib.import_module("carry.training.batched.groups")
        return [
            Job(
                name=f"{run.name}/group_{index}",
                work=batched.train_group,
                arguments=(run, seeds),
                inputs=f"{run.key()} {[*seeds]}",
                modules=modules,
                cost=cost * len(seeds),
            )
            for index, seeds in enumerate(batched.list_groups(run))
        ]
    return [
        Job(
            f"{run.name}/seed_{seed}", train_seed, (run, seed), f"{run.key()} {seed}", modules, cost
        )
        for seed in range(run.seeds)
    ]


def train_rows(rows: Sequence[str], profile: str) -> pd.DataFrame:
    """Train all seeds of rows of a profile; see `train_runs`.

    Raises:
        SettingsError: for an unknown row or profile.
    """
    return train_runs(run_settings.load_runs(rows, profile))


def train_runs(runs: Sequence[Run]) -> pd.DataFrame:
    """Train all seeds of runs of one profile, in parallel; keep what is trained already.

    The folder of each run under data/ then has, for each seed, `seed_N.safetensors` and the
    snapshots as `snapshots_N.safetensors`; for all seeds `curves.parquet`, `run.json`, and a fixed
    data set (see `carry.training.seeds.write_problems`).

    Returns:
        The learning curves, with the device, versions and commit of their training: one row for
        each run, seed and scored step.

    Raises:
        SettingsError: for settings that do not fit; for a seed that another process trains.
        TrainingDiverged: for a loss that is not finite.
    """
    names = {run.name: profiles.find_study(run.name) for run in runs}
    jobs = {run.name: list_training_jobs(run) for run in runs}
    label = runs[0].name if len(runs) == 1 else ", ".join(dict.fromkeys(names.values()))
    pool = [job for run in runs for job in jobs[run.name]]
    places = iter(run_jobs(pool, paths.jobs_folder(runs[0].profile, "train"), label))
    tables = [
        publish_run(run, names[run.name], [next(places) for _ in jobs[run.name]]) for run in runs
    ]
    return pd.concat(tables, ignore_index=True)


def publish_run(run: Run, study: str, places: Sequence[Path]) -> pd.DataFrame:
    """Copy the files of a run's jobs to its folder, remove others, and return its curves."""
    folder = paths.run_folder(run.profile, study, run.name)
    files = {
        path.name: path
        for place in places
        for path in [*place.glob("*.safetensors"), *place.glob("problems.*")]
    }
    written = {*files, "curves.parquet", "run.json"}
    for path in folder.glob("*"):
        if path.name not in written:  # of other settings, or a draft that a kill has left
            path.unlink()
    for name, path in files.items():
        with paths.write_atomically(folder / name) as draft:
            shutil.copyfile(path, draft)
    curves = read_curves(run, places)
    with paths.write_atomically(folder / "curves.parquet") as draft:
        curves.to_parquet(draft, index=False)
    with paths.write_atomically(folder / "run.json") as draft:
        settings = run.model_dump_json(indent=2, exclude={"evaluation"})
        draft.write_text(f"{settings}\n", encoding="utf-8")
    return curves


def read_curves(run: Run, places: Sequence[Path]) -> pd.DataFrame:
    """Return the learning curves that jobs of a run have kept, and where they were trained."""
    curves = pd.concat([read_curve(place) for place in places])
    curves = curves.assign(row=run.name, profile=run.profile)
    curves = curves.sort_values(["seed", "step"], ignore_index=True)
    # Only models whose heads are halved count them.
    return curves.reindex(columns=COLUMNS["curves"]).astype({"heads": float})


def read_curve(place: Path) -> pd.DataFrame:
    """Return the learning curves that a job has kept, with what their seeds were trained on."""
    done = json.loads((place / kept.DONE).read_text(encoding="utf-8"))
    origin = {"device": done["device"], "commit": done.get("commit", "unknown"), **done["versions"]}
    return pd.read_parquet(place / "curve.parquet").assign(**origin)
