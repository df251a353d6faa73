"""Paths of the project, a clone with params.yaml."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def find_root(place: Path) -> Path:
    """Return the project's folder: the one with the package at `place`, if it lies in a project.

    An installed copy does not; then it is the nearest of the working directory and its parents with
    params.yaml, else the working directory (see `carry.config.profiles.find_params`).

    >>> find_root(Path(__file__)) == ROOT
    True
    """
    start = Path.cwd()
    folders = (*place.resolve().parents[3:4], start, *start.parents)
    return next((folder for folder in folders if (folder / "params.yaml").is_file()), start)


ROOT = find_root(Path(__file__))
# Folders among the results of studies; no study may have these names.
ANALYSES, VARIANTS = "analyses", "variants"
# Profiles whose results are in git.
COMMITTED = ("cpu", "full", "baselines", "long", "tuning", "gpu")
PUBLISHED = "full"  # the profile whose weights are in git


def data_path(profile: str, *parts: str) -> Path:
    """Return a path below data/, where the pipeline keeps files that it can make again.

    >>> data_path("cpu", "runs").relative_to(ROOT).as_posix()
    'data/cpu/runs'
    """
    return ROOT.joinpath("data", profile, *parts)


def reports_path(profile: str, *parts: str) -> Path:
    """Return a path for figures, claims and site: in reports/ for the profile `cpu`, else in data/.

    >>> reports_path("smoke", "figures").relative_to(ROOT).as_posix()
    'data/smoke/reports/figures'
    """
    top = ROOT / "reports" if profile == "cpu" else data_path(profile, "reports")
    return top.joinpath(*parts)


def results_path(profile: str, kind: str, *parts: str) -> Path:
    """Return a path for the `results`, `certificates` or `models` of a profile.

    Those of a committed profile are in reports/, those of another in data/.

    >>> results_path("full", "models").relative_to(ROOT).as_posix()
    'reports/models/full'
    >>> results_path("smoke", "results").relative_to(ROOT).as_posix()
    'data/smoke/reports/results/smoke'
    """
    top = ROOT / "reports" if profile in COMMITTED else data_path(profile, "reports")
    return top.joinpath(kind, profile, *parts)


def run_folder(profile: str, study: str, row: str) -> Path:
    """Return the folder of a trained row: weights, snapshots, curves and settings.

    >>> run_folder("cpu", "parity", "parity_nope").relative_to(ROOT).as_posix()
    'data/cpu/runs/parity/parity_nope'
    """
    return data_path(profile, "runs", study, row)


def jobs_folder(profile: str, stage: str) -> Path:
    """Return the folder of the kept results of jobs, which DVC ignores."""
    return data_path(profile, "jobs", stage)


def results_folder(profile: str, study: str) -> Path:
    """Return the folder with the result tables of a study, one file for all its rows.

    >>> results_folder("full", "parity").relative_to(ROOT).as_posix()
    'reports/results/full/parity'
    """
    return results_path(profile, "results", study)


def analyses_folder(profile: str, study: str) -> Path:
    """Return the folder with the tables of the analyses of a study."""
    return results_path(profile, "results", ANALYSES, study)


def variants_folder(profile: str, name: str) -> Path:
    """Return the folder with the tables of a set of variants."""
    return results_path(profile, "results", VARIANTS, name)


def certificate_file(profile: str, study: str, row: str) -> Path:
    """Return the file of a row's certificate.

    >>> certificate_file("cpu", "parity", "parity_nope").relative_to(ROOT).as_posix()
    'reports/certificates/cpu/parity/parity_nope.json'
    """
    return results_path(profile, "certificates", study, f"{row}.json")


def models_folder(profile: str, study: str, row: str) -> Path:
    """Return the folder with the published weights of a row.

    >>> models_folder("cpu", "parity", "parity_nope").relative_to(ROOT).as_posix()
    'reports/models/cpu/parity/parity_nope'
    """
    return results_path(profile, "models", study, row)


def figures_folder(profile: str, notebook: str) -> Path:
    """Return the folder with the figures of a notebook.

    >>> figures_folder("cpu", "mcleish2024/how_far").relative_to(ROOT).as_posix()
    'reports/figures/mcleish2024/how_far'
    """
    return reports_path(profile, "figures", *notebook.split("/"))


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
