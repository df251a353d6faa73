"""How deep tokens go by what their digits take: against Python integers and a slow loop."""

import itertools
import statistics
from collections import defaultdict

import pytest
import torch

from carry import analyses
from carry.analyses import depths
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation import trained_models
from carry.experiments.resolve import make_run
from carry.models.system import System
from carry.randomness import stream
from pythons import digits_to_int

RUN = make_run({
    "task": {"name": "addition", "sampling": "equal"},
    "format": {"reverse_operands": True},
    "positions": [{"ids": "abacus", "encoding": "learned", "offset": 9}],
    "model": {"name": "adaptive", "layers": 1, "recurrences": 3, "injection": "every_layer",
              "width": 16, "heads": 2, "halting_bias": 0.0},
    "training": {"digits": 3},
    "evaluation": {"digits": 4},
})  # fmt: skip


@pytest.fixture(scope="module")
def system():
    """Return an untrained model whose tokens halt after one, two or three recurrences."""
    system = System(RUN)
    with torch.no_grad():
        system.network.halting.weight.mul_(12)
    system.network.eval()
    return system


def nines(a, b):
    """Return the carry into each place, and through how many nines the longest carry goes."""
    carries = [int(a % 10**at + b % 10**at >= 10**at) for at in range(len(str(max(a, b))) + 1)]
    through = [
        carries[at] and (a // 10**at % 10) + (b // 10**at % 10) == 9 for at in range(len(carries))
    ]
    runs = [len(list(of)) for one, of in itertools.groupby(through) if one]
    return carries, max(runs, default=0)


@torch.no_grad()
def slowly(system, problems):
    """Return by place, carry and cascade the depths of single tokens, in a loop over problems."""
    found = defaultdict(list)
    for at in range(len(problems)):
        one = problems[at : at + 1]
        a, b = (digits_to_int(one.operands[0, of], one.lengths[0, of]) for of in (0, 1))
        carries, cascade = nines(a, b)
        batch = system.format.write(one)
        ids, said = system.ids(batch), system.logits(batch, system.ids(batch))[0].argmax(-1)
        taken = system.network.recurrences_taken(batch.tokens, ids)
        for place, digit in enumerate(reversed(str(a + b))):  # written with the ones first
            token = int(batch.start[0]) + place - 1
            of = int(taken.count[0, token]), float(taken.mean[0, token]), int(said[token])
            found[place, carries[place], cascade].append((*of[:2], of[2] == int(digit)))
    return found


def test_depths_by_what_digits_take_are_those_of_a_slow_loop(system):
    problems = system.task.draw_for_cells(torch.full((120, 2), 3), stream(0, "depths"))
    expected = slowly(system, problems)
    table = depths.measure_depths(system, problems).set_index(["place", "carry", "cascade"])
    assert set(table.index) == set(expected) and len(expected) > 12
    for cell, of in expected.items():
        taken, depth, right = zip(*of, strict=True)
        row = table.loc[cell]
        assert row["n"] == len(of) and row["correct"] == sum(right)
        assert row["recurrences_taken"] == pytest.approx(statistics.mean(taken))
        assert row["depth"] == pytest.approx(statistics.mean(depth), abs=1e-5)
    assert {taken for of in expected.values() for taken, _, _ in of} == {1, 2, 3}


@torch.no_grad()
def test_other_numbers_of_recurrences_are_other_passes(system):
    problems = system.task.draw_for_cells(torch.full((40, 2), 1), stream(1, "depths"))
    system.network.logits.weight[12:] = 0  # digits alone, so that some answer may be right
    table = depths.score_recurrences(system, problems).set_index("recurrences")
    batch = system.format.write(problems)
    at, target, real = batch.response()
    for recurrences in range(1, 7):
        said = system.logits(batch, system.ids(batch), at, recurrences).argmax(-1)
        exact = ((said == target) | ~real).all(1)
        assert table.loc[recurrences, "exact"] == int(exact.sum())
    assert table.index.tolist() == [1, 2, 3, 4, 5, 6] and (table["n"] == 40).all()


def test_tables_hold_all_seeds_and_lengths(monkeypatch):
    few = problem_sets.ProblemSet.parse({"task": RUN.task, "equal": 8, "longest": 4}, "problems.x")
    monkeypatch.setattr(trained_models, "load_seed", System)
    monkeypatch.setattr(
        problem_sets, "load_questions", lambda of: problem_sets.draw_problem_set("x", few)
    )
    found = analyses.analyse_seeds(depths, RUN.model_copy(update={"seeds": 2}))
    for table in found.values():
        assert set(zip(table["seed"], table["digits"], strict=True)) == {
            *itertools.product((0, 1), (1, 2, 3, 4))
        }
    of = found["depths"]
    assert (of["low"] <= of["high"]).all() and of["recurrences_taken"].between(1, 3).all()
    assert (of.query("place == 0").groupby(["seed", "digits"])["n"].sum() == 8).all()
    assert (of.loc[of["place"] == 0, "carry"] == 0).all()


def test_a_model_that_goes_as_deep_for_all_tokens_is_refused():
    plain = RUN.model_copy(update={"model": {"layers": 1, "recurrences": 3}})
    with pytest.raises(SettingsError) as error:
        depths.tables(System(plain))
    assert str(error.value) == (
        "analyses.mine: 'depths' does not fit model 'transformer', where all tokens take the same "
        "recurrences; expected 'adaptive'"
    )
