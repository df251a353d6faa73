"""Result tables are read as settings say, and scores of seeds are those of the cells."""

import numpy as np
import pandas as pd
import pytest

from carry import results
from carry.claims.measurements import summarise_seeds
from carry.config import paths
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.data.tables import FORMER_START
from carry.evaluation.intervals import seed_interval
from carry.evaluation.scoring import score_system
from carry.experiments.resolve import load_run
from carry.interpretability import attention
from carry.models.constructions.adder import build_adder
from carry.models.identity import describe_run
from made_up import answers, cells
from made_up import results as write_results

ROWS = ["addition_nope", "addition_abacus", "addition_coupled", "addition_relative"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Go to a project without results."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "REPORTS", tmp_path / "reports")
    results.read_runs.cache_clear()
    yield tmp_path
    results.read_runs.cache_clear()


def test_intervals_have_the_seed_as_their_unit():
    """Ten times the problems of the same seeds tell no more; one seed tells nothing of others."""
    made = pd.DataFrame({"row": "a", "seed": range(3), "n": 40, "exact": [30, 34, 37]})
    more = made.assign(n=400, exact=10 * made["exact"])
    few, many = (results.average_seeds(table, ["row"]) for table in (made, more))
    ends = ["accuracy", "low", "high"]
    assert few[ends].equals(many[ends]) and many["n"].item() == 10 * few["n"].item() == 1200
    accuracies = made["exact"] / made["n"]
    claimed = summarise_seeds(made.assign(value=accuracies), "mean_over_seeds")
    low, high = seed_interval(accuracies)
    assert few[ends].iloc[0].tolist() == [accuracies.mean(), low, 1.0] and high > 1
    assert claimed[:3] == tuple(few[ends].iloc[0])
    one = results.average_seeds(made.query("seed == 1"), ["row"]).iloc[0]
    assert one["accuracy"] == 34 / 40 and one[["low", "high"]].isna().all()


def test_of_rows_without_trained_lengths_it_is_not_known_whether_they_have_learned():
    made = cells(ROWS[:2], grid=12, each=1, equal=1, share=lambda *_: 0.0)
    assert results.find_unlearned(made) == {*ROWS[:2]}
    assert results.find_unlearned(made[made["i"] > made["trained"]]) == set()


def test_scores_have_the_papers_start_unless_they_ask_for_another():
    rows = ["addition_abacus", "addition_nope"]
    made = cells(rows, grid=20, share=lambda *given: 0.5 if given[3] == "1" else 1.0)
    for score in (results.score_regions, results.score_pairs):
        first, mean = score(made), score(made, start="all")
        assert set(first["start"]) == {"1"} and {*results.list_rows(first)} == {*rows}
        assert set(mean["start"]) == {"all"} and results.list_rows(mean) == rows[:1]
        assert (mean["accuracy"] == 1.0).all() and (first["accuracy"] < 1.0).any()
    assert results.find_unlearned(made) == {*rows}


def test_a_start_that_is_no_longer_evaluated_is_not_read(home):
    """Unless a row has no other, as in earlier tables by recurrence."""
    rows = ["addition_nope", "addition_coupled_short"]
    write_results(home, rows)
    expected = results.read_table("cells")
    assert set(expected["start"]) == {"1", "all"} and results.list_rows(expected) == rows
    folder = paths.results_folder("addition_schemes")
    former = expected[expected["start"] == "all"].assign(start=FORMER_START)
    pd.concat([former, expected, former]).to_parquet(folder / "cells.parquet", index=False)
    pd.testing.assert_frame_equal(results.read_table("cells"), expected)
    alone = pd.DataFrame({"row": rows, "scale": "laptop", "start": ["1", FORMER_START], "seed": 0})
    alone.to_parquet(folder / "answers.parquet", index=False)
    assert results.read_table("answers")["start"].tolist() == ["1", FORMER_START]


def test_tables_are_read_in_the_order_of_experiments_and_others_last(home):
    rows = ["addition_nope", "addition_rope", "parity_rope"]
    write_results(home, rows[::-1])
    mine = cells(["mine"], grid=2)
    (home / "reports/results/a_study").mkdir()
    mine.to_parquet(home / "reports/results/a_study/cells.parquet", index=False)
    tables = results.open_results()
    assert results.list_rows(tables["cells"]) == [*rows, "mine"]
    assert results.list_rows(tables["curves"]) == rows
    assert tables["answers"].empty and "predicted" in tables["answers"]
    with pytest.raises(SettingsError, match="'answer' is unknown, did you mean 'answers'"):
        tables["answer"]
    folder = paths.analyses_folder("addition_schemes")
    folder.mkdir(parents=True)
    answers("addition_rope").to_parquet(folder / "answers.parquet")
    assert results.list_rows(results.open_results()["answers"]) == ["addition_rope"]


def test_a_row_has_the_results_of_one_scale(home):
    write_results(home, ["addition_nope"])
    write_results(home, ["parity_rope"], scale="long")
    file = paths.results_folder("addition_schemes") / "cells.parquet"
    made = pd.read_parquet(file)
    pd.concat([made, made.assign(scale="gpu")]).to_parquet(file, index=False)
    for scale in ("laptop", "gpu", "long"):
        found = results.read_table("cells", scale)
        scales = dict(found[["row", "scale"]].drop_duplicates().itertuples(index=False))
        assert scales == {"addition_nope": "gpu" if scale == "gpu" else "laptop",
                          "parity_rope": "long"}  # fmt: skip
        assert len(found) == len(made) + len(cells(["parity_rope"]))


def test_results_are_read_with_the_settings_that_are_stored_with_them(home):
    """Not with those that the experiments have now."""
    write_results(home, ["addition_nope", "parity_rope"])
    run = load_run("addition_nope")
    training = run.training.model_copy(update={"learning_rate": 0.5})
    line = describe_run(run.model_copy(update={"training": training, "label": "Mine"}), 0)
    folder = paths.results_folder("addition_schemes")
    pd.DataFrame([line]).to_parquet(folder / "runs.parquet", index=False)
    table = results.read_table("cells")
    (found,) = results.find_runs(table).values()
    assert found.training.learning_rate == 0.5 and run.training.learning_rate != 0.5
    assert results.add_labels(table, table)["label"].unique().tolist()[0].startswith("Mine")


def test_declared_columns_are_those_that_evaluation_writes():
    system, names = build_adder(2, 2), ["row", "scale", "seed"]
    settings = {"task": system.run.task, "equal": 1, "longest": 2}
    problems = problem_sets.draw_problem_set("mine", problem_sets.ProblemSet.parse(settings, "x"))
    cell_table, place_table, steps = score_system(system, problems)
    attended = attention.describe_attention(system, (2, 2), dict.fromkeys(names))
    tables = {name: [*table.columns] for name, table in attended.items()}
    tables |= {"cells": [*cell_table.columns], "places": [*place_table.columns]}
    tables["steps"] = [*steps.columns]  # for the tables of analyses see their tests
    declared = results.find_declared_columns()
    assert {name: {*columns} for name, columns in tables.items()} == {
        name: {*declared[name]} for name in tables
    }


def test_regions_are_recounted_from_the_cells():
    table = cells(ROWS)
    grid = table.query("row == 'addition_nope' and set == 'grid' and i <= 10 and j <= 10")
    scores = results.score_regions(table)
    scored = scores.query("row == 'addition_nope' and region == 'in distribution'")
    assert scored.set_index("seed")["exact"].equals(grid.groupby("seed")["exact"].sum())
    far = scores[scores["region"] == "1,000 digits"]
    assert set(far["row"]) == {"addition_relative"} and far["n"].sum() == 300
    counted = results.score_regions(table.assign(digits_right=table["n"]), "digits_right")
    assert (counted["accuracy"] == 1).all()


def test_regions_beyond_the_grid_say_their_lengths_and_a_row_has_all_of_one_or_nothing():
    some, longer = cells(ROWS[:2], equal=10, seeds=2), []
    for row, last in zip(ROWS[:2], (35, 32), strict=True):  # the Abacus table ends earlier
        end = some[(some["row"] == row) & (some["set"] == "equal") & (some["i"] == 30)]
        longer += [end.assign(i=i, j=i) for i in range(31, last + 1)]
    table = pd.concat([cells(["addition_relative"]), some, *longer])
    scores = results.score_regions(table)
    assert list(dict.fromkeys(scores["region"])) == [
        "in distribution", "out of distribution", "31 to 32 digits", "33 to 35 digits",
        "100 digits", "1,000 digits",
    ]  # fmt: skip
    part = scores[scores["region"] == "31 to 32 digits"]
    assert set(part["row"]) == set(ROWS[:2]) and set(part["n"]) == {2 * 10}
    assert set(scores[scores["region"] == "33 to 35 digits"]["row"]) == {"addition_nope"}
    unlike = table.assign(j=table["j"].mask(table["i"] == 100, 7))
    assert "100 x 7 digits" in set(results.score_regions(unlike)["region"])


def test_lengths_have_each_seed_and_the_starts_that_are_asked_for():
    table = cells(ROWS, grid=12)
    scores = results.score_lengths(table)
    assert set(scores["start"]) == {"1"} and scores["digits"].max() == 12
    assert len(scores) == 4 * 3 * 12
    far = results.score_lengths(table, far=True, starts=("1", "all"))
    assert set(far["digits"]) == {*range(1, 13), 100, 1000}
    assert set(far.loc[far["start"] == "all", "row"]) == {"addition_abacus", "addition_coupled"}


def test_tables_without_rows_have_scores_without_rows():
    """A notebook whose rows have no results yet prints so, and does not fail."""
    none = cells(ROWS[:1], grid=4).iloc[:0]
    none = results.add_labels(none, none)
    for score in (results.score_regions, results.score_lengths, results.score_pairs):
        assert score(none).empty and "accuracy" in score(none)
    assert results.summarise_seeds(results.score_regions(none), ["label", "region"]).empty


def test_labels_say_what_is_not_learned_and_lengths_that_differ():
    rows = ["addition_nope", "addition_fire"]
    table = cells(rows, grid=12, share=lambda row, *_: float(row == rows[0]))
    labelled = results.add_labels(table, table)
    assert set(labelled["label"]) == {"NoPE", "FIRE, not learned"}
    assert labelled.groupby("row")["learned"].first().to_dict() == {
        "addition_nope": True, "addition_fire": False,
    }  # fmt: skip
    longer = table.assign(trained=table["trained"] + 2 * (table["row"] == rows[0]))
    named = results.add_labels(longer, longer, {"addition_nope": "None"})
    assert "None (to 12)" in set(named["label"])


def test_a_summary_of_seeds_is_that_of_the_ledger():
    table = cells(["addition_nope"], grid=12)
    scores = results.score_regions(table)
    part = scores[scores["region"] == "out of distribution"]
    summary = results.summarise_seeds(scores, ["row", "region"], digits=9)
    line = summary.loc[("addition_nope", "out of distribution")]
    claimed = summarise_seeds(part.assign(value=part["accuracy"]), "mean_over_seeds")
    assert np.allclose(line[["mean", "low", "high"]], claimed[:3]) and line["seeds"] == 3
    assert line["median"] == pytest.approx(part["accuracy"].median())
    assert line["n"] == part["n"].sum()
