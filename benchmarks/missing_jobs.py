"""Run the jobs of a long benchmark that its table of results does not have yet."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import pandas as pd
import torch

from carry.config import paths
from carry.processes import count_cores
from carry.progress import progress_bar


def run_missing(
    file: Path,
    job_columns: Sequence[str],
    jobs: Sequence[tuple],
    run: Callable[..., pd.DataFrame],
) -> pd.DataFrame:
    """Add the rows `run(*job)` to a CSV file for each job that it lacks, and return its table.

    A job is a tuple of the values of `job_columns`. The file is written after each job, so that a
    benchmark can be stopped and started at any time. As many jobs as cores run at once, each with
    one thread.
    """
    results = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=[*job_columns])
    done = {*results[[*job_columns]].itertuples(index=False, name=None)}
    missing = [job for job in jobs if job not in done]
    if not missing:
        return results
    context = multiprocessing.get_context("spawn")
    with (
        progress_bar(len(missing), file.stem) as bar,
        ProcessPoolExecutor(count_cores(), context, torch.set_num_threads, (1,)) as pool,
    ):
        for future in as_completed([pool.submit(run, *job) for job in missing]):
            found = future.result()
            results = pd.concat([results, found]) if len(results) else found
            with paths.write_atomically(file) as draft:
                results.to_csv(draft, index=False, lineterminator="\n")
            bar.update()
    return results
