"""DVC as its users know it: its commands change one line, and their tables fit a screen."""

import csv
import difflib
import shutil
from pathlib import Path

import pytest
from dvc.utils.hydra import apply_overrides
from dvc.utils.serialize import load_yaml, modify_yaml
from dvc_render.vega_templates import get_template

from carry.config.paths import ROOT

CHANGES = [
    "++runs.addition_coupled.training.steps=500",
    "++runs.addition_relative_small.model.width=8",
    "++base.training.optimizer=adamw",
    "++variants.addition_relative.base.training.steps=900",
    "++problems.generalize_to_longer.test=500",
]


def changed_lines(change, folder):
    """Return the lines of params.yaml that `dvc exp run -S CHANGE` removes and adds."""
    path = Path(shutil.copy(ROOT / "params.yaml", folder))
    before = path.read_text().splitlines()
    apply_overrides(path, [change])
    after = path.read_text().splitlines()
    lines = difflib.unified_diff(before, after, n=0, lineterm="")
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


@pytest.mark.parametrize("change", CHANGES)
def test_params_one_line(change, tmp_path):
    """params.yaml has the style that DVC writes, so `dvc exp run -S` changes one line.

    DVC writes lists of a block mapping as blocks, loses a comment that follows such a list (so a
    row that ends in one comes before a row, not before a comment), and wraps at 80 columns.
    """
    removed, added = changed_lines(change, tmp_path)
    name, value = change.split("=")
    setting = name.rpartition(".")[2]
    assert f"{setting}: " in removed
    assert f"{setting}: {value}" in added


def test_lock_is_written_by_dvc(tmp_path):
    """DVC writes dvc.lock as it is, so that a stage that runs changes its own lines only."""
    path = Path(shutil.copy(ROOT / "dvc.lock", tmp_path))
    with modify_yaml(path):
        pass
    assert path.read_bytes() == (ROOT / "dvc.lock").read_bytes()


def test_plots_have_their_columns():
    """`dvc plots diff` finds each table of reports/dvc.yaml, its columns, and the template."""
    tables = pictures = 0
    for plot in load_yaml(ROOT / "reports" / "dvc.yaml")["plots"]:
        if isinstance(plot, str):
            pictures += (ROOT / "reports" / plot).is_file()
            continue
        (settings,) = plot.values()
        ((table, column),) = settings["y"].items()
        with open(ROOT / "reports" / table, encoding="utf-8", newline="") as file:
            columns = next(csv.reader(file))
        assert {settings["x"], column, "row"} <= set(columns), table
        assert get_template(settings["template"], ROOT / ".dvc" / "plots").has_anchor("data")
        tables += 1
    assert tables == pictures == 2
