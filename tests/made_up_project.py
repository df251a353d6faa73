"""A project in a temporary folder, whose jobs run one after another in the process of the test."""

import functools

from carry.config import paths
from carry.jobs import pool, store


def move_project(monkeypatch, folder):
    """Let all that is written, and what git has, be in a folder."""
    for name in ("STORE", "TRAINED", "PROBLEMS", "REPORTS", "ROOT"):  # the others are in it
        place = getattr(paths, name).relative_to(paths.ROOT)
        monkeypatch.setattr(paths, name, folder / place)
    monkeypatch.setattr(pool, "execute", run_here)


def run_here(jobs, report):
    """Run jobs without other processes."""
    for index, job in enumerate(jobs):
        store.perform(functools.partial(report, index), job, job.place)
