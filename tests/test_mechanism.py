"""What is asked of a model inside: twins, patches, lenses, probes and ablated heads."""

import math

import pandas as pd
import pytest
import torch

from carry.analyses import mechanism
from carry.config.settings import SettingsError
from carry.data.problems import Problems
from carry.experiments.resolve import make_run
from carry.interpretability import head_ablation, lens, patching, probes, tracing
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream
from carry.tasks import build_task, to_digits
from carry.training.loop import Trainer
from pythons import digits_to_int

ADDITION = build_task({"name": "addition"})
RUN = make_run({
    "task": {"name": "addition", "sampling": "equal"},
    "positions": [{"ids": "abacus", "encoding": "relative", "window": 1}],
    "model": {"layers": 1, "width": 48, "heads": 4},
    "training": {"digits": 3, "steps": 300, "batch": 64, "optimizer": "muon", "learning_rate": 0.02,
                 "score_every": 300, "score_problems": 64},
    "evaluation": {"digits": 4},
})  # fmt: skip


@pytest.fixture(scope="module")
def adder() -> System:
    """Return a model that adds numbers of up to three digits, trained in four seconds."""
    trainer = Trainer(RUN, 0, None).train()
    assert trainer.curve[-1]["exact"] > 0.9
    trainer.system.network.eval()
    return trainer.system


def carries(a: str, b: str) -> list[int]:
    """Return the carry into each place, the ones first, from Python integers."""
    return [
        int(int(a[-place:]) + int(b[-place:]) >= 10**place) if place else 0
        for place in range(len(a) + 1)
    ]


def texts(problems: Problems) -> list[tuple[str, ...]]:
    """Return the operands of each problem as text."""
    return [
        tuple(
            str(digits_to_int(digits, length)) for digits, length in zip(row, lengths, strict=True)
        )
        for row, lengths in zip(problems.operands, problems.lengths, strict=True)
    ]


@pytest.mark.parametrize("place", [1, 2, 3])
@pytest.mark.parametrize("carry", [True, False])
def test_twins_differ_in_one_digit_and_one_carry(place, carry):
    pair = patching.draw_twins(ADDITION, 4, place, 60, stream(0, "twins"), carry)
    assert [len(of) for of in pair] == [60, 60]
    begun = 0
    for (a, b), (c, d) in zip(*map(texts, pair), strict=True):
        assert b == d and len(a) == len(c) == 4
        assert [at for at in range(4) if a[-1 - at] != c[-1 - at]] == [place - 1]
        first, second = carries(a, b), carries(c, d)
        expected = [place] if carry else []
        assert [at for at in range(5) if first[at] != second[at]] == expected
        assert len(str(int(a) + int(b))) == len(str(int(c) + int(d))) == 4
        begun += first[place]
    # Which of both has the carry is even: beyond 5 standard deviations once in two million times.
    assert not carry or abs(begun - 30) < 5 * math.sqrt(60) / 2


def test_the_last_cell_flips_every_answer_and_no_other_twin_does(adder):
    """Where the digit is read off the stream it is all that counts; without a carry, nothing."""
    for carry in (True, False):
        pair = patching.draw_twins(ADDITION, 3, 2, 40, stream(1, "twins"), carry)
        table = patching.count_flips(adder, pair, 2).set_index(["activation", "role"])
        last = table.loc[("0.resid_post", "s1")]
        assert last["n"] > 30
        assert last["flipped"] == (last["n"] if carry else 0)
        assert table.loc[("0.resid_pre", "a2"), "flipped"] == 0  # a digit that is the same


def test_patching_cells_one_by_one_is_patching_by_hand(adder):
    """The fast way, all tokens in one batch, against a loop over problems and tokens."""
    pair = patching.draw_twins(ADDITION, 3, 1, 10, stream(2, "twins"))
    table = patching.count_flips(adder, pair, 1, {"0.resid_pre": [3, 9], "0.resid_mid": [9]})
    one, two = (adder.format.write(of) for of in pair)
    at = patching._find_query(one, 1)
    counted = dict.fromkeys([("0.resid_pre", 3), ("0.resid_pre", 9), ("0.resid_mid", 9)], 0)
    asked = 0
    for row in range(10):
        single, twin = one[row : row + 1], two[row : row + 1]
        inside = Hooks()
        with torch.no_grad():
            own = adder.network(single.tokens, adder.ids(single))[0, at].argmax()
            other = adder.network(twin.tokens, adder.ids(twin), hooks=inside)[0, at].argmax()
        truth = [int(of.answer[row, 1]) for of in pair]
        if [int(own), int(other)] != truth:
            continue
        asked += 1
        for name, token in counted:

            def put(value, token=token, inside=inside, name=name):
                value = value.clone()
                value[0, token] = inside[name][0, token]
                return value

            with torch.no_grad():
                moved = Hooks([], {name: put})
                logits = adder.network(single.tokens, adder.ids(single), hooks=moved)
            counted[name, token] += int(logits[0, at].argmax()) == truth[1]
    found = table.set_index(["activation", "token"])
    assert (table["n"] == asked).all() and asked > 5
    assert {cell: int(found.loc[cell, "flipped"]) for cell in counted} == counted


