"""Starts of ids: which there are, single ones, and the mean over them, of models made up."""

import pytest
import torch

import mock_models
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation import decoding
from carry.evaluation.ask import ask, check_start
from carry.evaluation.decoding import decode_greedily, list_first_ids
from carry.evaluation.scoring import score_system
from carry.experiments.resolve import make_run
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream

ABACUS = {"ids": "abacus", "encoding": "learned", "table": 9}
COUPLED = {"ids": "coupled", "encoding": "learned", "limit": 9}
LEVELS = [{**COUPLED, "limit": limit, "level": level} for level, limit in ((1, 9), (2, 12))]
STEPS = {"name": "scratchpad"}


class Mover(mock_models.Oracle):
    """Right from some first ids, more or less surely; from others wrong in every token."""

    def __init__(self, run, right=(), sure=1.0):
        super().__init__(run)

        class Network(mock_models.MockNetwork):
            def forward(self, tokens, ids, *more, **options):
                logits = super().forward(tokens, ids, *more, **options)
                first = int(ids[0][ids[0] > 0].min())
                return sure * logits if first in right else logits.roll(1, -1)

        self.network = Network(self)


def settings(positions=(ABACUS,), task="addition", **more):
    model = {"layers": 1, "width": 8, "heads": 2}
    sizes = {"training": {"digits": 3}, "evaluation": {"digits": 4}}
    task = {"name": task}
    return make_run({"task": task, "positions": list(positions), "model": model, **sizes, **more})


def sums(system, cells, count=5):
    return system.task.draw_for_cells(torch.tensor(cells).repeat(count, 1), stream(0, "test"))


@pytest.mark.parametrize("right", [(3, 5), (6,), (), range(1, 9)])
def test_each_start_is_scored_once(right):
    system, ids = Mover(settings(), right), range(1, 7)  # three digits need four ids of nine
    cells = torch.tensor([[3, 3]] * 12)
    table = problem_sets.to_table("grid", cells, sums(system, [[3, 3]], 12), system.task)
    scored = score_system(system, table, [*ids, 1])[0]
    assert scored["start"].tolist() == [*map(str, ids)] and (scored["n"] == 12).all()
    assert scored["exact"].tolist() == [12 * (first in right) for first in ids]


@pytest.mark.parametrize(("sure", "exact"), [(9.0, True), (1.0, False)])
def test_the_mean_is_one_of_probabilities_and_no_vote(sure, exact):
    """One sure start outweighs the others, if these are not sure; in decoding and in one pass."""
    system = Mover(settings(), right=[2], sure=sure)
    problems = sums(system, [[2, 3]])
    cells = torch.tensor([[2, 3]] * 5)
    table = problem_sets.to_table("grid", cells, problems, system.task)
    scored = score_system(system, table, [1, 2, "all"])[0].set_index("start")["exact"]
    assert scored.to_dict() == {"1": 0, "2": 5, "all": 5 * exact}
    response = decode_greedily(system, problems, "all")
    _, target, real = system.format.write(problems).response()
    response = torch.nn.functional.pad(response, (0, 9))[:, : target.shape[1]]
    assert ((response == target) | ~real).all() == exact


@pytest.mark.parametrize(("positions", "task", "form"), [
    ([ABACUS], "addition", {}), ([ABACUS], "addition", {"pad_to": 5}),
    ([ABACUS], "addition", {"spaces": 0.5}), ([COUPLED], "addition", {"pad": True}),
    ([COUPLED], "addition", {"reverse_operands": False}), ([ABACUS], "bitwise_or", {}),
    ([ABACUS], "multi_operand_addition", {"pad": True}), (LEVELS, "multi_operand_addition", STEPS),
    (LEVELS, "multi_operand_addition", {**STEPS, "pad": False}),
    ([COUPLED, {"ids": "index", "encoding": "rope"}], "addition", {}),
])  # fmt: skip
def test_all_starts_are_those_that_fit_the_tables(positions, task, form):
    system = System(settings(positions, task, format=form))
    for shape in ([1, 2], [3, 3], [4, 2]):
        problems = sums(system, [shape])
        for rows in decoding.group_by_shape(problems, system.format):
            some = problems[rows].trim()
            first_ids = list_first_ids(system, some, "all")
            assert first_ids[0] == [1] * len(positions) and len(first_ids) > 1
            written = system.format.write_open_ended(some)
            ids_by_start = decoding.compute_decoding_ids(system, some, written, "all")
            largest = [ids.amax() for ids in ids_by_start[-1]]
            for index, scheme in enumerate(system.schemes):
                firsts = [first[index] for first in first_ids]
                assert firsts == sorted(firsts)
                if scheme.accepts_start:
                    assert largest[index] == system.largest_id(index) or form == {"spaces": 0.5}
                    assert largest[index] <= system.largest_id(index)
                else:
                    assert set(firsts) == {1}


