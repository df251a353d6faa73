"""Kept results: the folder of a job, under the hash of what determines its files.

folder/NAME/KEY/          the files of the job, and done.json, which is written last
folder/NAME/KEY/checkpoints/   while the job runs, or after it was killed
folder/NAME/lock, owner   which process runs the job
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import resource
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import filelock
import torch

from carry import fingerprint
from carry.config import paths
from carry.config.settings import SettingsError, describe
from carry.processes import one_thread

DONE, CHECKPOINTS = "done.json", "checkpoints"
MISSING = "has no result"
KEY = re.compile(r"[0-9a-f]{16}")
NAME = re.compile(r"\w[\w.+-]*(/\w[\w.+-]*)*")


def find_place(job: Any, folder: Path) -> Path:
    """Return the folder of the files of a job (see `carry.jobs.Job`).

    Raises:
        SettingsError: for a name that is no relative path.
    """
    if not NAME.fullmatch(job.name):
        raise SettingsError(
            f"jobs: {describe(job.name)} is not a name; expected letters, digits, _ - + . and /"
        )
    versions = json.dumps(fingerprint.list_versions())
    text = "\0".join([job.name, job.work.__qualname__, job.inputs, hash_code(job), versions])
    return folder / job.name / hashlib.sha256(text.encode()).hexdigest()[:16]


def hash_code(job: Any) -> str:
    """Return a hash of all files of the library that the work of a job reaches."""
    return _hash_modules((job.work.__module__, *job.modules))


@functools.cache  # many jobs reach the same files
def _hash_modules(modules: tuple[str, ...]) -> str:
    return hashlib.sha256(fingerprint.hash_code(modules).encode()).hexdigest()[:16]


def find_fault(place: Path) -> str:
    """Return why a folder has no result that can be used; an empty text if it has one.

    >>> find_fault(Path("nowhere"))
    'has no result'
    """
    marker = place / DONE
    if not marker.exists():
        return MISSING
    try:
        done = json.loads(marker.read_text(encoding="utf-8"))
        if done["key"] != place.name:
            return f"its kept result belongs to {describe(done['key'])}, not to {place.name!r}"
        for name, digest in done["files"].items():
            if not (place / name).is_file():
                return f"{name} is missing in its kept result"
            if _hash_file(place / name) != digest:
                return f"{name} in its kept result is damaged; its hash does not match its content"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{DONE} of its kept result is damaged"
    return ""


def perform(
    report: Callable[..., None], job: Any, folder: Path, key: str, lock_seconds: float = 0.0
) -> None:
    """Run a job with one thread, and keep its result in `folder / key`.

    A result that another process has kept in the meantime is not made again.

    Args:
        lock_seconds: how long to wait for another process that runs the job.

    Raises:
        SettingsError: for a job that another process runs.
    """
    place = folder / key
    with lock_job(job.name, folder, lock_seconds):
        fault = find_fault(place)
        if fault:
            if fault != MISSING:
                shutil.rmtree(place)
            _remove_earlier(folder, key)
            place.mkdir(parents=True, exist_ok=True)
            measures = _Measures(report)
            with one_thread():
                job.work(measures.report, place, *job.arguments)
            _keep(place, {"key": key, "job": job.name, "cost": job.cost, **measures.read()})
        shutil.rmtree(place / CHECKPOINTS, ignore_errors=True)
    report(1.0)


@contextmanager
def lock_job(name: str, folder: Path, seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock of a job in its folder.

    Raises:
        SettingsError: with the process that holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock, owner = filelock.FileLock(folder / "lock"), folder / "owner"
    try:
        lock.acquire(timeout=seconds)
    except filelock.Timeout:
        holder = owner.read_text(encoding="utf-8").strip() if owner.exists() else "unknown"
        raise SettingsError(
            f"jobs: process {holder} runs {name!r} already; expected it to end first"
        ) from None
    try:
        owner.write_text(f"{os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        yield
    finally:
        lock.release()


def write_text(report: Callable[..., None], folder: Path, name: str, text: str) -> None:
    """Write a text to a file: the smallest job, for examples."""
    with paths.write_atomically(folder / name) as draft:
        draft.write_text(text, encoding="utf-8")


class _Measures:
    """What a job takes: for `carry plan`."""

    def __init__(self, report: Callable[..., None]) -> None:
        self.forward, self.first = report, None
        self.commit = fingerprint.find_commit()  # before the files can change
        self.wall, self.core = time.monotonic(), time.process_time()
        with suppress(OSError):  # else the peak is that of all jobs of this process
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        if torch.cuda.is_initialized():
            torch.cuda.reset_peak_memory_stats()

    def report(self, share: float, note: str = "") -> None:
        if self.first is None:
            self.first = share
        self.forward(share, note)

    def read(self) -> dict[str, Any]:
        unit = 1 if sys.platform == "darwin" else 1024
        gpu = torch.cuda.is_initialized()
        return {
            "share": round(1 - (self.first or 0.0), 4),  # without what its checkpoint had
            "seconds": round(time.monotonic() - self.wall, 3),
            "core_seconds": round(time.process_time() - self.core, 3),
            "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,  # bytes
            "peak_gpu_memory": torch.cuda.max_memory_allocated() if gpu else 0,
            "device": torch.cuda.get_device_name() if gpu else fingerprint.name_processor(),
            "versions": fingerprint.list_versions(),
            "commit": self.commit,
        }


def _keep(place: Path, done: dict[str, Any]) -> None:
    """Write the marker of a finished job, after all of its files."""
    for draft in place.rglob(".*-*"):  # of an earlier process that was killed while it wrote
        draft.unlink()
    files = [
        path
        for path in sorted(place.rglob("*"))
        if path.is_file() and place / CHECKPOINTS not in path.parents
    ]
    hashes = {path.relative_to(place).as_posix(): _hash_file(path) for path in files}
    hashes.pop(DONE, None)
    with paths.write_atomically(place / DONE) as draft:
        draft.write_text(json.dumps({**done, "files": hashes}, indent=2), encoding="utf-8")


def _remove_earlier(folder: Path, key: str) -> None:
    """Remove results of other settings or code."""
    for path in folder.iterdir():
        if path.is_dir() and KEY.fullmatch(path.name) and path.name != key:
            shutil.rmtree(path)


def _hash_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
