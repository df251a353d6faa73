"""A factor on attention logits at evaluation: what is scored with it, and which one is chosen."""

import functools

import pandas as pd
import pytest
import torch

from carry import analyses
from carry.analyses import sharpness
from carry.analyses import starts as by_start
from carry.config.run_settings import make_run
from carry.config.settings import SettingsError
from carry.evaluation import mock_models, trained_models
from carry.evaluation.regions import refuse_band
from carry.evaluation.scoring import score_system
from carry.formats import to_text
from carry.models.system import System
from carry.randomness import stream
from made_up import accuracy_by_sharpness

PROBLEMS, score_factors = 6, sharpness.score_factors
ABACUS = {"ids": "abacus", "encoding": "learned", "table": 14}


def settings(positions=(ABACUS,), **more):
    return make_run({
        "task": {"name": "addition"}, "positions": list(positions), "seeds": 2,
        "model": {"layers": 3, "width": 8, "heads": 2}, "training": {"digits": 4},
        "evaluation": {"digits": 12, "band": True}, **more,
    })  # fmt: skip


class Unsure(System):
    """A network of random weights that is told what is right, and not loud enough."""

    def __init__(self, run, seed=0):
        super().__init__(run, seed)
        self.oracle = mock_models.Oracle(run)
        for layer in range(3):
            self.scale_queries(layer, 20.0)  # random ones attend to all keys alike

    def scale_queries(self, layer, factor):
        for weights in self.network.blocks[layer].query.parameters():
            weights.data *= factor

    def logits(self, batch, ids, at=None, recurrences=None):
        told = self.oracle.logits(batch, ids, at, recurrences)
        return super().logits(batch, ids, at, recurrences) + 2.2 * told


class Sharpened(mock_models.Oracle):
    """Right in sums of at most so many digits by each factor, and never in others."""

    def __init__(self, run, reach, seed=0):
        super().__init__(run, seed)

        class Network(mock_models.MockNetwork):
            def forward(self, tokens, ids, *more, **options):
                logits = super().forward(tokens, ids, *more, **options)
                digits = to_text(tokens[0]).index("+") - 1
                return logits if digits <= reach.get(self.sharpness, 0) else logits.roll(1, -1)

        self.network = Network(self)


def count_exact(table):
    return table.groupby(["set", "start"])["exact"].sum().to_dict()


def test_factor_1_is_the_scoring_of_the_row():
    """Of the same problems, with models that are sometimes right; other factors change them."""
    system = Unsure(settings())
    found = sharpness.score_factors(system, [0.5, 1.0, 2.0], count=30)
    problems = sharpness.draw_problems(system, count=30)
    part = problems.iloc[:: sharpness.PART]
    row = [score_system(system, *of)[0] for of in ((problems, [1]), (part, ["all"]))]
    expected = count_exact(pd.concat(row))
    assert count_exact(found[found["factor"] == 1.0]) == expected
    assert 0 < expected["trained", "1"] < 30 and len(expected) == 6
    for factor in (0.5, 2.0):
        assert count_exact(found[found["factor"] == factor]) != expected
    assert system.network.sharpness == 1.0


def test_a_factor_acts_on_the_attention_of_all_layers():
    """It is the same as query weights times it in every layer, and in no fewer."""
    systems = [Unsure(settings()) for _ in range(5)]
    scaled = [{}, {0, 1, 2}, {1, 2}, {0, 2}, {0, 1}]
    for system, layers in zip(systems, scaled, strict=True):
        for layer in layers:
            system.scale_queries(layer, 2.0)
    by_factor, same = (
        sharpness.score_factors(system, [factor], count=30)
        for system, factor in zip(systems, [2.0, 1.0], strict=False)
    )
    assert count_exact(same) == count_exact(by_factor)
    systems[0].network.sharpness = 2.0
    batch = systems[0].format.write(systems[0].task.draw(9, 9, stream(0, "test")))
    for system in systems:
        system.network.eval()
    expected, same, *others = [system.logits(batch, system.ids(batch)) for system in systems]
    torch.testing.assert_close(same, expected)
    for other in others:
        assert not torch.allclose(other, expected, atol=1e-3)


@pytest.mark.parametrize("factor", [0.0, -1.0, 101.0, float("nan"), "sharp", None])
def test_a_bad_factor_is_refused_before_any_work(factor, monkeypatch):
    monkeypatch.setattr(sharpness, "draw_problems", None)
    with pytest.raises(SettingsError, match=r"^runs\.mine\.evaluation\.sharpness: .*expected"):
        sharpness.score_factors(System(settings()), [1.0, factor])


@pytest.fixture
def analyse(monkeypatch):
    """Return what analyses a row of models that are right up to a length by each factor."""

    def tables(run, reach=None):
        monkeypatch.setattr(trained_models, "load_trained",
                            lambda profile, row, seed=0: Sharpened(run, reach, seed))  # fmt: skip
        monkeypatch.setattr(sharpness, "score_factors",
                            functools.partial(score_factors, count=PROBLEMS))  # fmt: skip
        monkeypatch.setattr("carry.config.run_settings.load_run", lambda row, profile: run)
        found = sharpness.tables("mine", "notebook")
        analyses.check_columns(found, sharpness.COLUMNS, "sharpness")
        return found["accuracy_by_sharpness"]

    return tables


