"""The complete experiment in one file runs: it trains, scores and draws."""

import subprocess
import sys
from pathlib import Path

import pandas as pd

FILE = Path(__file__).parent.parent / "examples" / "two_schemes.py"
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
