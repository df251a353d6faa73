"""Cores, one thread for each process, and its memory."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


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


@contextmanager
def single_precision() -> Iterator[None]:
    """Create float32 tensors inside the block, or the function, whatever a user's default is.

    >>> import torch
    >>> torch.set_default_dtype(torch.float64)
    >>> with single_precision():
    ...     torch.zeros(1).dtype
    torch.float32
    >>> torch.get_default_dtype()
    torch.float64
    >>> torch.set_default_dtype(torch.float32)
    """
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next step; where there is no glibc, do nothing.

    By default it returns large blocks to the system after each step, which fills new ones with
    zeros in the next: 5% of the time of a step in fp32, up to 20% in bf16.

    >>> keep_freed_memory()
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(TRIM_THRESHOLD, 2**31 - 1)
            mallopt(MMAP_THRESHOLD, 2**30)  # bytes; larger blocks are still returned
