"""`carry run`: what has no results is trained and scored once, and added to what is in git."""

import os
import shutil

import numpy as np
import pandas as pd
import pytest

from carry import results
from carry.config import params, paths
from carry.config.settings import SettingsError
from carry.data.tables import write_tables
from carry.experiments import resolve
from carry.experiments.base import SMOKE, merge, row
from carry.runs import run, tables
from carry.training import loop
from carry.training.jobs import find_trained

TINY = merge(SMOKE, dict(seeds=2, evaluation=dict(digits=3)))
MINE = row("mine", "tests", "Mine", **TINY)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a function that sets the rows of a project without results, and one that counts."""
    for name in ("STORE", "REPORTS", "PROBLEMS"):
        monkeypatch.setattr(paths, name, tmp_path / name.lower())
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "TRAINED", tmp_path / "data" / "trained")
    monkeypatch.setenv("CARRY_PROGRESS", "off")
    monkeypatch.setattr(params, "load_params", lambda: params.Params(train={"tests": "all"}))

    def use(*rows):
        monkeypatch.setattr(resolve, "load_rows", lambda: {row.name: row for row in rows})
        monkeypatch.setattr(run, "load_rows", lambda: {row.name: row for row in rows})
        results.read_runs.cache_clear()

    def count(kind="train"):
        return len([*(paths.STORE / kind).glob("*/done.json")])

    use(MINE)
    yield use, count
    results.read_runs.cache_clear()


def read(name):
    return pd.read_parquet(paths.results_folder("tests") / f"{name}.parquet")


def test_results_are_added_with_their_settings_and_nothing_runs_twice(home, capsys):
    use, count = home
    run.run_rows(["tests"])
    assert count() == count("evaluate") == 2
    assert {*read("cells")["seed"]} == {*read("runs")["seed"]} == {0, 1}
    (stored,) = results.read_runs().values()
    assert stored.training == resolve.load_run("mine").training and stored.label == "Mine"
    assert "mine: all seeds" in capsys.readouterr().out
    before = read("runs")
    assert before["commit"].all() and before["torch"].all() and (before["seconds"] >= 0).all()
    run.run_rows(["mine"])
    assert count() == 2 and read("runs").equals(before)


def test_a_default_a_name_and_a_label_make_no_other_run(home, capsys):
    use, count = home
    run.run_rows(["mine"], seeds=[0])
    assert capsys.readouterr().out.endswith("mine: seed 0 in reports/results/tests\n")
    use(row("mine", "tests", "Other words", **merge(TINY, dict(training=dict(clip=1.0)))),
        row("yours", "others", **TINY))  # fmt: skip
    run.run_rows(["mine", "yours"], seeds=[0])
    assert count() == 1
    assert {*pd.read_parquet(paths.results_folder("others") / "cells.parquet")["row"]} == {"yours"}


def test_results_with_other_settings_leave_with_the_first_new_seed(home, capsys):
    """A row has one set of settings, in results and analyses; what is not run yet stays."""
    use, count = home
    run.run_rows(["mine"])
    old = pd.DataFrame({"row": "mine", "scale": "laptop", "seed": [0, 1], "n": 1})
    folder = paths.analyses_folder("tests")
    tables.add_lines({"old": old}, folder, set())
    use(row("mine", "tests", **merge(TINY, dict(training=dict(learning_rate=0.001)))))
    assert tables.list_outdated(resolve.load_run("mine")) == {0, 1}
    run.run_rows(["mine"], seeds=[1])
    assert "mine: seed 0 had other settings, and left the tables" in capsys.readouterr().out
    assert count() == 3 and read("runs")["seed"].tolist() == [1] == [*{*read("cells")["seed"]}]
    assert not (folder / "old.parquet").exists()
    assert tables.list_done(resolve.load_run("mine")) == {1}


def test_every_row_gets_its_first_seed_before_any_second(home, monkeypatch):
    use, _ = home
    use(MINE, MINE.but("yours", training=dict(digits=2)))
    order = []
    score = run._score
    monkeypatch.setattr(
        run,
        "_score",
        lambda runs, seeds, label: order.append((label, seeds)) or score(runs, seeds, label),
    )
    run.run_rows(["tests"])
    assert order == [("mine", [0]), ("yours", [0]), ("mine", [1]), ("yours", [1])]


def test_a_time_that_is_over_ends_at_a_checkpoint_and_the_next_call_goes_on(home, monkeypatch):
    use, count = home
    use(MINE.but("mine", seeds=1, training=dict(steps=40, checkpoint_every=None)))
    monkeypatch.setattr(run, "LEAST_SECONDS", -10.0)
    run.run_rows(["mine"], minutes=1e-9)
    assert count() == 0 and [*paths.STORE.rglob("checkpoints/*.safetensors")]
    run.run_rows(["mine"])
    assert count() == 1


def test_a_stage_trains_the_seeds_that_params_say_and_keeps_the_others(home, monkeypatch):
    use, count = home
    run.run_rows(["mine"])
    monkeypatch.setattr(
        params, "load_params", lambda: params.Params(seeds=1, train={"tests": ["mine"]})
    )
    runs = run.choose_runs()
    run.train(runs)
    run.evaluate(runs)
    assert count() == 2 and {*read("cells")["seed"]} == {0, 1}
    (kept,) = (paths.ROOT / "data/trained/mine").iterdir()
    assert {"curve.parquet", "seed_0.safetensors", "done.json"} == {*os.listdir(kept)}


def test_a_clone_that_pulled_the_trained_models_trains_none(home, monkeypatch):
    """The store stays where it is; data/trained is what DVC pushes and pulls."""
    use, count = home
    monkeypatch.setattr(params, "load_params", lambda: params.Params(train={"tests": ["mine"]}))
    runs = run.choose_runs()
    before = run.train(runs)
    run.evaluate(runs)
    settings = read("runs")
    shutil.rmtree(paths.STORE)
    trained = []
    monkeypatch.setattr(loop.Trainer, "train", lambda *_, **__: trained.append(1))
    pd.testing.assert_frame_equal(run.train(runs), before)
    run.evaluate(runs)
    assert not trained and count() == 2
    pd.testing.assert_frame_equal(read("runs"), settings)
    damaged = next(paths.TRAINED.glob("mine/*/seed_0.safetensors"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    shutil.rmtree(paths.STORE)
    assert find_trained(runs[0], 0) is None, "a damaged copy is no result"
    assert find_trained(runs[0], 1).is_relative_to(paths.STORE)


def test_lengths_between_trained_ones_are_printed_by_themselves():
    equal = resolve.load_run("addition_equal_learned_gap")
    assert equal.trained_lengths() == [1, 2, 3, 4, 7]
    sizes = [4, 5, 7, 8]
    cells = pd.DataFrame({"row": equal.name, "start": "1", "set": "equal", "i": sizes, "j": sizes,
                          "trained": 7, "n": 10, "exact": [10, 2, 10, 1]})  # fmt: skip
    printed = run.describe_accuracy(cells, equal)
    assert printed == "in distribution 100%, interpolation 20.0%, extrapolation 10.0%"


def test_names_are_refused_before_any_work(home):
    with pytest.raises(SettingsError, match="^run: 'mien' is unknown, did you mean"):
        run.run_rows(["mine", "mien"])
    with pytest.raises(SettingsError, match="^mine: scale: 'paper' is unknown, "):
        run.run_rows(["mine"], scale="paper")
    assert not paths.STORE.exists()


def test_lines_of_other_places_stay(home):
    folder = paths.results_folder("tests")
    old = pd.DataFrame(
        {"row": ["a", "a", "b"], "scale": "laptop", "seed": [0, 1, 0], "n": [1, 2, 3]}
    )
    tables.add_lines({"cells": old, "gone": old}, folder, set())
    new = pd.DataFrame({"row": ["a"], "scale": "laptop", "seed": [1], "n": [9]})
    tables.add_lines({"cells": new}, folder, {("a", "laptop", 1)})
    assert pd.read_parquet(folder / "cells.parquet")["n"].tolist() == [1, 3, 9]
    assert pd.read_parquet(folder / "gone.parquet")["n"].tolist() == [1, 3]


def test_noise_of_a_processor_changes_no_file(home):
    """New lines are rounded; those of other seeds, as git has them, are not."""
    random = np.random.default_rng(0)
    counts, shares = random.integers(0, 10**9, size=1000), random.random(1000)
    made = pd.DataFrame({"row": "a", "scale": "laptop", "seed": 1, "hits": counts.astype(float)})
    files = []
    for noise in (0, 1e-14):
        folder = paths.results_folder(f"noise_{noise}")
        old = pd.DataFrame(
            {"row": "a", "scale": "laptop", "seed": [0], "hits": 1.0, "share": 1 / 3}
        )
        write_tables({"cells": old}, folder)
        noisy = shares * (1 + noise * random.uniform(-1, 1, size=1000))
        tables.add_lines({"cells": made.assign(share=noisy)}, folder, {("a", "laptop", 1)})
        files.append((folder / "cells.parquet").read_bytes())
    assert files[0] == files[1]
    read = pd.read_parquet(folder / "cells.parquet")
    assert read["hits"].tolist() == [1, *counts] and read["share"][0] == 1 / 3
    assert (read["share"][1:] - shares).abs().max() < 1e-6


def test_a_kill_between_two_tables_leaves_no_seed_without_its_cells(home, monkeypatch):
    with monkeypatch.context() as patched:
        to_parquet = pd.DataFrame.to_parquet
        written = []

        def write(table, path, **options):
            if written:
                raise KeyboardInterrupt
            written.append(path)
            to_parquet(table, path, **options)

        place = dict(row=["mine"], scale="laptop", seed=[0])
        made = {name: pd.DataFrame(place) for name in ("runs", "cells", "curves")}
        patched.setattr(pd.DataFrame, "to_parquet", write)
        with pytest.raises(KeyboardInterrupt):
            tables.add_lines(made, paths.results_folder("tests"), {("mine", "laptop", 0)})
    assert [path.name for path in paths.results_folder("tests").glob("*")] == ["cells.parquet"]


def test_a_damaged_table_is_refused_in_one_line_before_any_work(home):
    path = paths.results_folder("tests") / "runs.parquet"
    path.parent.mkdir(parents=True)
    path.write_text("damaged")
    with pytest.raises(SettingsError, match="^results.tests: .*runs.parquet cannot be read"):
        run.run_rows(["mine"])
    assert not paths.STORE.exists()


def test_another_scale_leaves_the_weights_in_git(home):
    use, _ = home
    use(MINE.but("mine", seeds=1, publish=True, smoke=dict(training=dict(steps=5))))
    run.run_rows(["mine"], "smoke")
    assert not paths.models_folder("mine").exists()
    run.run_rows(["mine"])
    (weights,) = paths.models_folder("mine").iterdir()
    before = weights.read_bytes()
    run.run_rows(["mine"], "smoke")
    assert weights.read_bytes() == before
