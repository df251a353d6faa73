"""Slices of time: rows in the order of their value, results that are added up, and no GPU."""

import json
import re
import time
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from carry import cli
from carry.config import paths, profiles, run_settings
from carry.config.settings import SettingsError
from carry.jobs import kept
from carry.pages import slices
from carry.training import loop, rows, seeds

ROWS = ["copying_relative", "addition_relative"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a folder for results; the rows are two tiny ones, and a GPU is said to be there."""
    load, profile = run_settings.load_run, profiles.load_profile("smoke")
    profile["order"], profile["rows"] = ROWS[:1], {row: {} for row in reversed(ROWS)}
    profile["models"] = ROWS[:1]
    tiny = {"steps": 4, "batch": 8, "pool": 2, "score_every": 2, "score_problems": 8,
            "snapshot_every": None}  # fmt: skip

    def load_tiny(name, profile):
        run = load(name, "smoke")
        training = run.training.model_copy(update=tiny)
        evaluation = run.evaluation.model_copy(update={"digits": 3, "longest": 3, "far": []})
        # One seed is trained in this process, to which the changes below are confined.
        changes = {"seeds": 1, "training": training, "evaluation": evaluation}
        return run.model_copy(update=changes)

    monkeypatch.setattr(profiles, "load_profile", lambda name: profile)
    monkeypatch.setattr(run_settings, "load_run", load_tiny)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("carry.training.loop.choose_device", lambda run: torch.device("cpu"))
    monkeypatch.setattr("carry.evaluation.trained_models.choose_device", lambda run: "cpu")
    monkeypatch.setattr(slices, "measure_product", lambda: 5e14)
    monkeypatch.setattr(slices, "LEAST_SECONDS", 1.0)
    monkeypatch.setenv("CARRY_PROGRESS", "off")
    monkeypatch.setenv(seeds.DEADLINE, "")  # restored after the test
    return tmp_path


def test_rows_of_the_order_come_first():
    listed = slices.list_by_value("gpu")
    assert listed[:12] == profiles.load_profile("gpu")["order"][:12]
    assert sorted(listed) == sorted(run_settings.list_rows("gpu"))


def test_without_a_gpu_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match=r"^gpu: torch sees no GPU here; expected one, or .*$"):
        cli.run_command(["slice", "--minutes", "1"])
    for minutes in (0, -1, float("nan"), 1e9):
        with pytest.raises(SettingsError, match="minutes: .* does not fit; expected"):
            slices.run_slice(minutes)
    with pytest.raises(
        SettingsError, match="'addition_abacus_2' is unknown, did you mean 'addition_abacus_20'"
    ):
        slices.run_slice(1, "gpu", ["addition_abacus_2"])


def test_tables_of_rows_are_added_and_replaced(tmp_path):
    def table(row, *values):
        return pd.DataFrame({"row": row, "seed": range(len(values)), "value": values})

    for row, values in (("a", (1, 2)), ("b", (3,)), ("a", (4,))):
        slices.add_tables({"cells": table(row, *values)}, tmp_path, row, {0})
    slices.add_tables({"places": table("b", 9)}, tmp_path, "b", {0})
    cells = pd.read_parquet(tmp_path / "cells.parquet")
    assert cells[["row", "value"]].values.tolist() == [["a", 2], ["a", 4]]  # b has none any more
    assert len(pd.read_parquet(tmp_path / "places.parquet")) == 1


def test_runs_are_described_and_not_run_again(project, monkeypatch):
    run = run_settings.load_run(ROWS[0], "smoke").model_copy(update={"seeds": 3})
    monkeypatch.setattr(run_settings, "load_run", lambda row, profile: run)

    def add(seed, settings):
        line = {"row": run.name, "seed": seed, "settings": settings}
        slices.add_runs(pd.DataFrame([line], columns=slices.COLUMNS), run)

    for seed, settings, waiting in (
        (1, "other", [0, 1, 2]),
        (0, slices.describe_settings(run), [1, 2]),  # the line of other settings is gone
        (2, slices.describe_settings(run), [1]),
    ):
        add(seed, settings)
        assert [part.seeds for part in slices.list_waiting("smoke", [run.name])] == [waiting]
        assert slices.list_outdated(run) == ({1} if settings == "other" else set())
    assert slices.read_runs("smoke")["seed"].tolist() == [0, 2]
    add(1, slices.describe_settings(run))
    assert slices.list_waiting("smoke", [run.name]) == []


def test_cores_have_a_seed_each_and_a_gpu_all_seeds_of_a_row(project, monkeypatch):
    first, second = (run_settings.load_run(row, "smoke") for row in ROWS)
    waiting = [slices.Part(first, [2]), slices.Part(second, [0, 1, 2])]
    assert slices.choose_parts(waiting) == waiting[:1]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for cores, chosen in ((1, [[0]]), (3, [[0, 1], [2]]), (9, [[0, 1, 2], [2]])):
        monkeypatch.setattr(slices, "count_workers", lambda cores=cores: cores)
        assert [part.seeds for part in slices.choose_parts(waiting)] == chosen
    batched = second.training.model_copy(update={"batched_seeds": True})
    waiting[1] = slices.Part(second.model_copy(update={"training": batched}), [0, 1, 2])
    for cores, chosen in ((1, [[0, 1, 2]]), (4, [[0, 1, 2], [2]])):
        monkeypatch.setattr(slices, "count_workers", lambda cores=cores: cores)
        assert [part.seeds for part in slices.choose_parts(waiting)] == chosen


@pytest.mark.slow
def test_a_further_seed_is_added_to_those_in_git(project, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(slices, "count_workers", lambda: 1)
    for count in (1, 2):
        run = run_settings.load_run(ROWS[0], "smoke").model_copy(update={"seeds": count})
        monkeypatch.setattr(run_settings, "load_run", lambda row, profile, run=run: run)
        slices.run_slice(5, "smoke", ROWS[:1])
        assert f"{ROWS[0]}: 1 seed in" in capsys.readouterr().out  # the first is not run again
        for table in ("cells", "curves"):
            path = paths.results_folder("smoke", "small_models") / f"{table}.parquet"
            assert {*pd.read_parquet(path)["seed"]} == {*range(count)}
    assert slices.read_runs("smoke")["seed"].tolist() == [0, 1]


@pytest.mark.slow
def test_a_slice_trains_and_scores_rows_and_the_next_goes_on(project, capsys, monkeypatch):
    slices.run_slice(5, "smoke")
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed[:2]] == ROWS
    assert re.match(r"2 of 2 rows have all seeds in .*runs.csv", printed[2])
    runs = slices.read_runs("smoke")
    assert runs["row"].tolist() == ROWS
    assert (runs["product_tflops"] == 500).all() and runs["torch"].nunique() == 1
    published = paths.results_path("smoke", "models").rglob("seed_0.safetensors")
    assert [path.parent.name for path in published] == ROWS[:1]
    cells = pd.read_parquet(paths.results_folder("smoke", "small_models") / "cells.parquet")
    assert {*cells["row"]} == {ROWS[0]} and {*cells["seed"]} == {0}
    monkeypatch.setattr(slices, "run_parts", None)  # nothing is left to run
    slices.run_slice(5, "smoke")
    assert "2 of 2" in capsys.readouterr().out


@pytest.mark.slow
def test_a_row_in_which_a_slice_ends_goes_on_in_the_next(project, capsys, monkeypatch):
    times = iter([0.0, 0.0, 1e12])  # before each step: the third is after the deadline
    clock = SimpleNamespace(time=lambda: next(times), monotonic=time.monotonic)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "time", clock)
        slices.run_slice(5, "smoke")
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith(f"runs.{ROWS[0]}: the time of seed 0 ended at step 2 of 4")
    assert printed[1].startswith("0 of 2 rows have all seeds")
    slices.run_slice(5, "smoke")
    assert capsys.readouterr().out.splitlines()[2].startswith("2 of 2 rows have all seeds")
    (job,) = rows.list_training_jobs(run_settings.load_run(ROWS[0], "smoke"))
    place = kept.find_place(job, paths.jobs_folder("smoke", "train"))
    assert json.loads((place / kept.DONE).read_text())["share"] == 0.5  # the other two steps
