"""The figures that the notebooks show, read from their cells without running them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import nbformat

from carry.config import paths
from carry.config.settings import SettingsError

STAGES = "pipeline"  # the folder of notebooks that are stages, without figures
NOTHING = ast.Constant(None)


class FigureEntry(NamedTuple):
    """A figure of a notebook: the arguments of `Notebook.show`.

    Fields:
        notebook: the name of the notebook, with its folder.
        name: of the figure, and of its files.
        title, caption: the texts of the figure.
        answers: pairs of a work and its numbered item, such as ("mcleish2024", "Fig. 2").
    """

    notebook: str
    name: str
    title: str
    caption: str
    answers: tuple[tuple[str, str], ...]


def list_figures(folder: Path | None = None) -> dict[str, FigureEntry]:
    """Return the figures of all notebooks by name, in the order of the notebooks.

    Args:
        folder: that of the notebooks (default: the project's).

    >>> list_figures()["training_length_by_region"].answers
    (('mcleish2024', 'Fig. 8'),)

    Raises:
        SettingsError: for a text that is not literal, and for two figures of one name.
    """
    figures: dict[str, FigureEntry] = {}
    for source, path in find_figure_notebooks(folder).items():
        for entry in _read_figures(source, path, path.stat().st_mtime_ns):
            if entry.name in figures:
                raise SettingsError(
                    f"notebooks/{source}: figure {entry.name!r} is in "
                    f"{figures[entry.name].notebook} too; expected another name"
                )
            figures[entry.name] = entry
    return figures


def find_figure_notebooks(folder: Path | None = None) -> dict[str, Path]:
    """Return the notebooks that are no stages by name, with their folder."""
    folder = folder or paths.ROOT / "notebooks"
    files = [*folder.glob("[!.]*.ipynb"), *folder.glob("[!.]*/[!.]*.ipynb")]
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for path in sorted(files)
        if path.parent.name != STAGES
    }


def list_shown(code: str) -> list[str]:
    """Return the names of the figures that a cell shows.

    >>> list_shown('notebook.show(plots.draw_bars(table), "bars", table, title="Sums")')
    ['bars']
    """
    return [_evaluate(call.args[1], "name") for call in _find_calls(code)]


def read_question(path: Path) -> str:
    """Return the first heading of a notebook.

    >>> read_question(find_figure_notebooks()["mcleish2024/how_far"])
    'How far does it go?'
    """
    first = nbformat.read(path, as_version=4).cells[0].source
    return first.splitlines()[0].lstrip("# ").strip()


@cache  # by the time of the last change
def _read_figures(source: str, path: Path, changed: int) -> tuple[FigureEntry, ...]:
    """Return the figures that the cells of a notebook show."""
    entries = []
    for cell in nbformat.read(path, as_version=4).cells:
        for call in _find_calls(cell.source) if cell.cell_type == "code" else ():
            place = f"notebooks/{source}"
            name = _evaluate(call.args[1], f"{place}: name")
            arguments = {word.arg: word.value for word in call.keywords}
            texts = {
                key: _evaluate(arguments.get(key, NOTHING), f"{place}: {name}.{key}")
                for key in ("title", "caption", "answers")
            }
            for key in ("title", "caption"):
                if not isinstance(texts[key], str):
                    raise SettingsError(f"{place}: {name}.{key}: missing; expected text")
            title, caption = (" ".join(texts[key].split()) for key in ("title", "caption"))
            pairs = tuple(_split_answer(answer, source) for answer in texts["answers"] or ())
            entries.append(FigureEntry(source, name, title, caption, pairs))
    return tuple(entries)


def _find_calls(code: str) -> list[ast.Call]:
    """Return the calls of `notebook.show` in a cell."""
    lines = [line for line in code.splitlines() if not line.startswith(("%", "!"))]
    return [
        node
        for node in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr == "show" and len(node.args) == 3
    ]


def _evaluate(node: ast.expr, place: str) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise SettingsError(f"{place}: {ast.unparse(node)} is not literal; expected text") from None


def _split_answer(answer: str, source: str) -> tuple[str, str]:
    """Return the work and the item of an answer; the work is the notebook's, if it names none.

    >>> _split_answer("Fig. 2", "mcleish2024/how_far"), _split_answer("cho2025 Fig. 3", "overview")
    (('mcleish2024', 'Fig. 2'), ('cho2025', 'Fig. 3'))
    """
    work, _, item = answer.partition(" ")
    return (work, item) if work[-1:].isdigit() else (source.partition("/")[0], answer)
