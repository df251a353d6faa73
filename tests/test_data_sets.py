"""Data sets: training, validation and tests have nothing in common, told by Python strings."""

import random
import re

import pandas as pd
import pytest
import torch
from scipy.stats import binomtest, chisquare

from carry import formats, tasks
from carry import results as result_tables
from carry.config import paths
from carry.config.settings import SettingsError
from carry.data import data_sets, problem_sets, training_batches
from carry.data.data_sets import count_by_length, draw_distinct_operands
from carry.evaluation import trained_models
from carry.evaluation.jobs import evaluate_runs
from carry.experiments import problems as experiment_problems
from carry.experiments.base import SCALES
from carry.experiments.problems import ProblemSet, find_problem_set
from carry.experiments.resolve import list_rows, load_run, make_run
from carry.experiments.run import SUB_TASKS, DataSet
from carry.models.system import System
from carry.randomness import stream
from carry.training import jobs as training_jobs
from carry.training.loop import Trainer
from made_up_project import move_project
from model_cases import run_of
from pythons import digits_to_int

SETS = [name for name in experiment_problems.SETS if find_problem_set(name).lengths]
ADDITION = {"task": {"name": "addition"}}
EVEN = dict.fromkeys(SUB_TASKS, 0.2)
PARTS = {"name": "sub_task", "prefix": "add", "reverse_operands": True}


def mine(lengths=(1, 2, 3), test=30, validation=12, **more):
    """Return a set of one's own."""
    given = {"lengths": list(lengths), "test": test, "validation": validation, **more}
    return ProblemSet.parse({**ADDITION, **given}, "problems.mine")


def texts(problems, task="addition"):
    task = tasks.build_task({"name": task})
    return problem_sets.to_table("some", problems.lengths, problems, task)["operands"].tolist()


def test_a_composition_is_an_equal_share_up_to_a_limit():
    drawn = random.Random(0)
    for _ in range(300):
        lengths = drawn.sample(range(1, 21), drawn.randint(1, 12))
        count = drawn.choice([7, 300, 5_000, 40_000, 10**6]) + drawn.randint(0, 50)
        found = count_by_length(count, lengths)
        assert list(found) == sorted(lengths)
        most = {length: data_sets.MAX_TRAINING_PROBLEMS.get(length, count) for length in found}
        free = [many for length, many in found.items() if many < most[length]]
        assert not free or (sum(found.values()) == count and max(free) - min(free) <= 1)
        assert all(many <= most[length] for length, many in found.items())


@pytest.mark.parametrize("name", SETS)
def test_nothing_is_in_two_parts(name):
    given = find_problem_set(name)
    count = sum(count_by_length(10_000, given.lengths).values())  # 9,100 of one and three digits
    data_sets.check_example_count(given, count, "here")
    table = problem_sets.draw_problem_set(name, given)
    learned = data_sets.draw_training_problems(name, given, 3_000)
    trained, kept = texts(learned), table["operands"].tolist()
    assert len({*trained, *kept}) == len(trained) + len(kept) == 3_000 + len(table)
    sizes = pd.Series([len(number) for of in trained for number in of.split()]).value_counts() // 2
    assert sizes.sort_index().to_dict() == count_by_length(3_000, given.lengths)
    assert {f"{a} {b}" for a in range(10) for b in range(10)} < {*trained}
    assert [sum(map(int, of.split())) for of in kept] == table["answer"].map(int).tolist()
    widths = table["operands"].str.split(expand=True).map(len)
    assert (widths[0] == table["i"]).all() and (widths[1] == table["j"]).all()
    counts = table.groupby(["i", "set"]).size().unstack()
    assert counts.index.tolist() == sorted({*given.lengths, *given.beyond} - {1})
    assert (counts["equal"] == 1_000).all() and (counts["validation"] == 100).all()
    answers = [digits_to_int(*of) for of in zip(learned.answer, learned.answer_length, strict=True)]
    assert answers == [sum(map(int, of.split())) for of in trained]


def test_training_leaves_what_there_is_to_tests_first():
    table = problem_sets.draw_problem_set("mine", mine([2], test=7_150, validation=100, beyond=[1]))
    counts = table.groupby(["i", "set"]).size().to_dict()
    assert counts == {(1, "equal"): 100, (2, "equal"): 7_150, (2, "validation"): 50}
    given = mine([2], test=7_150, validation=100)
    trained = texts(data_sets.draw_training_problems("mine", given, 900))
    assert len({*trained, *table.loc[table["i"] == 2, "operands"]}) == 8_100


