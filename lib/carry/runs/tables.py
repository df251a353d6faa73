"""Tables of results in git: new lines replace those of the same row, scale and seed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pandas as pd

from carry.config import paths
from carry.data.rounding import round_floats
from carry.data.tables import read_parquet, write_tables
from carry.experiments.run import Run
from carry.jobs import Job, store
from carry.models.identity import describe_run
from carry.processes import hold_lock

PLACE = ["row", "scale", "seed"]
LOCK_SECONDS = 600.0  # for other tasks of an array job, which add to the same tables
# The settings and the origin of each seed.
COLUMNS = {
    "runs": (
        *PLACE, "key", "label", "settings", "seconds", "core_seconds", "device", "python", "torch",
        "numpy", "commit",
    )
}  # fmt: skip


def add_lines(tables: Mapping[str, pd.DataFrame], folder: Path, places: Collection[tuple]) -> None:
    """Add tables to those of a folder, in place of the lines of the same `places`.

    New lines are rounded, those of other seeds stay as they are. The table `runs` is written last:
    also after a kill, the others have the seeds that it has.

    Args:
        places: rows, scales and seeds that were run; their earlier lines go from all tables.
    """
    merged = {}
    lock = paths.STORE / "tables" / f"{folder.parent.name}_{folder.name}"
    with hold_lock(lock, f"tables of {folder.name}", LOCK_SECONDS):
        names = {*tables, *(path.stem for path in folder.glob("*.parquet"))}
        for name in [*sorted(names - {"runs"}), *names & {"runs"}]:
            path = folder / f"{name}.parquet"
            earlier = _read_table(path) if path.exists() else pd.DataFrame(columns=PLACE)
            lines = zip(*(earlier[column] for column in PLACE), strict=True)
            kept = earlier[[line not in places for line in lines]]
            added = [round_floats(tables[name])] if name in tables else []
            parts = [part for part in (kept, *added) if len(part)]
            if parts:
                merged[name] = pd.concat(parts, ignore_index=True)
        write_tables(merged, folder)


def _read_table(path: Path) -> pd.DataFrame:
    return read_parquet(path, f"results.{path.parent.name}", "it as git has it")


def describe_runs(runs: Iterable[tuple[Run, int, Job]]) -> pd.DataFrame:
    """Return a line of `runs.parquet` for each run and seed, from the job that trained it."""
    lines = []
    for run, seed, job in runs:
        done = store.read_done(job.place)
        share = max(done["share"], 1e-4)  # of the training, after its last checkpoint
        lines.append(
            {
                **describe_run(run, seed),
                "seconds": round(done["seconds"] / share, 1),
                "core_seconds": round(done["core_seconds"] / share, 1),
                "device": done["device"],
                **done["versions"],
                "commit": done.get("commit", "unknown"),
            }
        )
    return pd.DataFrame(lines)


def list_done(run: Run) -> set[int]:
    """Return the seeds of a run that have results in git with its settings."""
    return _list_seeds(run, done=True)


def list_outdated(run: Run) -> set[int]:
    """Return the seeds of a run that have results in git with other settings."""
    return _list_seeds(run, done=False)


def _list_seeds(run: Run, done: bool) -> set[int]:
    path = paths.results_folder(run.study) / "runs.parquet"
    if not path.exists():
        return set()
    table = _read_table(path)
    own = (table["row"] == run.name) & (table["scale"] == run.scale)
    is_done = table["settings"] == describe_run(run, 0)["settings"]
    return {*table.loc[own & (is_done == done), "seed"]}
