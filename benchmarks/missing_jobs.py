"""Run the jobs of a long benchmark that its table of results does not have yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from carry.config import paths
from carry.jobs.local import map_processes
from carry.progress import progress_bar


def run_missing(
    file: Path,
    job_columns: Sequence[str],
    jobs: Sequence[tuple],
    run: Callable[..., pd.DataFrame],
    alone: bool = False,
) -> pd.DataFrame:
    """Add the rows `run(*job)` to a CSV file for each job that it lacks, and return its table.

    A job is a tuple of the values of `job_columns`. The file is written after each job, so that a
    benchmark can be stopped and started at any time. As many jobs as cores run at once, each with
    one thread, or one after the other if `alone`, for benchmarks of speed.
    """
    results = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=[*job_columns])
    done = {*results[[*job_columns]].itertuples(index=False, name=None)}
    missing = [job for job in jobs if job not in done]
    if not missing:
        return results
    with progress_bar(len(missing), file.stem) as bar:

        def keep(found: pd.DataFrame) -> None:
            nonlocal results
            results = pd.concat([results, found]) if len(results) else found
            with paths.write_atomically(file) as draft:
                results.to_csv(draft, index=False, lineterminator="\n")
            bar.update()

        for together in [[job] for job in missing] if alone else [missing]:
            map_processes(_report_rows, [(run, job) for job in together], keep)
    return results


def _report_rows(report: Callable[..., Any], run: Callable[..., pd.DataFrame], job: tuple) -> None:
    report(run(*job))
