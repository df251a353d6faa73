"""One thread for each process, and the end of processes with the pipeline."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil

POLL_SECONDS = 0.25
GPU_SHARE = "CARRY_GPU_SHARE"  # names the share of a GPU's memory that a process may use


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread inside the block: sums of several threads round differently.

    >>> import torch
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    import torch  # here, because the import takes a second, and who runs notebooks needs no torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@functools.cache
def end_with_pipeline() -> None:
    """End this process soon after a process ends that leads from it up to DVC.

    DVC marks the environment of its commands. Without DVC this does nothing.
    """
    ancestors = find_pipeline_processes()
    if ancestors:
        threading.Thread(target=_end_with, args=(ancestors,), daemon=True).start()


def find_pipeline_processes() -> list[psutil.Process]:
    """Return the ancestors of this process up to DVC, or none if DVC did not start it."""
    ancestors = []
    process = psutil.Process()
    try:
        while process is not None and "DVC_STAGE" in process.environ():
            process = process.parent()
            ancestors.append(process)
    except psutil.Error:  # the environment of another user's process is private
        pass
    return [process for process in ancestors if process is not None]


def _end_with(processes: Sequence[psutil.Process]) -> None:
    while all(_is_alive(process) for process in processes):
        time.sleep(POLL_SECONDS)
    os._exit(1)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
