"""What a process may use: cores and open files; one thread, its memory, and locks."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from carry.config.settings import SettingsError

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def count_cores() -> int:
    """Return how many cores this process may use, by its affinity and the quota of a container."""
    from dask.system import cpu_count

    return cpu_count()


def allow_open_files(count: int) -> None:
    """Raise the limit of open files: macOS allows 256, and each worker needs a dozen.

    Raises:
        SettingsError: where the system allows fewer.

    >>> allow_open_files(64)
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise SettingsError(f"ulimit -n: {hard} open files do not suffice; expected {count}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


@contextmanager
def hold_lock(place: Path, name: str, seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock `place`.lock inside the block; refuse it, if another process holds it.

    Args:
        place: the folder or file that is locked; `place`.owner says by which process.
        name: of what the process does, for the message of others.
        seconds: how long to wait for another process.
    """
    lock, owner = (place.with_name(f"{place.name}{end}") for end in (".lock", ".owner"))
    lock.parent.mkdir(parents=True, exist_ok=True)
    held = filelock.FileLock(lock)
    try:
        held.acquire(timeout=seconds)
    except filelock.Timeout:
        holder = owner.read_text(encoding="utf-8").strip() if owner.exists() else "unknown"
        raise SettingsError(
            f"jobs: process {holder} runs {name!r} already; expected it to end first"
        ) from None
    try:
        owner.write_text(f"{os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        yield
    finally:
        held.release()


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
