"""The complete experiments in one file run: they train, score and draw."""

import runpy
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

EXAMPLES = Path(__file__).parent.parent / "examples"
FILE = EXAMPLES / "two_schemes.py"
# A script without `if __name__ == "__main__"`: the workers must not run it again.
SCRIPT = f"""
import runpy
from pathlib import Path
from carry.config import paths
paths.STORE = Path("store").absolute()
with open("runs.txt", "a") as file:
    file.write("run ")
main = runpy.run_path({str(FILE)!r})["main"]
main(steps=4, seeds=1, picture=Path("two_schemes.png")).to_csv("scores.csv")
"""


def test_the_example_trains_scores_and_draws(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT)
    subprocess.run([sys.executable, str(script)], check=True, cwd=tmp_path)
    assert (tmp_path / "runs.txt").read_text() == "run "
    assert (tmp_path / "two_schemes.png").stat().st_size > 1000
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert {*scores["row"]} == {"index", "places"}
    for _, own in scores.groupby("row"):
        assert [*own["digits"]] == [*range(1, 13)]
    assert scores["n"].min() >= 20


@pytest.mark.parametrize("name", ["gpt2_abacus", "torch_abacus"])
def test_models_of_others_train_with_abacus_ids(name, capsys, monkeypatch):
    """A few steps lower the loss, and longer sums than any trained one are scored."""
    monkeypatch.syspath_prepend(EXAMPLES)  # as Python does for a script
    with torch.random.fork_rng():
        example = runpy.run_path(str(EXAMPLES / f"{name}.py"))
        scores = example["main"](steps=101, batch=16, count=5)
    first, last = (float(line.split()[-1]) for line in capsys.readouterr().out.splitlines())
    assert last < first - 0.5
    assert min(scores) < example["LONGEST"] < max(scores)
    assert all(0 <= share <= 1 for share in scores.values())
