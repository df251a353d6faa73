"""Results that are kept: the folder of a job, named by the hash of what determines its files.

data/store/KIND/KEY/              the files of the job, and done.json, which is written last
data/store/KIND/KEY/checkpoints/  while the job runs, or after it was killed
data/store/KIND/KEY.lock, .owner  which process runs the job

The key has no names: equal work is done once, whatever it is called. Nothing is ever removed.
data/trained/ROW/KEY are copies of trainings, which DVC keeps, pushes and pulls.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from carry import fingerprint
from carry.config import paths
from carry.processes import hold_lock, one_thread, single_precision

DONE, CHECKPOINTS = "done.json", "checkpoints"
MISSING = "has no result"


@dataclass(frozen=True)
class Job:
    """A function from settings to files.

    `work(report, folder, *arguments)` writes its files into `folder`, and its checkpoints into
    `folder / "checkpoints"`, from which it continues after it was killed. It calls
    `report(share, note)` with the share of the job that is done, 0 to 1, and a text such as
    "loss 0.123, exact 98%".
    """

    name: str  # its label
    kind: str  # the folder of the store, such as `train`
    work: Callable[..., None]  # of a module: worker processes import it by name
    arguments: tuple = ()
    inputs: str = ""  # all settings, and hashes of all files, that determine the result
    modules: tuple[str, ...] = ()  # whose code, with all that it imports, determines the result
    cost: float = 1.0  # expected core-seconds

    @property
    def place(self) -> Path:
        """The folder of its result."""
        code, versions = fingerprint.hash_code(self.modules), fingerprint.list_versions().values()
        text = "\0".join([self.kind, self.inputs, code, *versions])
        return paths.STORE / self.kind / hashlib.sha256(text.encode()).hexdigest()[:16]


def find_fault(place: Path) -> str:
    """Return why a folder has no result that can be used; an empty text if it has one.

    >>> find_fault(Path("nowhere"))
    'has no result'
    """
    if not (place / DONE).exists() and not _restore(place):
        return MISSING
    return "" if _is_whole(place) else "its kept result is damaged, or belongs to another job"


def _is_whole(place: Path) -> bool:
    """Return whether a folder has all files of its job, as they were written."""
    try:
        done = read_done(place)
        hashes = {name: paths.hash_file(place / name) for name in done["files"]}
        return done["key"] == place.name and done["files"] == hashes
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _restore(place: Path) -> bool:
    """Take a result from data/trained, where `dvc pull` may have put it; say if it was there.

    Several processes may do so at once: each file appears whole, and the marker last.
    """
    for kept in filter(_is_whole, paths.TRAINED.glob(f"*/{place.name}")):
        for name in (*read_done(kept)["files"], DONE):
            with paths.write_atomically(place / name) as draft:
                shutil.copyfile(kept / name, draft)
        return True
    return False


def perform(report: Callable[..., None], job: Job, place: Path, lock_seconds: float = 0.0) -> None:
    """Run a job with one thread, and keep its result in the folder `place`.

    A result that another process has kept in the meantime is not made again. A job that another
    process runs is refused after `lock_seconds`.
    """
    with hold_lock(place, job.name, lock_seconds):
        fault = find_fault(place)
        if fault:
            if fault != MISSING:
                shutil.rmtree(place)
            place.mkdir(parents=True, exist_ok=True)
            _keep(place, {"key": place.name, "job": job.name, **_work(report, job, place)})
        remove_checkpoints(place)
    report(1.0)


def remove_checkpoints(place: Path) -> None:
    """Remove the checkpoints of a finished job, if it has any."""
    shutil.rmtree(place / CHECKPOINTS, ignore_errors=True)


def _work(report: Callable[..., None], job: Job, place: Path) -> dict[str, Any]:
    """Let a job write its files, and return what it took."""
    shares: list[float] = []

    def report_share(share: float, note: str = "") -> None:
        shares.append(share)
        report(share, note)

    commit = fingerprint.find_commit()  # before the files can change
    wall, core = time.monotonic(), time.process_time()
    with one_thread(), single_precision():
        job.work(report_share, place, *job.arguments)
    gpu = torch.cuda.is_initialized()
    return {
        "share": round(1 - shares[0], 4) if shares else 1.0,  # without what its checkpoint had
        "seconds": round(time.monotonic() - wall, 3),
        "core_seconds": round(time.process_time() - core, 3),
        "device": torch.cuda.get_device_name() if gpu else fingerprint.name_processor(),
        "versions": fingerprint.list_versions(),
        "commit": commit,
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
    hashes = {path.relative_to(place).as_posix(): paths.hash_file(path) for path in files}
    hashes.pop(DONE, None)
    with paths.write_atomically(place / DONE) as draft:
        draft.write_text(json.dumps({**done, "files": hashes}, indent=2), encoding="utf-8")


def read_done(place: Path) -> dict[str, Any]:
    """Return what a finished job has noted: its device, versions, commit and seconds."""
    return json.loads((place / DONE).read_text(encoding="utf-8"))
