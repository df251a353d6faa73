"""Jobs that wait in a pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carry.jobs import kept


@dataclass(frozen=True)
class Task:
    """A job that waits: its number in the pool, the folder of its results, its key, its code."""

    index: int
    job: Any
    folder: Path
    key: str
    code: str

    def modules(self) -> tuple[str, ...]:
        """Return the modules whose code, and all that it imports, determines the result."""
        return self.job.work.__module__, *self.job.modules


def perform_task(report: Callable[..., None], task: Task) -> None:
    """Run a job in this process."""

    def report_job(share: float, note: str = "") -> None:
        report(task.index, share, note)

    kept.perform(report_job, task.job, task.folder, task.key)
