"""The complete experiment in one file runs: it trains, scores and draws."""

import runpy
from pathlib import Path

from carry.config import paths

FILE = Path(__file__).parent.parent / "examples" / "two_schemes.py"


def test_the_example_trains_scores_and_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "STORE", tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    scores = runpy.run_path(str(FILE))["main"](steps=4, seeds=1)
    assert (tmp_path / "two_schemes.png").stat().st_size > 1000
    for _, own in scores.groupby("row"):
        assert [*own["digits"]] == [*range(1, 13)]
    assert {*scores["row"]} == {"index", "places"}
    assert scores["n"].min() >= 20
