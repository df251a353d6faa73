"""What a looped model says after each recurrence: counted right, and the same as any other way."""

import pandas as pd
import pytest
import torch
import torch.nn.functional as F

import mock_models
from carry.config import paths
from carry.data import problem_sets
from carry.data.problem_sets import ProblemSet, draw_problem_set
from carry.evaluation import decoding, recurrences, scoring
from carry.evaluation.jobs import evaluate_runs
from carry.evaluation.recurrences import WHOLE_ANSWER, choose_problems, score_by_recurrence
from carry.experiments.resolve import load_run, make_run
from carry.formats import ALPHABET, PAD, to_tokens
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.training.loop import Trainer
from made_up_project import move_project

ADDITION, SORTING = {"name": "addition"}, {"name": "sorting"}
SUMS = {"name": "multi_operand_addition"}
ABACUS = {"ids": "abacus", "encoding": "learned", "table": 60}
FORMATS = {
    "reversed": {},
    "padded": {"pad": True, "reverse_operands": False},
    "plain": {"reverse_operands": False, "reverse_answer": False},
    "hinted": {"hints": "cyclic"},
    "padded_to": {"pad_to": 10, "begin": "$", "reverse_operands": False},
}
OF_LOOPED = ("recurrences", "answers")
MODEL = {"layers": 2, "recurrences": 3, "injection": "every_layer", "width": 16, "heads": 2}


def build(kind=System, task=ADDITION, form=(), **model):
    settings = {
        "task": task,
        "format": dict(form),
        "positions": [ABACUS],
        "model": {**MODEL, **model},
        "training": {"digits": 3},
        "evaluation": {"digits": 5, "far": [9]},
    }
    return kind(make_run(settings))


def drawn(task=ADDITION, **more):
    given = {"task": task, "grid": 5, "each": 1, "equal": 12, "far": [[9, 9, 4]]}
    given |= more
    return draw_problem_set("test", ProblemSet.parse(given, "problems.test"))


@pytest.fixture(scope="module")
def table():
    return drawn()


class Learner(mock_models.Oracle):
    """Right in as many tokens as it had recurrences; of the others it says what is none."""

    def __init__(self, run, seed=0, device="cpu"):
        super().__init__(run, seed, device)

        class Network(mock_models.MockNetwork):
            recurrences = 2

            def each_recurrence(self, tokens, ids, at, recurrences):
                known = self(tokens, ids, at)
                known, none = known.argmax(-1), torch.tensor(PAD)
                slot = torch.arange(known.shape[1])
                said = [known.where(slot < r, none) for r in range(1, recurrences + 1)]
                return F.one_hot(torch.stack(said), len(ALPHABET)).float()

        self.network = Network(self)


def test_what_is_counted_of_a_model_that_learns_a_token_each_time(table):
    counts, answers = score_by_recurrence(build(Learner), table)
    assert counts["recurrence"].unique().tolist() == [*range(1, 7)]  # trained 2, and 4 more
    assert (counts["recurrences_trained"] == 2).all() and set(counts["digits"]) == {3, 5, 9}
    for (digits, r), of in counts.groupby(["digits", "recurrence"]):
        some = table[(table["i"] == digits) & (table["set"] == ("far" if digits == 9 else "equal"))]
        tokens = some["answer"].str.len() + 1  # and the end
        of = of.set_index("place")
        assert of.loc[WHOLE_ANSWER, "n"] == len(some)
        assert of.loc[WHOLE_ANSWER, "correct"] == (tokens <= r).sum()
        for place in range(tokens.max() - 1):
            n = (tokens > place + 1).sum()
            assert of.loc[place, ["n", "correct"]].tolist() == [n, n * (place < r)]
            assert r == 1 or of.loc[place, "same"] == n * (place != r - 1)
        assert r == 1 or of.loc[WHOLE_ANSWER, "same"] == (tokens < r).sum()
    assert (counts["same"].isna() == (counts["recurrence"] == 1)).all()
    for digits, of in answers.groupby("digits"):
        due = table[(table["i"] == digits) & (table["set"] != "grid")]["answer"].iloc[0][::-1] + "$"
        for r, said in of.groupby("recurrence"):
            assert "".join(said["target"]) == due
            assert "".join(said["predicted"]) == due[:r].ljust(len(due), "_")
            assert said["slot"].tolist() == said["place"].tolist() == [*range(len(due))]


