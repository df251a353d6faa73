"""Cores, and one thread for each process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

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
