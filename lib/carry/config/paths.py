"""Every path of the project, the same from the root, a notebook's folder or anywhere else."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]  # the package is installed editable, in lib/
# Among results, whose other folders are called as rows.
ANALYSES, VARIANTS = "analyses", "variants"


def data_path(profile: str, *more: str) -> Path:
    """Return a place under data/ where the pipeline keeps what it can make again.

    >>> data_path("cpu", "runs").relative_to(ROOT).as_posix()
    'data/cpu/runs'
    """
    return ROOT.joinpath("data", profile, *more)


def reports_path(profile: str, *more: str) -> Path:
    """Return a place for results: reports/ for the `cpu` profile, under data/ for any other.

    >>> reports_path("smoke", "figures").relative_to(ROOT).as_posix()
    'data/smoke/reports/figures'
    """
    top = ROOT / "reports" if profile == "cpu" else data_path(profile, "reports")
    return top.joinpath(*more)


def display_path(path: Path) -> str:
    """Return a path as it may be printed: relative to the project, the same on every machine."""
    return Path(path).resolve().relative_to(ROOT).as_posix()


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to, which takes the place of `path` only on success.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "deep" / "note.txt"
    >>> with write_atomically(target) as draft:
    ...     _ = draft.write_text("whole")
    >>> target.read_text()
    'whole'
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
        os.chmod(name, 0o666 & ~mask)  # mkstemp makes private files; results are for everybody
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
