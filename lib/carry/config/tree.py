"""The tree that a command reads: the clone in which it runs, with the package of that clone."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from carry.config.settings import SettingsError


class OtherTreeError(SettingsError):
    """The package belongs to another clone than the working directory."""

    def __init__(self, own: Path, here: Path) -> None:
        super().__init__(
            f"carry: the package is that of {own}, the working directory is in {here}; expected "
            f"PYTHONPATH={here / 'lib'}, or the environment that `make setup` makes there"
        )
        self.here = here


def is_project(folder: Path) -> bool:
    """Return whether a folder is a clone of this project; others may have a params.yaml too."""
    return (folder / "params.yaml").is_file() and (folder / "lib" / "carry").is_dir()


def find_root(place: Path, start: Path | None = None) -> Path:
    """Return the project's folder: that of the package at `place`, if it lies in a project.

    An installed copy does not; then it is the nearest of the working directory and its parents that
    is a project, else the working directory.

    Args:
        place: the file `lib/carry/config/NAME.py`.
        start: the working directory, if another one.

    Raises:
        OtherTreeError: in another clone, as a `git worktree` or a copy in which DVC runs an
            experiment. The package would read and overwrite the results of its own.

    >>> find_root(Path(__file__)) == Path(__file__).resolve().parents[3]
    True
    """
    own, start = place.resolve().parents[3], start or Path.cwd()
    here = next(filter(is_project, (start, *start.parents)), None)
    if not is_project(own):
        return here or start
    if here is not None and not here.samefile(own):
        raise OtherTreeError(own, here)
    return own


def run_there(error: OtherTreeError, arguments: Sequence[str]) -> NoReturn:
    """Run the command `carry` in this process with the package of the clone it was called in."""
    library, paths = str(error.here / "lib"), os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if library in paths:  # this Python ignores the variable
        sys.exit(str(error))
    # Notebooks' kernels and workers inherit it.
    os.environ["PYTHONPATH"] = os.pathsep.join([library, *filter(None, paths)])
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "carry", *arguments])