def test_named_cells_are_confirmed_on_other_problems(adder):
    cells, confirmed = patching.locate_carry(adder, 3, 2, 40)
    named = cells[cells["flipped"] >= cells["n"] / 2]
    assert 0 < len(named) < len(cells)
    for kind in ("carry", "control"):
        of = confirmed[confirmed["twins"] == kind]
        assert of[["activation", "token"]].values.tolist() == (
            named[["activation", "token"]].values.tolist()
        )
    certain = confirmed[confirmed["activation"] == "0.resid_post"].set_index("twins")
    assert certain.loc["carry", "accuracy"] == 1 and certain.loc["control", "high"] < 0.2


def test_problems_of_unlike_shape_are_refused():
    system = System(RUN)
    drawn = [ADDITION.solve(*to_digits(of)) for of in ([[12, 34]], [[123, 456]], [[55, 55]])]
    message = r"^runs.mine.format: its problems of \d+ to \d+ tokens have different layouts; exp"
    for other in drawn[1:]:
        with pytest.raises(SettingsError, match=message):
            patching.count_flips(system, (drawn[0], other), 1)


def test_a_model_that_is_never_right_has_no_pairs():
    pair = patching.draw_twins(ADDITION, 3, 1, 5, stream(0, "twins"))
    system = System(RUN, seed=5)
    with torch.no_grad():
        system.network.logits.weight[:10] = 0
        system.network.logits.weight[12] *= 100  # always a sign
    table = patching.count_flips(system, pair, 1)
    assert (table["n"] == 0).all() and (table["flipped"] == 0).all()
    _, confirmed = patching.locate_carry(system, 3, 1, 5)
    assert confirmed.empty


def test_the_lens_ends_in_what_the_model_says(adder):
    problems = mechanism.draw_problems(adder, 3, "lens")
    table = lens.apply_logit_lens(adder, problems)
    batch = adder.format.write(problems)
    at, target, _ = batch.response()
    with torch.no_grad():
        right = adder.network(batch.tokens, adder.ids(batch), at).argmax(-1) == target
    last = table[table["activation"] == "0.resid_post"].set_index("place")
    assert [int(last.loc[place, "correct"]) for place in (0, 1, 2, -1)] == right.sum(0).tolist()
    first = table[table["activation"] == "0.resid_pre"].set_index("place")
    assert first.loc[[0, 1, 2], "accuracy"].max() < 0.4  # nothing is added up yet


def test_probes_find_what_is_there_and_nothing_before_training(adder):
    sets = [mechanism.draw_problems(adder, 3, name) for name in ("learn", "ask")]
    table = probes.train_probes(adder, *sets).set_index(["model", "activation", "step"])
    assert table.loc[("trained", "0.resid_post", "answer"), "accuracy"] > 0.9
    for of in ("trained", "untrained"):  # what is embedded knows nothing of the operands
        chance = table.loc[(of, "0.resid_pre", "digit_sum")]
        assert chance["accuracy"] < chance["commonest"] / chance["n"] + 0.1
    # Each digit is a row, and its step is that of its own place.
    streams, steps = probes.collect_activations(adder, sets[1])
    wanted = sets[1].answer[:, :3].flatten().long()
    assert torch.equal(steps["answer"], wanted)  # written with the ones first
    assert {len(of) for of in streams.values()} == {len(wanted)}


def test_an_ablated_head_says_the_same_of_all_problems(adder):
    problems = mechanism.draw_problems(adder, 3, "ablations")
    table = head_ablation.ablate_heads(adder, problems)
    whole = table[table["head"] == head_ablation.NO_HEAD].set_index("subtask")
    assert whole.loc["all", "n"] == 3 * len(problems) and whole.loc["all", "accuracy"] > 0.9
    assert set(table["head"]) == {-1, 0, 1, 2, 3}
    # Without all heads nothing is known of the operands but what has been written.
    mean = {"0.z": lambda z: z.mean(0, keepdim=True).expand_as(z)}
    batch = adder.format.write(problems)
    with torch.no_grad():
        logits = adder.network(batch.tokens, adder.ids(batch), hooks=Hooks([], mean))
    at, target, _ = batch.response()
    right = (logits.argmax(-1).gather(1, at) == target)[:, :3].float().mean()
    heads = table[(table["subtask"] == "all") & (table["head"] >= 0)]
    assert right < 0.3 and right < heads["accuracy"].min() + 1e-9


def test_starts_on_a_ring_end_with_its_ids(monkeypatch):
    """All ids are starts, from 1 to the limit; also of a table, up to the last that fits."""
    asked = tracing.ask

    def ask(system, *operands, start):
        assert start <= 9, "no id is larger"
        return asked(system, *operands, start=start)

    monkeypatch.setattr(tracing, "ask", ask)
    pair = {"ids": "abacus", "encoding": "learned", "limit": 9}
    settings = {"task": {"name": "addition"}, "model": {"width": 8}}
    settings |= {"training": {"digits": 3}, "evaluation": {"digits": 3}}
    for ring, last in ((True, 9), (False, 7)):  # the answer may have three digits
        system = System(make_run({**settings, "positions": [{**pair, "ring": ring}]}))
        assert tracing.scan_starts(system, 17, 25)["start"].tolist() == [*range(1, last + 1)]


def test_all_tables_of_one_model(adder, monkeypatch):
    monkeypatch.setattr(mechanism, "TWINS", 10)
    found = mechanism.model_tables(adder, 3)
    assert set(found) == set(mechanism.COLUMNS)
    assert found["patches"]["place"].unique().tolist() == [1, 2]
    assert isinstance(found["confirmed"], pd.DataFrame)
    shares = found["heads"].groupby(["layer", "head"])["share"].sum()
    assert shares.tolist() == pytest.approx([1.0] * 4)
