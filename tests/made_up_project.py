"""A project in a temporary folder, whose jobs run one after another in the process of the test."""

import functools

from carry.config import paths
from carry.jobs import pool, store


def move_project(monkeypatch, folder):
    """Let the store, the results and the weights in git be in a folder."""
    for name, place in {"ROOT": "", "STORE": "data/store", "REPORTS": "reports"}.items():
        monkeypatch.setattr(paths, name, folder / place)
    monkeypatch.setattr(pool, "execute", run_here)


def run_here(jobs, report):
    """Run jobs without other processes."""
    for index, job in enumerate(jobs):
        store.perform(functools.partial(report, index), job, job.place)
