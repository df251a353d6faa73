"""The figures of the notebooks are what their tables say, each once."""

from collections import defaultdict

import nbformat
import numpy as np
import pandas as pd
import pytest
import seaborn as sns

from carry import results
from carry.config import paths
from carry.plots import index

pytestmark = pytest.mark.usefixtures("closed_figures")
CERTIFICATES = paths.REPORTS / "figures/every_length/is_it_proved/certificates.parquet"
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


def draw_certificates(leads):
    """Return the values on the x axis that the notebook draws of some leads, and its left end."""
    (cell,) = (cell for cell in read_cells("every_length/is_it_proved") if "edge =" in cell.source)
    names = {"leads": leads, "sns": sns}
    exec(cell.source, names)
    axes = names["grid"].ax
    drawn = np.concatenate([dots.get_offsets()[:, 0] for dots in axes.collections])
    return drawn[np.isfinite(drawn)], axes.get_xlim()[0]


@pytest.mark.parametrize("wrong", [0, 2, None])
def test_only_seeds_that_are_not_proved_are_at_the_left_edge(wrong):
    """A certified seed may have little slack; after few steps of training no lead is positive."""
    leads = pd.read_parquet(CERTIFICATES)
    unproved = leads["logits"] <= 0
    assert unproved.sum() == (results.read_certificates()["verdict"] != "exact").sum()
    leads.loc[leads.index[~unproved][:wrong], "logits"] = -1.0
    drawn, edge = draw_certificates(leads)
    assert len(drawn) == len(leads)
    assert (drawn <= edge).sum() == (leads["logits"] <= 0).sum()
