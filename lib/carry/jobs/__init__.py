"""Jobs: functions from settings to files, whose results are kept.

What needs results makes a `Job` for each and calls `run_jobs`. A job whose result is kept under the
hash of its inputs, of the code that it reaches and of the versions of Python, torch and numpy is
not run again.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from carry.jobs import store
from carry.jobs.store import Job
from carry.progress import print_warning, progress_bar

__all__ = ["Job", "run_jobs"]


def run_jobs(jobs: Sequence[Job], label: str) -> list[Path]:
    """Run the jobs that have no kept result, those with the highest cost first.

    Args:
        label: of the progress bar.

    Returns:
        For each job, in order, the folder with its files.

    Raises:
        SettingsError: for an executor that cannot be used (see `carry.jobs.pool`), for a job that
            another process runs, and for a process that ended again and again.

    >>> def greet(report, folder, text):
    ...     _ = (folder / "hello.txt").write_text(text)
    >>> place, = run_jobs([Job("hello", "greetings", greet, ("Hello!",))], "greetings")
    >>> (place / "hello.txt").read_text()
    'Hello!'
    """
    places = [job.place for job in jobs]
    waiting: dict[Path, Job] = {}
    for job, place in zip(jobs, places, strict=True):
        fault = store.find_fault(place)
        if not fault:  # a kill may have left them behind
            store.remove_checkpoints(place)
        elif place not in waiting:  # equal work is done once
            if fault != store.MISSING:
                print_warning(f"{job.name}: {fault}; this job is run again")
            waiting[place] = job
    if waiting:
        order = sorted(waiting.values(), key=lambda job: -job.cost)
        with progress_bar(1, label, bar_format=BAR, smoothing=0) as bar:
            pool = importlib.import_module("carry.jobs.pool")  # only now: Dask takes a second
            pool.execute(order, _Progress(bar, order).report)
    return places


# The share of the cost of all jobs, and the time.
BAR = "{desc}: {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"


class _Progress:
    """The progress bar of a pool: the share of the cost of its jobs that is done."""

    def __init__(self, bar: Any, jobs: Sequence[Job]) -> None:
        self.bar, self.jobs = bar, jobs
        cost = sum(job.cost for job in jobs)
        self.parts = [job.cost / cost for job in jobs]
        self.shares: dict[int, float] = {}  # of the jobs that have started
        self.lock = threading.Lock()  # Dask reports from several threads

    def report(self, number: int, share: float, note: str = "") -> None:
        """Show the share of a job; its first report tells the share of its checkpoint."""
        with self.lock:
            name = self.jobs[number].name
            if self.shares.get(number) == 1:  # a late report from another machine
                return
            if number not in self.shares and share < 1 and not self.bar.disable:
                # An earlier process did it: it has no speed.
                self.bar.initial += share * self.parts[number]
            self.shares[number] = min(max(share, 0.0), 1.0)
            done = sum(share == 1 for share in self.shares.values())
            text = f"{done} of {len(self.jobs)} jobs, {name}"
            self.bar.set_postfix_str(f"{text}: {note}" if note else text, refresh=False)
            shares = (part * self.shares.get(at, 0.0) for at, part in enumerate(self.parts))
            self.bar.update(sum(shares) - self.bar.n)
