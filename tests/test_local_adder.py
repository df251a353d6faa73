"""What a local adder computes, told of adders whose algorithm is known."""

import pytest
import torch

from carry.analyses import local_adder
from carry.analyses.local_adder import enumerate_middle
from carry.analyses.local_adder import tables as adder_tables
from carry.config.settings import SettingsError
from carry.experiments.resolve import load_run, make_run
from carry.models.system import System


@pytest.fixture
def adder(monkeypatch):
    """A model of the right shape that says x + y and a carry that `rule` finds in a + b and d."""
    system = System(load_run("addition_relative"))

    def ruled(rule):
        def predict(system, some, hooks=None):
            if hooks is not None and hooks.read:
                system.network.eval()(some.tokens, [some.ids], hooks=hooks)
            return (some.sum + rule(some)) % 10

        monkeypatch.setattr(local_adder, "_predict", predict)
        return system

    return ruled


def test_contexts_of_the_middle():
    of = enumerate_middle()
    assert len(of.tokens.unique(dim=0)) == len(of.tokens) == 55 * 55 * 10
    some = of.tokens[of.possible]
    for a, b, _, _, d in some[::97, 1:].tolist():
        assert d in ((a + b) % 10, (a + b + 1) % 10)
    carries = of.carry[of.possible]
    nine = (of.below == 9)[of.possible]
    assert ((some[:, 5] == 0)[nine] == (carries == 1)[nine]).all()
    assert (carries[of.below[of.possible] > 9] == 1).all()
    assert (carries[of.below[of.possible] < 9] == 0).all()


def test_the_rule_of_a_carry_is_seen_where_it_makes_a_difference(adder):
    """Two adders that are always right, by different rules."""
    by_difference = adder_tables(adder(lambda some: (some.below - some.written > 4).long()))
    by_sum = adder_tables(adder(lambda some: (some.below > 9).long() + (some.below == 9)
                        * (some.written == 0)))  # fmt: skip
    for tables in (by_difference, by_sum):
        whole = tables["without_head"].query("head == -1")
        assert whole["right"].item() == whole["n"].item() == 6050
    one, other = by_difference["carries"], by_sum["carries"]
    assert one["n"].sum() == 30_250 and (one["carry"] + one["none"] == one["n"]).all()
    possible = one["possible"]
    assert (one["carry"] == other["carry"])[possible].all()
    assert not (one["carry"] == other["carry"]).all()
    at = one.query("below == 18 and written == 0")
    assert at["carry"].item() == at["n"].item() and not at["possible"].item()


def test_an_adder_that_forgets_carries_is_wrong_by_them_alone(adder):
    tables = adder_tables(adder(lambda some: 0 * some.below))
    whole = tables["without_head"].query("head == -1").iloc[0]
    assert whole["right"] + whole["carry"] == whole["n"] and whole["carry"] > 2000


def test_shares_of_attention_add_up_and_maps_read_what_is_there():
    tables = adder_tables(System(load_run("addition_relative")))
    shares = tables["attention_places"].groupby("head")["share"].sum()
    assert len(shares) == 4 and torch.allclose(torch.tensor(shares.values), torch.ones(4).double())
    assert set(tables["read_positions"]["what"]) == {"sum", "carry", "answer"}
    assert (tables["read_positions"]["right"] <= tables["read_positions"]["n"]).all()
    assert (tables["without_head"]["low"] <= tables["without_head"]["accuracy"]).all()


@pytest.mark.parametrize(("window", "layers"), [(1, 1), ([0, 1], 2)])
def test_other_adders_are_refused(window, layers):
    pair = {"ids": "abacus", "encoding": "relative", "window": window}
    settings = {"task": {"name": "addition"}, "positions": [pair], "model": {"layers": layers}}
    with pytest.raises(SettingsError, match="does not fit . layers with .*; expected 1 layer"):
        adder_tables(System(make_run(settings)))
