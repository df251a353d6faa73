"""nbval sees a change of a committed result: it runs a notebook in a copy, before and after."""

import os
import shutil
import subprocess
import sys

import pandas as pd
import pytest

from carry.config.paths import ROOT

NOTEBOOK = "notebooks/mcleish2024/does_training_length_matter.ipynb"
TABLE = "reports/results/addition_lengths/cells.parquet"
# What the notebook reads; the rest of the project would take longer to copy than to run.
PARTS = ("lib", "claims", "reports/results", "params.yaml", NOTEBOOK)
PARTS += ("tests/nbval_sanitize.cfg", "tests/compare_notebooks.py")


def run_nbval(folder):
    """Run nbval on the notebook of a copy as `make nbval` does, with the copy's library."""
    command = [sys.executable, "tests/compare_notebooks.py", "--rootdir", str(folder), NOTEBOOK]
    environment = os.environ | {"PYTHONPATH": str(folder / "lib")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_nbval_fails_where_one_number_of_a_result_table_changes(tmp_path):
    for part in PARTS:
        target = tmp_path / part
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, target)
    cells = pd.read_parquet(tmp_path / TABLE)
    cells.to_parquet(tmp_path / TABLE)  # so that only the number differs
    before = run_nbval(tmp_path)
    assert before.returncode == 0, before.stdout

    solved = cells[(cells["set"] == "grid") & (cells["start"] == "1") & (cells["exact"] > 0)]
    longer = solved[(solved["i"] == 12) & (solved["j"] == 12)].index[0]  # 1.5 times as long
    cells.loc[longer, ["exact", "accuracy"]] = [0, 0.0]
    cells.to_parquet(tmp_path / TABLE)
    after = run_nbval(tmp_path)
    assert after.returncode == 1, after.stdout  # pytest's code for failed tests
    assert "Cell outputs differ" in after.stdout and "error" not in after.stdout, after.stdout
