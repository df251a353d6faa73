"""Where jobs run: the environment variable CARRY_EXECUTOR.

processes           (default) worker processes of this machine
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carry.jobs import kept
from carry.jobs.local import map_processes


@dataclass(frozen=True)
class Task:
    """A job that waits: its number in the pool, the folder of its results, its key."""

    index: int
    job: Any
    folder: Path
    key: str


def execute(tasks: Sequence[Task], report: Callable[..., None]) -> None:
    """Run jobs in this order; `report(index, share, note)` is called in this process."""
    map_processes(
        perform_task, [(task,) for task in tasks], report, [task.job.name for task in tasks]
    )


def perform_task(report: Callable[..., None], task: Task) -> None:
    """Run a job in this process."""

    def report_job(share: float, note: str = "") -> None:
        report(task.index, share, note)

    kept.perform(report_job, task.job, task.folder, task.key)