@pytest.mark.parametrize(("length", "count"), [(1, 100), (2, 8_100)])
def test_all_problems_that_there_are(length, count):
    task, known = tasks.build_task(ADDITION["task"]), torch.zeros(0, 2, length, dtype=torch.uint8)
    operands = draw_distinct_operands(task, length, count, stream(0, "test"), known)
    assert len(operands.unique(dim=0)) == len(operands) == count == task.count_problems(length)


def test_fewer_problems_without_zero():
    """81 pairs of digits: too few for the 100 that the rule takes, and none is left to test."""
    task = {"name": "addition", "zero": False}
    given = data_sets.DataSet(task=task, lengths=[1, 2], test=1000, validation=100)
    held_out = data_sets.count_held_out(given, tasks.build_task(task), 1)
    assert held_out == {"equal": 0, "validation": 0}
    with pytest.raises(SettingsError, match="^here: 100 of 1000 problems .* length 1, where 81 "):
        data_sets.check_example_count(given, 1000, "here")
    data_sets.check_example_count(given, 160, "here")


def test_sets_that_cannot_train_or_be_scored_are_refused_in_one_line():
    parity = data_sets.DataSet(task={"name": "parity"}, lengths=[2], test=1, validation=1)
    with pytest.raises(SettingsError, match="^here: a data set of 'parity' has no lengths"):
        data_sets.check_example_count(parity, 10, "here")
    given = data_sets.DataSet(task={"name": "addition"}, lengths=[2], test=9, validation=0)
    with pytest.raises(SettingsError, match="^here: test 9 leaves none for validation"):
        data_sets.check_example_count(given, 10, "here")
    task = {"name": "multi_operand_addition"}
    with pytest.raises(SettingsError, match="^problems.mine.far.0"):
        problem_sets.draw_problem_set("mine", ProblemSet(task=task, far=[[1, 1, 5]]))
    with pytest.raises(ValueError, match="lengths fits no grid"):
        ProblemSet(task={"name": "addition"}, lengths=[2], test=10, grid=3, each=2)


def test_different_problems_are_as_likely():
    """Chi-squared tests over digits; false alarm 1 in 1,000 each, but the seed is fixed."""
    task = tasks.build_task({"name": "addition"})
    known = torch.zeros(0, 2, 2, dtype=torch.uint8)
    known = draw_distinct_operands(task, 2, 4_000, stream(1, "test"), known)
    operands = draw_distinct_operands(task, 2, 2_000, stream(0, "test"), known)
    for place, least in ((0, 0), (1, 1)):
        counts = torch.bincount(operands[:, :, place].flatten().long(), minlength=10)[least:]
        assert chisquare(counts.numpy()).pvalue > 0.001


def test_what_moves_and_what_does_not():
    given = mine([1, 2, 3, 5])
    tests, more = problem_sets.draw_problem_set("mine", given), mine([1, 2, 3, 5], beyond=[4, 7])
    assert tests.equals(problem_sets.draw_problem_set("mine", given))
    wider = problem_sets.draw_problem_set("mine", more)
    assert wider[wider["i"].isin(given.lengths)].reset_index(drop=True).equals(tests)
    assert not problem_sets.draw_problem_set("yours", given)["operands"].equals(tests["operands"])
    learned = [texts(data_sets.draw_training_problems("mine", of, n)) for of, n in
               ((given, 400), (given, 400), (more, 400), (given, 900))]  # fmt: skip
    assert learned[0] == learned[1] == learned[2] and not {*learned[0]} < {*learned[3]}


def test_shares_of_a_mixture():
    """Five binomial tests; false alarm 1 in 1,000 for all together, but the seed is fixed."""
    shares = {"add": 0.4, "car": 0.3, "rev": 0.3}
    given = mine(mixture=shares)
    counts = data_sets.draw_sub_tasks("mine", given, 20_000).bincount(minlength=5).tolist()
    for prefix, count in zip(SUB_TASKS, counts, strict=True):
        if prefix in shares:
            assert binomtest(count, 20_000, shares[prefix]).pvalue > 0.001 / 5
        else:
            assert count == 0
    assert torch.equal(*(data_sets.draw_sub_tasks("mine", given, 500) for _ in range(2)))