def test_of_many_starts_an_even_subset(monkeypatch):
    system = System(settings([{**ABACUS, "table": 200}]))
    problems = sums(system, [[3, 3]])
    firsts = [first for (first,) in list_first_ids(system, problems, "all")]
    gaps = {after - before for before, after in zip(firsts, firsts[1:], strict=False)}
    assert len(firsts) == decoding.MOST_STARTS and (firsts[0], firsts[-1]) == (1, 197)
    assert max(gaps) - min(gaps) <= 1
    monkeypatch.setattr(decoding, "MOST_STARTS", 1)
    assert list_first_ids(system, problems, "all") == [[1]]


def test_a_start_too_late_for_a_problem_is_the_last_that_fits():
    system = System(settings())
    found = [list_first_ids(system, sums(system, [[n, n]]), 6) for n in (1, 3, 4)]
    assert found == [[[6]], [[6]], [[5]]]
    relative = System(settings([{"ids": "abacus", "encoding": "relative", "window": 1}]))
    assert list_first_ids(relative, sums(relative, [[4, 4]]), 60) == [[60]]


@pytest.mark.parametrize("positions", [
    [], [{"ids": "index", "encoding": "learned", "table": 30}],
    [{"ids": "abacus", "encoding": "relative", "window": 1}],
])  # fmt: skip
def test_without_a_table_of_ids_there_is_one_start(positions):
    system = System(settings(positions))
    assert system.distinct_starts([1, 5, "all"]) == [1]
    assert len(list_first_ids(system, sums(system, [[2, 2]]), "all")) == 1


@pytest.mark.parametrize(("positions", "last"), [
    ([], 1),
    ([{"ids": "index", "encoding": "rope"}], 1),
    ([{"ids": "abacus", "encoding": "relative"}], 1),
    ([{"ids": "abacus", "encoding": "rope", "offset": 5}], 8),  # four digits of an answer from 5
])  # fmt: skip
def test_a_question_starts_at_an_id_of_training(positions, last):
    """No table limits these ids."""
    system = System(settings(positions))
    check_start(system, last)
    refusal = f"^start: .* id {last + 1}; expected 'all' or .*{last}$"
    with pytest.raises(SettingsError, match=refusal):
        check_start(system, last + 1)


def test_on_a_ring_all_ids_are_starts():
    system = System(settings([{**COUPLED, "ring": True}]))
    problems = sums(system, [[2, 3]])
    assert list_first_ids(system, problems, "all") == [[first] for first in range(1, 10)]
    batch = system.format.write(problems)
    ids = decoding.compute_decoding_ids(system, problems, batch, "all")
    assert {int(one) for of in ids for one in of[0].flatten()} == {*range(10)}
    seen = teacher_forced_pass(system, batch, ids_by_start=ids)
    written = decode_greedily(system, problems, "all")
    first = torch.arange(len(written)), seen.first_wrong.clamp(min=0)
    assert torch.equal(written[first], seen.predicted[first])


def test_a_ring_lacks_no_id_as_long_as_a_problem_has_no_more_than_it():
    """Whatever the start; a line of as many ids has one start left."""
    ring, seven = {**COUPLED, "ring": True}, {"digits": 7, "starts": [1, 9, 50, "all"]}
    system = System(settings([ring], evaluation=seven))  # of nine ids, with that of the signs
    assert [system.last_id(0, 9, start) for start in (1, 9, "all")] == [9, 9, 9]
    assert len(ask(system, 9_999_999, 1, start=5)) > 0
    for eight in ((99_999_999, 1), (1, 10_000_000)):
        with pytest.raises(SettingsError, match="^operands: 8 digits need id 10 .*largest, 9; exp"):
            ask(system, *eight, start=5)
    with pytest.raises(SettingsError, match="8 digits from id 1 needs id 10, past .*, 9; expected"):
        System(settings([ring], evaluation={"digits": 8}))
    line = System(settings([COUPLED], evaluation={"digits": 7}))
    assert [line.last_id(0, 9, start) for start in (1, 9, "all")] == [9, 17, 9]
    with pytest.raises(SettingsError, match="7 digits from id 2 needs id 10, past .*, 9; expected"):
        System(settings([COUPLED], evaluation={"digits": 7, "starts": [2]}))