@pytest.mark.parametrize(("reach", "chosen"), [
    ({}, 1.0), (dict.fromkeys(sharpness.FACTORS, 9), 1.0), ({0.8: 6, 1.5: 6, 1.0: 5}, 0.8),
    ({2.0: 6, 1.0: 5, 1.5: 12, 0.8: 12}, 0.8), ({1.0: 4, 1.5: 5, 2.0: 6, 0.8: 12}, 0.8),
    ({1.0: 12, 2.0: 6}, 1.0), ({1.0: 5, 1.25: 4, 2.0: 6}, 2.0),
])  # fmt: skip
def test_the_band_chooses_the_factor_and_the_nearest_to_1_of_equal_ones(reach, chosen, analyse):
    table = analyse(settings([]), reach)
    assert {*table.loc[table["chosen"], "factor"]} == {chosen}
    assert table["chosen"].sum() * len(sharpness.FACTORS) == len(table)
    right = table["digits"] <= table["factor"].map(reach).fillna(0)
    reported = table["set"] != "band"
    assert (table["accuracy"] == right)[reported].all()


def test_each_start_has_its_factor_from_its_own_scores():
    made = accuracy_by_sharpness(["addition_coupled_log"]).drop(columns="chosen")
    best = (made["start"] == "all") & (made["factor"] == 2.0) & (made["set"] == "band")
    table = sharpness.mark_chosen(made.assign(accuracy=made["accuracy"].mask(best, 1.0)))
    chosen = table[table["chosen"]].groupby("start")["factor"].unique()
    assert {start: [*of] for start, of in chosen.items()} == {"1": [1.5], "all": [2.0]}
    # A single seed moves no median of three.
    high = made["factor"].map({0.8: 1.0}).fillna(0.5)
    seeds = pd.concat([made.assign(seed=seed, accuracy=0.5) for seed in (1, 2)])
    table = sharpness.mark_chosen(pd.concat([made.assign(seed=0, accuracy=high), seeds]))
    assert {*table.loc[table["chosen"], "factor"]} == {1.0}


def test_it_scores_the_row_s_starts_and_reports_no_length_of_the_band(analyse):
    run = settings()
    table = analyse(run, {})
    refuse_band({"accuracy_by_sharpness": table}, [run])
    lengths = table.groupby("set")["digits"].unique()
    assert {*lengths["trained"]} == {4} and {*lengths["beyond"]} == {8, 12}
    assert table.loc[table["set"] == "band", "digits"].isna().all()
    counts = table.groupby(["set", "start"])["n"].unique().map(list).to_dict()
    whole, part = PROBLEMS, PROBLEMS // sharpness.PART
    assert counts == {
        (kind, start): [n * (2 if kind == "band" else 1)]
        for kind in ("trained", "band", "beyond") for start, n in (("1", whole), ("all", part))
    }  # fmt: skip
    assert {*table["seed"]} == {0, 1} and {*table["trained"]} == {4}
    for other in (settings([]), settings(evaluation={"digits": 12, "starts": [1, 2]})):
        assert {*analyse(other, {})["start"]} == {"1"}


def test_its_problems_are_its_own_and_those_of_all_models():
    systems = [System(settings()), System(settings([]), seed=1)]
    one, other = (sharpness.draw_problems(system, count=5) for system in systems)
    pd.testing.assert_frame_equal(one, other)
    _, drawn_by_start = by_start._draw_problems(systems[0], 4, 5)
    assert not torch.equal(drawn_by_start.operands, sharpness_operands(one))


def sharpness_operands(table):
    """Return the digits of the trained length, least significant first."""
    texts = [row.split() for row in table.loc[table["set"] == "trained", "operands"]]
    return torch.tensor([[[int(digit) for digit in n[::-1]] for n in of] for of in texts])


@pytest.mark.parametrize(("changes", "message"), [
    ({"training": {"digits": 1}}, "training.digits 1 and tests to 12 digits; expected a val"),
    ({"evaluation": {"digits": 6}}, "training.digits 4 and tests to 6 digits; expected a val"),
])  # fmt: skip
def test_a_row_without_band_or_tests_beyond_it_is_refused(changes, message, analyse):
    with pytest.raises(SettingsError, match=r"^analyses\..*'sharpness' does not fit " + message):
        analyse(settings(**changes), {})


def test_a_model_without_attention_is_refused(monkeypatch):
    system = System(settings([]))
    monkeypatch.setattr(type(system.network), "has_attention", False)
    monkeypatch.setattr(trained_models, "load_trained", lambda *of: system)
    system.run.model["name"] = "recurrent"
    with pytest.raises(SettingsError, match="^analyses.mine: 'sharpness' .* 'recurrent', .*expect"):
        sharpness.tables("mine", "notebook")
