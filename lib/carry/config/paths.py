"""Paths of the project, a clone with params.yaml and the library."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from carry.config.settings import SettingsError
from carry.config.tree import find_root

ROOT = find_root(Path(__file__))


def writable(path: Path) -> Path:
    """Return where a file of the project is written that can be made again at any time.

    In a read-only project, such as one in the image of a container, it is in a temporary folder.

    >>> writable(ROOT / "data") == ROOT / "data"
    True
    """
    if os.access(ROOT, os.W_OK):
        return path
    user = os.getuid() if hasattr(os, "getuid") else "user"
    key = hashlib.sha256(os.fsencode(ROOT)).hexdigest()[:8]
    return Path(tempfile.gettempdir()) / f"carry-{user}-{key}" / path.relative_to(ROOT)


STORE = writable(ROOT / "data" / "store")  # results of jobs, which DVC ignores
TRAINED = ROOT / "data" / "trained"  # results of trainings, which DVC keeps
PROBLEMS = writable(ROOT / "data" / "problems")  # problem sets
INSTALLED = Path(__file__).parents[1] / "weights"  # of the one row that a wheel brings
REPORTS = ROOT / "reports"  # results, weights, certificates, figures and pages: in git
PROOFS = REPORTS / "proofs.json"  # what Coq has checked


def results_folder(study: str) -> Path:
    """Return the folder with the result tables of a study, one file for all its rows.

    >>> results_folder("parity").relative_to(ROOT).as_posix()
    'reports/results/parity'
    """
    return REPORTS / "results" / study


def analyses_folder(study: str) -> Path:
    """Return the folder with the tables of the analyses of a study."""
    return REPORTS / "analyses" / study


def certificate_file(row: str) -> Path:
    """Return the file of a row's certificate in git."""
    return REPORTS / "certificates" / f"{row}.json"


def models_folder(row: str) -> Path:
    """Return the folder with the weights of a row that are in git."""
    return REPORTS / "models" / row


def figures_folder(notebook: str) -> Path:
    """Return the folder with the figures of a notebook.

    >>> figures_folder("mcleish2024/how_far").relative_to(ROOT).as_posix()
    'reports/figures/mcleish2024/how_far'
    """
    return REPORTS.joinpath("figures", *notebook.split("/"))


def executed_file(notebook: str) -> Path:
    """Return the executed copy of a notebook; each is in a folder.

    >>> executed_file("pipeline/train").relative_to(ROOT).as_posix()
    'data/executed/pipeline/train.ipynb'
    >>> executed_file("overview").relative_to(ROOT).as_posix()
    'data/executed/overview/overview.ipynb'
    """
    folder, _, name = notebook.rpartition("/")
    return ROOT.joinpath("data", "executed", *(folder or name).split("/"), f"{name}.ipynb")


def require_writable() -> None:
    """Refuse a read-only project, before work whose results would be added to it."""
    if not os.access(ROOT, os.W_OK):
        raise SettingsError(f"{ROOT}: the project is read-only; expected a writable clone of it")


def display_path(path: Path) -> str:
    """Return a path relative to the project, so that printed paths are equal on all machines.

    Links are not followed: `data/store` may be on another disk. A path elsewhere stays as it is.

    >>> display_path(ROOT / "data" / "store"), display_path(Path("/etc/hosts"))
    ('data/store', '/etc/hosts')
    """
    path = Path(os.path.abspath(path))
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()


def socket_folder() -> str:
    """Return the folder of temporary files, or /tmp if its name is too long for sockets.

    Systems refuse a socket whose path has more than 103 or 107 letters.

    >>> len(socket_folder()) <= 60
    True
    """
    folder = tempfile.gettempdir()
    return folder if len(folder) <= 60 else "/tmp"


def write_file(path: Path, content: str | bytes) -> None:
    """Write a text or bytes by `write_atomically`."""
    with write_atomically(path) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


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


def hash_file(path: Path) -> str:
    """Return the SHA-256 of the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_path(path: str | Path) -> None:
    """Write a file, or the entries of a folder, from memory to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
