"""DVC as its users know it: its commands change one line, and their tables fit a screen."""

import difflib
import shutil
from pathlib import Path

import pytest
from dvc.utils.hydra import apply_overrides

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
