"""The figures of the notebooks are what their tables say, each once."""

from collections import defaultdict

import nbformat

from carry.config import paths
from carry.plots import index

TWICE = {"architectures", "three_architectures"}  # one drawing, in the main notebook and its own


def read_cells(name):
    """Return the cells of code of a notebook."""
    cells = nbformat.read(index.find_figure_notebooks()[name], as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code"]


def test_no_two_figures_are_the_same_picture():
    """A row without results must not make one figure out of two."""
    shown = defaultdict(set)
    for entry in index.list_figures().values():
        picture = paths.figures_folder(entry.notebook) / f"{entry.name}.svg"
        if picture.exists():
            shown[picture.read_bytes()].add(entry.name)
    equal = [figures for figures in shown.values() if len(figures - TWICE) > 1]
    assert len(shown) > 50 and not equal


def test_no_file_is_left_of_a_figure_that_no_notebook_shows():
    entries = index.list_figures()
    code = {entry.notebook: "" for entry in entries.values()}
    for name in code:
        code[name] = "\n".join(cell.source for cell in read_cells(name))
    for entry in entries.values():
        assert f'"{entry.name}"' in code[entry.notebook], entry
    for path in (paths.REPORTS / "figures").rglob("*.*"):
        assert path.parent == paths.figures_folder(entries[path.stem].notebook), path