def a_run(given=None, **more):
    """Return a run that is trained on 300 problems of a set."""
    given = given or mine()
    known = {key: getattr(given, key) for key in DataSet.model_fields}
    training = {"problem_set": "mine", "examples": 300, "digits": max(given.lengths), "steps": 4,
                "batch": 16, "pool": 2, "score_every": 2, "score_problems": 20}  # fmt: skip
    training |= more.pop("training", {})
    model = {"layers": 1, "width": 16, "heads": 2}
    return make_run({**ADDITION, "model": model, "training": training, "data_set": known, **more})


def batches_of(system):
    generator = stream(0, "problems")
    return training_batches.TrainingBatches(system.run, system.task, system.format, generator)


def training_set(system):
    """Return the texts of a run's training problems, and the part of each."""
    problems, parts = training_batches.draw_training_set(system.run, system.task)
    parts = [0] * len(problems) if parts is None else parts
    return dict(zip(texts(problems), (SUB_TASKS[part] for part in parts), strict=True))


def shown(batch):
    """Return what is asked by each problem that a batch has."""
    questions = zip(batch.tokens, batch.start, strict=True)
    asked = [formats.to_text(row[:start]) for row, start in questions]
    return [" ".join(number[::-1] for number in re.findall(r"\d+", of)) for of in asked]


def test_batches_are_of_the_training_problems():
    system = System(a_run())
    known = training_set(system)
    assert [*known] == texts(data_sets.draw_training_problems("mine", system.run.data_set, 300))
    batches = batches_of(system)
    seen = {of for _ in range(80) for of in shown(batches.next(16))}
    assert seen <= {*known} and len(seen) > 250


def test_a_mixture_is_written_by_its_parts():
    system = System(a_run(mine(mixture=EVEN), format=PARTS))
    part, batches, seen = training_set(system), batches_of(system), set()
    for _ in range(40):
        batch = batches.next(16)
        said = [formats.to_text(row)[:3] for row in batch.tokens]
        assert said == [part[of] for of in shown(batch)]
        seen |= {*said}
    assert seen == {*SUB_TASKS}


def test_batches_of_a_mixture_go_on_where_they_were():
    system = System(a_run(mine(mixture=EVEN), format=PARTS))
    first, again = (batches_of(system) for _ in range(2))
    for _ in range(3):
        first.next(16)
    again.resume(first.state())
    for _ in range(5):
        assert torch.equal(first.next(16).tokens, again.next(16).tokens)


def test_a_mixture_is_as_long_as_its_longest_sub_task():
    mixed, task = (
        System(a_run(mine(mixture=EVEN), format=PARTS)),
        tasks.build_task(ADDITION["task"]),
    )
    extents = [
        formats.build_format({**PARTS, "prefix": part}, task).extent(3) for part in SUB_TASKS
    ]
    assert mixed.training_extent().tokens == max(extent.tokens for extent in extents)
    assert mixed._extent(3) == extents[0], "scores are of the format's own prefix"


@pytest.mark.parametrize("beyond", [[], [4]])
def test_scores_on_the_way_are_of_validation_problems(beyond):
    given = mine(beyond=beyond)
    table = problem_sets.draw_problem_set("mine", given)
    known = {*table.loc[(table["set"] == "validation") & (table["i"] < 4), "operands"]}
    trainer = Trainer(a_run(given), 0, None)
    found = shown(trainer.held_out)
    assert len(found) == 20 == len({*found}) and {*found} < known
    assert {len(of.split()[0]) for of in found} == {2, 3}
    assert found == shown(Trainer(a_run(given), 1, None).held_out)
    whole = Trainer(a_run(given, training={"score_problems": 999}), 0, None)
    assert {*shown(whole.held_out)} == known
    assert whole.train().curve[-1]["exact"] <= 1.0


@pytest.fixture
def named(tmp_path, monkeypatch):
    """Return what gives a name to a set, in a project of its own."""
    move_project(monkeypatch, tmp_path)
    find_problem_set.cache_clear()
    yield lambda name, **settings: monkeypatch.setitem(experiment_problems.SETS, name, settings)
    find_problem_set.cache_clear()


