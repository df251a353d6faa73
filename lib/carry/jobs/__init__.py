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
    waiting: dict[Path, int] = {}
    for index, place in enumerate(places):
        fault = store.find_fault(place)
        if fault and place not in waiting:  # equal work is done once
            if fault != store.MISSING:
                print_warning(f"{jobs[index].name}: {fault}; this job is run again")
            waiting[place] = index
        elif not fault:  # a kill may have left them behind
            store.remove_checkpoints(place)
    order = sorted(waiting.values(), key=lambda index: -jobs[index].cost)
    with progress_bar(sum(job.cost for job in jobs), label, bar_format=BAR, smoothing=0) as bar:
        progress = _Progress(bar, jobs, order)
        if order:  # Dask is imported only now, because it takes a second
            pool = importlib.import_module("carry.jobs.pool")
            pool.execute([jobs[index] for index in order], progress.report)
    return places


# Units of cost say nothing to a reader: only the share and the time.
BAR = "{desc}: {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"


class _Progress:
    """The progress bar of a pool, in units of cost."""

    def __init__(self, bar: Any, jobs: Sequence[Job], waiting: Sequence[int]) -> None:
        self.bar, self.jobs, self.waiting = bar, jobs, waiting
        self.shares = dict.fromkeys(range(len(jobs)), 1.0) | dict.fromkeys(waiting, 0.0)
        self.started: set[int] = set()
        self.lock = threading.Lock()  # Dask reports from several threads
        if not bar.disable:  # what an earlier process did says nothing about speed
            bar.initial = bar.n = self._sum()
        self._show("")

    def report(self, number: int, share: float, note: str = "") -> None:
        """Show the share of a waiting job; its first report tells the share of its checkpoint."""
        with self.lock:
            index = self.waiting[number]
            job = self.jobs[index]
            if index not in self.started and share < 1 and not self.bar.disable:
                self.bar.initial += share * job.cost
            self.started.add(index)
            if self.shares[index] == 1:  # a late report from another machine
                return
            self.shares[index] = min(max(share, 0.0), 1.0)
            self._show(f"{job.name}: {note}" if note else job.name)

    def _sum(self) -> float:
        return sum(self.jobs[index].cost * share for index, share in self.shares.items())

    def _show(self, note: str) -> None:
        done = sum(share == 1 for share in self.shares.values())
        text = f"{done} of {len(self.jobs)} jobs"
        self.bar.set_postfix_str(f"{text}, {note}" if note else text, refresh=False)
        self.bar.update(self._sum() - self.bar.n)