@pytest.mark.parametrize(("form", "name", "start"), [
    ("reversed", "transformer", 1), ("reversed", "adaptive", 9),
    ("padded", "transformer", "all"), ("plain", "adaptive", "all"),
    ("hinted", "transformer", 1), ("padded_to", "transformer", 9),
])  # fmt: skip
def test_each_recurrence_is_a_pass_that_ends_there(table, form, name, start, monkeypatch):
    monkeypatch.setattr(decoding, "MOST_STARTS", 2)
    system = build(form=FORMATS[form], name=name)
    counts, answers = score_by_recurrence(system, table, start)
    assert set(counts["start"]) == {str(start)}
    assert counts["recurrence"].max() == 7
    whole = counts[counts["place"] == WHOLE_ANSWER]
    for digits, some in choose_problems(system, table).groupby("i"):
        problems = problem_sets.to_problems(some, system.task)
        batch, before = system.format.write(problems), None
        first_ids = decoding.list_first_ids(system, problems, start)
        ids_by_start = [system.ids_from(batch, first) for first in first_ids]
        for r in range(1, 8):
            seen = teacher_forced_pass(system, batch, recurrences=r, ids_by_start=ids_by_start)
            of = whole[(whole["digits"] == digits) & (whole["recurrence"] == r)].iloc[0]
            assert of["n"] == len(some) and of["correct"] == int(seen.exact.sum())
            if r > 1:
                moved = ((seen.predicted != before) & seen.real).any(1)
                assert of["same"] == int((~moved).sum())
            before = seen.predicted
            told = answers[(answers["digits"] == digits) & (answers["recurrence"] == r)]
            said, due = (to_tokens("".join(told[name])) for name in ("predicted", "target"))
            assert said.equal(seen.predicted[0, seen.real[0]])
            assert due.equal(seen.target[0, seen.real[0]])


STEPS = {"name": "scratchpad"}


@pytest.mark.parametrize(("task", "form"), [
    *((ADDITION, FORMATS[name]) for name in ("reversed", "padded", "plain", "hinted", "padded_to")),
    (ADDITION, {"spaces": 0.5}), (SUMS, STEPS), (SUMS, {**STEPS, "pad": False}),
])  # fmt: skip
def test_places_are_those_of_scores(task, form):
    """In a scratchpad those of its last number alone."""
    table = drawn(task, grid=0, equal=8, longest=5, far=[])
    system = build(task=task, form=form, layers=1)
    cells, places, _ = scoring.score_system(system, choose_problems(system, table), [9])
    counts, _ = score_by_recurrence(system, table, 9)
    assert counts.columns.tolist() == recurrences.COLUMNS["recurrences"]
    counts = counts[(counts["recurrence"] == 3) & (counts["digits"] <= 5)]
    keys, shown = ["digits", "place"], ["n", "correct", "accuracy", "low", "high"]
    expected = places[places["digits"].isin([3, 5])].set_index(keys)[shown].sort_index()
    found = counts[counts["place"] != WHOLE_ANSWER].set_index(keys)[shown].sort_index()
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    exact = cells[cells["set"] == "equal"].set_index("i")["exact"]
    of = counts[counts["place"] == WHOLE_ANSWER].set_index("digits")["correct"]
    assert of.to_dict() == exact.loc[[3, 5]].to_dict()


@pytest.mark.parametrize("task", [ADDITION, SORTING])
def test_how_problems_are_grouped_changes_nothing(monkeypatch, task):
    name = "expression" if task is ADDITION else "labelled"
    system, table = build(task=task, form={"name": name}), drawn(task)
    together = score_by_recurrence(system, table, 9)
    monkeypatch.setattr(recurrences, "MAX_LOGITS", 1)
    heard = []
    alone = score_by_recurrence(system, table, 9, report=heard.append)
    for one, other in zip(together, alone, strict=True):
        pd.testing.assert_frame_equal(one, other)
    assert set(heard) == {1} and len(heard) == len(choose_problems(system, table))


def test_the_answer_of_a_list_has_no_places():
    counts, answers = score_by_recurrence(
        build(task=SORTING, form={"name": "labelled"}), drawn(SORTING)
    )
    assert set(counts["place"]) == {WHOLE_ANSWER} and set(counts["digits"]) == {3, 5, 9}
    assert (answers["slot"] == answers["place"]).all()


