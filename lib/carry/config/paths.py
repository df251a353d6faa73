"""Paths of the project, which do not depend on the working directory."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]  # the package is installed editable, in lib/
# Folders among the results of rows; no row may have these names.
ANALYSES, VARIANTS = "analyses", "variants"


def data_path(profile: str, *parts: str) -> Path:
    """Return a path below data/, where the pipeline keeps files that it can make again.

    >>> data_path("cpu", "runs").relative_to(ROOT).as_posix()
    'data/cpu/runs'
    """
    return ROOT.joinpath("data", profile, *parts)


def reports_path(profile: str, *parts: str) -> Path:
    """Return a path for results: below reports/ for the profile `cpu`, else below data/.

    >>> reports_path("smoke", "figures").relative_to(ROOT).as_posix()
    'data/smoke/reports/figures'
    """
    top = ROOT / "reports" if profile == "cpu" else data_path(profile, "reports")
    return top.joinpath(*parts)


def display_path(path: Path) -> str:
    """Return a path relative to the project, so that printed paths are equal on all machines."""
    return Path(path).resolve().relative_to(ROOT).as_posix()


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path, and move that file to `path` after the block succeeds.

    The file and its folder are synced, so that after a power failure `path` has either its old or
    its new content. If the block raises, `path` stays as it was.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "deep" / "note.txt"
    >>> with write_atomically(target) as draft:
    ...     _ = draft.write_text("complete", encoding="utf-8")
    >>> target.read_text(encoding="utf-8")
    'complete'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays, because some writers choose their format by it.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    try:
        yield Path(name)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # mkstemp makes private files; results are for all users
        sync_path(name)
        os.replace(name, path)
        with contextlib.suppress(OSError):  # not every file system syncs folders
            sync_path(path.parent)
    finally:
        Path(name).unlink(missing_ok=True)


def sync_path(path: str | Path) -> None:
    """Write a file, or the entries of a folder, from memory to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