def test_from_a_named_set_to_scores(named):
    """A run that names a set is trained, and scored on each length that it tests."""
    named("mine", lengths=[1, 2, 3, 4, 7], beyond=[5, 6, 8, 9], test=6, validation=5)
    training = {"problem_set": "mine", "examples": 200, "digits": 7, "steps": 4, "batch": 16}
    model = {"layers": 1, "width": 32, "heads": 2}
    run = make_run({"seeds": 1, "model": model, "training": training, "evaluation": {"digits": 8}})
    training_jobs.train_runs([run])
    tables = evaluate_runs([run])
    cells, places = tables["cells"], tables["places"]
    assert cells.groupby("i")["n"].max().to_dict() == dict.fromkeys(range(2, 9), 6)
    assert set(cells["set"]) == {"equal"} and (cells["i"] == cells["j"]).all()
    assert set(places["digits"]) == {*range(2, 9)}


def test_weights_of_a_data_set_that_has_changed(tmp_path, monkeypatch):
    move_project(monkeypatch, tmp_path)
    then, now = a_run(), a_run(mine(test=31))
    Trainer(then, 0, None).save_weights(paths.models_folder("mine") / "seed_0.safetensors")
    assert trained_models.load_seed(then).run.data_set == then.data_set
    expected = "^runs.mine.data_set.test: 31 is not what reports/.* was trained with, 30; exp"
    with pytest.raises(SettingsError, match=expected):
        trained_models.load_seed(now)


@pytest.mark.parametrize("scale", SCALES)
def test_rows_are_scored_on_problems_of_their_task(scale):
    for row in list_rows(scale=scale):
        problem_sets.check_problem_set(load_run(row, scale))


def test_a_named_set_is_looked_up_at_the_scale_of_the_run():
    run = run_of(problem_set="1-3_digit", examples=50, digits=3)
    assert run.data_set.lengths == [1, 2, 3] and run.data_set.test == 1_000
    assert make_run(run.model_dump(exclude={"name"})) == run
    assert run_of().data_set is None


@pytest.mark.parametrize("task", ["addition", "multiplication", "sorting"])
@pytest.mark.parametrize(("digits", "count"), [(20, 256), (40, 256), (17, 100)])
def test_held_out_problems_cover_cells_evenly(task, digits, count):
    """Also any part of them: rows, columns and diagonals are met about as often as they should."""
    run = make_run(
        {"task": {"name": task}, "training": {"digits": digits, "score_problems": count}}
    )
    task = tasks.build_task(run.task)
    problems = training_batches.draw_held_out(run, task)
    assert len(problems) == count
    if task.operand_count is None:
        sizes = (problems.lengths > 0).sum(1)
    else:
        sizes = problems.lengths[:, 0]
        assert len({*map(tuple, problems.lengths.tolist())}) == count
    for part in (sizes, sizes[: count // 2], sizes[::3]):
        assert len(part.unique()) > 0.7 * digits
        counts = torch.bincount(part, minlength=digits + 1)[1:]
        assert chisquare(counts.numpy()).pvalue > 0.001


@pytest.mark.parametrize("how", ["missing", "empty", "truncated", "garbage", "text", "footer"])
def test_damaged_tables_are_drawn_again_or_refused_in_one_line(tmp_path, monkeypatch, how):
    """A problem set can be drawn again, and a table of results cannot."""
    move_project(monkeypatch, tmp_path)
    table = problem_sets.load_problem_set("parity", "smoke")
    (drawn,) = tmp_path.rglob("*.parquet")
    content, results = drawn.read_bytes(), paths.results_folder("parity") / "cells.parquet"
    results.parent.mkdir(parents=True)
    damaged = {
        "empty": b"",
        "truncated": content[: len(content) // 2],
        "garbage": b"\x00" * len(content),
        "text": b"set,i,j\n",
        "footer": content[:-8] + b"\xff" * 8,
    }
    if how == "missing":
        drawn.unlink()
        results.mkdir()  # a folder in its place
    else:
        drawn.write_bytes(damaged[how])
        results.write_bytes(damaged[how])
    assert problem_sets.load_problem_set("parity", "smoke").equals(table)
    assert drawn.read_bytes() == content
    with pytest.raises(SettingsError, match=paths.display_path(results)) as caught:
        result_tables.read_table("cells")
    assert "\n" not in str(caught.value)