def test_places_stand_where_they_are_written(table):
    _, answers = score_by_recurrence(
        build(form=FORMATS["padded"] | {"reverse_answer": False}), table
    )
    of = answers[(answers["digits"] == 3) & (answers["recurrence"] == 1)]
    assert of["slot"].tolist() == [0, 1, 2, 3, 4] and of["place"].tolist() == [3, 2, 1, 0, 4]


def test_a_model_whose_block_does_nothing_is_at_a_fixed_point(table):
    """Its stream is the input once for every layer passed, which the last norm does not see."""
    system = build()
    for block in system.network.blocks:
        for last in (block.output, block.feed_forward.down):
            torch.nn.init.zeros_(last.weight)
            torch.nn.init.zeros_(last.bias)
    counts, answers = score_by_recurrence(system, table, 9)
    later = counts[counts["recurrence"] > 1]
    assert (later["same"] == later["n"]).all()
    assert (answers.groupby(["digits", "slot"])["predicted"].nunique() == 1).all()
    counts, _ = score_by_recurrence(build(), table, 9)  # and of others it is not said
    later = counts[(counts["recurrence"] == 2) & (counts["place"] == WHOLE_ANSWER)]
    assert (later["same"] < later["n"]).any()


def test_the_first_problems_of_few_lengths(table, monkeypatch):
    system = build()
    found = choose_problems(system, table)
    assert found.groupby(["set", "i"]).size().to_dict() == {
        ("equal", 3): 12, ("equal", 5): 12, ("far", 9): 4}  # fmt: skip
    monkeypatch.setattr(recurrences, "MAX_PROBLEMS", 2)
    pd.testing.assert_frame_equal(choose_problems(system, table), found.groupby("i").head(2))
    assert choose_problems(system, table[table["i"] <= 2])["i"].unique().tolist() == [2]
    assert choose_problems(system, table[table["i"] > 3])["i"].unique().tolist() == [5, 9]


def test_of_a_model_that_is_not_looped_nothing_is_said(table):
    system = build(recurrences=1)
    assert choose_problems(system, table).empty
    counts, answers = score_by_recurrence(system, table)
    assert counts.columns.tolist() == recurrences.COLUMNS["recurrences"] and counts.empty
    assert answers.columns.tolist() == recurrences.COLUMNS["answers"] and answers.empty


ROWS = ("addition_abacus", "addition_abacus_looped")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Keep the untrained weights of runs, looped or not, where git has them; return the runs."""
    move_project(monkeypatch, tmp_path)
    given = {"task": ADDITION, "grid": 4, "each": 1, "equal": 3}
    table = draw_problem_set("addition", ProblemSet.parse(given, "problems.addition"))
    monkeypatch.setattr(
        problem_sets, "load_questions", lambda run: problem_sets.select_questions(run, table)
    )
    runs = [load_run(row, "smoke") for row in ROWS]
    evaluation = runs[0].evaluation.model_copy(update={"starts": [2, 1]})
    runs = [run.model_copy(update={"seeds": 2, "evaluation": evaluation}) for run in runs]
    for run in runs:
        for seed in range(2):
            file = paths.models_folder(run.name) / f"seed_{seed}.safetensors"
            Trainer(run, seed=seed, checkpoint_path=None).save_weights(file)
    return runs


def test_looped_rows_alone_have_tables_by_recurrence(home):
    """All seeds of both rows are scored side by side."""
    tables = evaluate_runs(home)
    assert {*tables} == {"answers", "cells", "places", "recurrences"}
    assert set(tables["cells"]["row"]) == {*ROWS}
    counts, answers = (tables[name] for name in OF_LOOPED)
    for of in (counts, answers):
        assert set(of["row"]) == {"addition_abacus_looped"} and set(of["scale"]) == {"smoke"}
        assert set(of["start"]) == {"2"} and set(of["digits"]) == {3, 4}
        assert set(of["trained"]) == {3}
        assert of.groupby("seed").size().nunique() == 1 and set(of["seed"]) == {0, 1}
    assert set(counts["recurrence"]) == {*range(1, counts["recurrences_trained"][0] + 5)}
