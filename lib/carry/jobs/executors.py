"""Where jobs run, by the environment variable CARRY_EXECUTOR.

processes           (default) processes of this machine: one a core, or up to eight a GPU
dask                a Dask cluster on this machine: one worker a core, or one a GPU
dask://HOST:PORT    a Dask scheduler that runs
NAME.yaml           a cluster of dask-jobqueue (SLURM, ...), with the settings of this file
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence

from carry.config.settings import SettingsError
from carry.jobs.local import map_processes
from carry.jobs.tasks import Task, perform_task


def execute(tasks: Sequence[Task], report: Callable[..., None]) -> None:
    """Run jobs in this order; `report(index, share, note)` is called in this process.

    Raises:
        SettingsError: for an executor that cannot be used.
    """
    executor = os.environ.get("CARRY_EXECUTOR", "") or "processes"
    if executor == "processes":
        arguments = [(task,) for task in tasks]
        map_processes(perform_task, arguments, report, [task.job.name for task in tasks])
        return
    try:  # imported here, because it takes a second
        cluster = importlib.import_module("carry.jobs.cluster")
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"CARRY_EXECUTOR: {error.name} is not installed; expected `pip install "
            "'carry[cluster]'`"
        ) from None
    cluster.run_on_dask(tasks, report, executor)
