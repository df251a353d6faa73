"""The figures that the notebooks show, from the entries that they write (`Notebook.show`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from carry.config import paths
from carry.config.notebooks import STAGES, find_notebooks
from carry.config.settings import SettingsError


class FigureEntry(NamedTuple):
    """A figure of a notebook: the arguments of `Notebook.show`.

    `number` is its place in the notebook, from 1; `answers` has pairs of a work and its numbered
    item, such as ("mcleish2024", "Fig. 2").
    """

    notebook: str
    number: int
    name: str
    title: str
    caption: str
    answers: tuple[tuple[str, str], ...]


def list_figures(root: Path | None = None) -> dict[str, FigureEntry]:
    """Return the figures of all notebooks by name, in the order of the notebooks.

    >>> list_figures()["loops_without_abacus"].answers
    (('mcleish2024', 'Fig. 7'),)

    Raises:
        SettingsError: for two figures of one name, and for a damaged entry.
    """
    figures: dict[str, FigureEntry] = {}
    root = root or paths.ROOT
    files = (root / "reports" / "figures").rglob("[!.]*.json")
    for entry in sorted(_read_entry(path, path.relative_to(root).as_posix()) for path in files):
        if entry.name in figures:
            raise SettingsError(
                f"notebooks/{entry.notebook}: figure {entry.name!r} is in "
                f"{figures[entry.name].notebook} too; expected another name"
            )
        figures[entry.name] = entry
    return figures


def name_command(notebook: str) -> str:
    """Return the command that draws the figures of a notebook again.

    >>> name_command("mcleish2024/how_far"), name_command("overview")
    ('carry figures mcleish2024', 'carry figures overview')
    """
    return f"carry figures {notebook.partition('/')[0]}"


def find_figure_notebooks(root: Path | None = None) -> dict[str, Path]:
    """Return the notebooks of the project that are no stages by name, with their folder."""
    notebooks = find_notebooks(root)
    return {name: path for name, path in notebooks.items() if not name.startswith(f"{STAGES}/")}


def read_question(path: Path) -> str:
    """Return the first heading of a notebook.

    >>> read_question(find_figure_notebooks()["mcleish2024/how_far"])
    'How far does it go?'
    """
    first = json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"]
    return "".join(first).splitlines()[0].lstrip("# ").strip()


def _read_entry(path: Path, where: str) -> FigureEntry:
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
        pairs = tuple(_split_answer(answer, entry["notebook"]) for answer in entry["answers"])
        return FigureEntry(**{**entry, "answers": pairs})
    except (ValueError, LookupError, TypeError) as error:  # as a conflict of a merge leaves it
        raise SettingsError(
            f"{where}: damaged ({error}); expected what `carry figures` writes"
        ) from None


def _split_answer(answer: str, source: str) -> tuple[str, str]:
    """Return the work and the item of an answer; the work is the notebook's, if it names none."""
    work, _, item = answer.partition(" ")
    return (work, item) if work[-1:].isdigit() else (source.partition("/")[0], answer)
