"""What is wrong, or misprinted, in the works: claims/errata.yaml as a list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from carry.config import paths
from carry.config.settings import Settings
from carry.config.yaml_files import read_yaml

FILE = paths.ROOT / "claims" / "errata.yaml"
Text = Annotated[str, Field(min_length=1)]


class Erratum(Settings):
    """A place in a work, what stands there, what is right, and which notebook shows it."""

    work: Text
    place: Text
    printed: Text
    right: Text
    notebook: str = ""


class ErrataFile(Settings):
    """The content of the file."""

    errata: list[Erratum]


def load_errata(path: Path = FILE) -> list[Erratum]:
    """Return the errata, in the order of the file.

    >>> load_errata()[0].work
    'mcleish2024'
    """
    return ErrataFile.parse(read_yaml(path), "errata").errata


def render_errata(folder: str = "../notebooks/") -> str:
    """Return the errata as a Markdown list, with links into the folder of notebooks."""
    lines = []
    for erratum in load_errata():
        line = f"* {erratum.work}, {erratum.place}: {erratum.printed} {erratum.right}"
        if erratum.notebook:
            line += f" ([shown]({folder}{erratum.notebook}.ipynb))"
        lines.append(line)
    return "\n".join(lines)
