"""Jobs: functions from settings to files, whose results are kept, on any executor.

A stage makes a `Job` for each seed or row and calls `run_jobs`. A job whose result is kept under
the hash of its inputs, of the code that it reaches and of the versions of Python, torch and numpy
is not run again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carry.config.settings import SettingsError
from carry.jobs import executors, kept
from carry.jobs.tasks import Task
from carry.progress import print_warning, progress_bar


@dataclass(frozen=True)
class Job:
    """A function from settings to files.

    `work(report, folder, *arguments)` writes its files into `folder`, and its checkpoints into
    `folder / "checkpoints"`, from which it continues after it was killed. It calls
    `report(share, note)` with the share of the job that is done, 0 to 1, and a text such as
    "loss 0.123, exact 98%".
    """

    name: str  # unique among the jobs of a pool; its label, and its folder
    work: Callable[..., None]  # of a module: worker processes import it by name
    arguments: tuple = ()
    inputs: str = ""  # all settings, and hashes of all files, that determine the result
    modules: tuple[str, ...] = ()  # chosen by name: their code counts besides that of `work`
    cost: float = 1.0  # expected core-seconds


def run_jobs(jobs: Sequence[Job], folder: Path, label: str) -> list[Path]:
    """Run the jobs that have no kept result, those with the highest cost first.

    The environment variable CARRY_EXECUTOR says where they run (see `carry.jobs.executors`). A job
    that raises stops the pool: no further job starts, running ones finish, and its error is raised.

    Args:
        folder: of the kept results of a stage.
        label: of the progress bar.

    Returns:
        For each job, in order, the folder with its files.

    Raises:
        SettingsError: for an executor that cannot be used, for a job that another process runs, and
            for a process that ended in the middle of a job.

    >>> import tempfile
    >>> job = Job("hello", kept.write_text, ("hello.txt", "Hello!"))
    >>> place, = run_jobs([job], Path(tempfile.mkdtemp()), "greetings")
    >>> (place / "hello.txt").read_text()
    'Hello!'
    """
    names = [job.name for job in jobs]
    if len({*names}) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise SettingsError(f"jobs: {double!r} is the name of two jobs; expected one")
    places = [kept.find_place(job, folder) for job in jobs]
    waiting = []
    for index, (job, place) in enumerate(zip(jobs, places, strict=True)):
        fault = kept.find_fault(place)
        if fault:
            if fault != kept.MISSING:
                print_warning(f"{job.name}: {fault}; this job is run again")
            waiting.append(index)
    waiting.sort(key=lambda index: -jobs[index].cost)
    with progress_bar(sum(job.cost for job in jobs), label, bar_format=BAR, smoothing=0) as bar:
        progress = _Progress(bar, jobs, waiting)
        tasks = []
        for index in waiting:
            job, place = jobs[index], places[index]
            tasks.append(Task(index, job, place.parent, place.name, kept.hash_code(job)))
        if tasks:
            executors.execute(tasks, progress.report)
    return places


# Units of cost say nothing to a reader: only the share and the time.
BAR = "{desc}: {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"


class _Progress:
    """The progress bar of a pool, in units of cost."""

    def __init__(self, bar: Any, jobs: Sequence[Job], waiting: Sequence[int]) -> None:
        self.bar, self.jobs = bar, jobs
        self.shares = dict.fromkeys(range(len(jobs)), 1.0) | dict.fromkeys(waiting, 0.0)
        self.started: set[int] = set()
        self.lock = threading.Lock()  # executors report from several threads
        if not bar.disable:  # what an earlier process did says nothing about speed
            bar.initial = bar.n = self._sum()
        self._show("")

    def report(self, index: int, share: float, note: str = "") -> None:
        """Show the share of a job; its first report tells the share of its checkpoint."""
        with self.lock:
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
