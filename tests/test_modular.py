"""Waves in modular addition are found where they are, and what is near to what is measured."""

import math

import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from carry import analyses
from carry.analyses import modular
from carry.config import paths
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation import mistakes
from carry.evaluation.scoring import score_system
from carry.experiments.resolve import make_run
from carry.formats import FIRST_LETTER
from carry.interpretability import fourier, number_grid
from carry.interpretability.grokking import find_phases
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream
from carry.training.jobs import train_runs

WAVES = {3: 30.0, 8: 20.0, 14: 10.0}
PRIME = 31
ROW = "modular_addition_113"


def tiny(modulus=13, form="one_hot", **training):
    return make_run(
        {
            "task": {"name": "modular_addition", "modulus": modulus, "share": 0.3},
            "format": {"name": form},
            "positions": [{"ids": "index", "encoding": "learned"}],
            "model": {"layers": 1, "width": 16, "heads": 2, "norm": "none", "biases": False},
            "training": {"digits": 2, "steps": 4, "batch": 16, "pool": 2, "examples": 40,
                         "score_problems": 16, "snapshot_every": 2, **training},
            "evaluation": {"digits": 2},
        },
        ROW,
    )  # fmt: skip


def losses(logits):
    return F.cross_entropy(logits, fourier.modular_sums(PRIME), reduction="none")


def restrict(logits, keys):
    return fourier.project_on_waves(logits, [0, *keys])


def exclude(logits, keys):
    return logits - fourier.project_on_waves(logits, keys)


def rotation_logits():
    """Return the logits of a model that adds by rotation."""
    difference = fourier.modular_sums(PRIME)[:, None] - torch.arange(PRIME).double()
    return sum(size * torch.cos(2 * math.pi * k / PRIME * difference) for k, size in WAVES.items())


def test_a_model_that_rotates_is_explained_by_just_its_waves(monkeypatch):
    logits = rotation_logits()
    assert torch.equal(logits.argmax(1), fourier.modular_sums(PRIME))
    explained = fourier.explained_variance(7.0 + logits)
    total = sum(amplitude**2 for amplitude in WAVES.values())
    for frequency, share in enumerate(explained.tolist(), start=1):
        assert share == pytest.approx(WAVES.get(frequency, 0.0) ** 2 / total, abs=1e-12)
    for share, expected in ((0.99, [*WAVES]), (0.9, [3, 8])):
        monkeypatch.setattr(fourier, "KEY_SHARE", share)
        assert fourier.find_key_frequencies(explained) == expected


def test_restricted_logits_know_all_and_excluded_logits_nothing():
    logits = rotation_logits()
    assert losses(restrict(logits, [*WAVES])).max() < 1e-4
    chance = math.log(PRIME)
    assert losses(exclude(logits, [*WAVES])) == pytest.approx(chance, abs=1e-9)
    assert losses(restrict(logits, [5, 6])) == pytest.approx(chance, abs=1e-9)
    assert torch.allclose(exclude(logits, [5, 6]), logits)


def test_what_is_memorised_is_excluded_from_no_wave():
    """Logits that are right on some pairs alone keep that when key waves are taken out."""
    seen = torch.rand(PRIME**2, generator=stream(0, "test")) < 0.3
    logits = torch.zeros(PRIME**2, PRIME, dtype=torch.float64)
    logits[seen, fourier.modular_sums(PRIME)[seen]] = 30.0
    assert losses(exclude(logits, [*WAVES]))[seen].mean() < 0.01
    assert losses(restrict(logits, [*WAVES])).mean() > 0.5 * math.log(PRIME)


@pytest.mark.parametrize("numbers", [12, 13])
def test_power_is_shared_out_as_a_slow_sum_says(numbers):
    weights = torch.randn(numbers, 5, generator=stream(1, "test"), dtype=torch.float64)
    number = torch.arange(numbers, dtype=torch.float64)
    power = []
    for frequency in range(1, numbers // 2 + 1):
        turn = 2 * math.pi * frequency / numbers * number
        waves = [torch.cos(turn), torch.sin(turn)]
        waves = [wave / wave.norm() for wave in waves if wave.norm() > 1e-6]  # sin(pi n) is 0
        power.append(sum(float((wave @ weights).square().sum()) for wave in waves))
    expected = [of / sum(power) for of in power]
    assert fourier.compute_spectrum(weights).tolist() == pytest.approx(expected)


def test_noise_lies_on_no_circle():
    """A plane fitted to the very numbers that are drawn would show one, with so many features."""
    noise = torch.randn(113, 128, generator=stream(2, "test"))
    turn = 2 * math.pi * 5 / 113 * torch.arange(113.0)
    waves = torch.stack([torch.cos(turn), torch.sin(turn)], dim=1)
    turned = noise + 2 * waves @ torch.randn(2, 128, generator=stream(3, "test"))
    alike = [(fourier.project_on_circle(of, 5) * waves).sum(1).mean() for of in (noise, turned)]
    assert abs(alike[0]) < 0.15 and alike[1] == pytest.approx(1.0, abs=0.1)


def every_pair(system):
    return modular.write_pairs(system, torch.arange(system.task.modulus**2))


def test_the_waves_of_weights_that_are_set_by_hand_are_its_key_frequencies():
    system = System(tiny(PRIME))
    turn = 2 * math.pi * torch.arange(PRIME)[:, None] * torch.tensor([3.0, 8.0]) / PRIME
    waves = torch.cat([torch.cos(turn), torch.sin(turn)], dim=1)
    network = system.network
    with torch.no_grad():
        network.logits.weight.zero_()
        network.logits.weight[FIRST_LETTER : FIRST_LETTER + PRIME, :4] = waves
    matrices = modular.number_matrices(system).values()
    embedding, neurons = (fourier.compute_spectrum(matrix) for matrix in matrices)
    assert fourier.find_key_frequencies(neurons) == [3, 8]
    assert len(fourier.find_key_frequencies(embedding)) > 8
    assert modular.compute_number_logits(system, every_pair(system)).shape == (PRIME**2, PRIME)


def test_number_logits_are_those_of_a_plain_pass():
    system = System(tiny())
    a, b = 5, 11
    batch = modular.write_pairs(system, torch.tensor([a * 13 + b]))
    assert batch.tokens[0, 1:3].tolist() == [FIRST_LETTER + a, FIRST_LETTER + b]
    assert int(batch.tokens[0, 4]) == FIRST_LETTER + (a + b) % 13
    logits = system.logits(batch, system.ids(batch))[0, 3]  # what follows the equals sign
    wanted = logits[FIRST_LETTER : FIRST_LETTER + 13].double()
    assert torch.allclose(
        modular.compute_number_logits(system, every_pair(system))[a * 13 + b], wanted, atol=1e-5
    )


@pytest.mark.parametrize("form", ["one_hot", "expression", "binary"])
def test_equal_sums_are_held_out_and_no_mirrors(form):
    system = System(tiny(101, form))
    one, two, answers = modular.draw_equal_sums(system)
    seen = system.task.trained_pairs()
    assert not seen[one].any() and not seen[two].any() and len(one) == modular.SAMPLED_PAIRS
    for pairs in (one, two):
        assert torch.equal((pairs // 101 + pairs % 101) % 101, answers)
    assert ((one // 101 != two // 101) & (one // 101 != two % 101)).all()
    found = modular.measure_nearness(system).set_index("kind")
    assert (found["low"] <= found["cosine"]).all() and (found["cosine"].abs() <= 1).all()
    assert ("their number" in found.index) == (form == "one_hot")
    assert abs(found.loc["other sums", "cosine"]) < 0.15  # of unrelated pairs, means taken off


def trained_row(form, modulus, folder, monkeypatch):
    """Train a tiny row in a store of its own, and return its tables."""
    run = tiny(modulus, form).model_copy(update={"seeds": 2})
    monkeypatch.setattr(paths, "STORE", folder)
    for seed in range(2):
        train_runs([run], [seed])
    return analyses.analyse_seeds(modular, run)


def test_tables_of_a_trained_row_have_their_columns(tmp_path, monkeypatch):
    found = trained_row("one_hot", 13, tmp_path, monkeypatch)
    assert set(found) == set(modular.COLUMNS) - {"grid", "plane"}
    progress = found["progress"]
    assert sorted(progress["step"].unique()) == [0, 2, 4] and set(progress["seed"]) == {0, 1}
    whole = progress[progress["set"] == "all"]
    assert set(whole["n"]) == {169} and whole["restricted"].notna().all()
    parts = progress[progress["set"] != "all"].groupby(["seed", "step"])
    assert (parts["correct"].sum() == whole.set_index(["seed", "step"])["correct"]).all()


@pytest.mark.parametrize("form", ["expression", "binary"])
def test_rows_without_a_symbol_for_each_number_have_no_waves(form, tmp_path, monkeypatch):
    found = trained_row(form, 13, tmp_path, monkeypatch)
    digits = {"grid", "plane"} if form == "expression" else set()
    assert set(found) == {"progress", "nearness"} | digits
    for name in digits:
        assert {*found[name].columns} <= {*modular.COLUMNS[name], "label", "trained"}
    assert found["progress"]["restricted"].isna().all() and found["progress"]["loss"].notna().all()


def test_numbers_are_embedded_before_the_model_has_read_more_than_them():
    system = System(tiny(300, "expression"))
    grid = modular.embed_numbers(system)
    assert grid.shape[:3] == (2, 10, 10)
    for number, second in ((100, 7), (274, 31)):
        batch = modular.write_pairs(system, torch.tensor([number * 300 + second]))
        hooks = Hooks(["0.resid_post"])
        system.network(batch.tokens, system.ids(batch), hooks=hooks)
        place = (number // 100 - 1, number // 10 % 10, number % 10)
        torch.testing.assert_close(grid[place], hooks["0.resid_post"][0, 3].double())


def test_a_grid_has_the_share_of_variance_that_was_put_in():
    """Parts of each place, with a rest whose means over each place are 0."""
    draws = stream(0, "test", "grid")
    parts = [torch.randn(size, 6, generator=draws, dtype=torch.float64) for size in (9, 10, 10)]
    parts = [part - part.mean(0) for part in parts]
    rest = torch.randn(9, 10, 10, 6, generator=draws, dtype=torch.float64)
    for place in range(3):
        rest = rest - rest.mean([other for other in range(3) if other != place], keepdim=True)
    grid = parts[0][:, None, None] + parts[1][:, None] + parts[2] + rest
    for found, part in zip(number_grid.find_parts(grid + 5.0), parts, strict=True):
        torch.testing.assert_close(found, part)
    table = number_grid.describe_grid(grid).set_index("place")
    total = grid.square().sum(-1).mean()
    due = [float(part.square().sum(1).mean() / total) for part in parts]
    assert table.loc[["1", "2", "3"], "share"].tolist() == pytest.approx(due)
    assert table.loc["all", "share"] == pytest.approx(
        1 - float(rest.square().sum(-1).mean() / total)
    )


def test_random_numbers_are_no_grid_and_their_digits_no_line():
    vectors = torch.randn(9, 10, 10, 64, generator=stream(0, "test", "noise"))
    table = number_grid.describe_grid(vectors).set_index("place")
    assert table.loc["all", "share"] == pytest.approx(26 / 899, rel=0.1)
    assert (table["line"].dropna() < 0.3).all() and (table["circle"].dropna() < 0.5).all()


def test_many_pairs_are_sampled_the_same_each_time(monkeypatch):
    monkeypatch.setattr(modular, "MAX_PAIRS", 100)
    monkeypatch.setattr(modular, "SAMPLED_PAIRS", 20)
    system = System(tiny())
    some, again = modular.choose_pairs(system), modular.choose_pairs(System(tiny()))
    seen = system.task.trained_pairs()
    assert all(torch.equal(some[name], again[name]) for name in some)
    assert seen[some["trained"]].all() and not seen[some["held out"]].any()
    assert [len(of) for of in some.values()] == [20, 20]


def test_rows_that_have_nothing_to_look_at_are_refused():
    with pytest.raises(
        SettingsError, match=rf"^runs.{ROW}.training.snapshot_every: None does not fit"
    ):
        modular.tables(System(tiny(snapshot_every=None)))


def made(accuracy, restricted):
    step, parts = range(0, 10 * len(restricted), 10), []
    for name in ("trained", "all"):
        of = {"set": name, "step": step, "accuracy": accuracy, "restricted": restricted}
        parts.append(pd.DataFrame(of))
    return pd.concat(parts)


def list_ends(accuracy, restricted):
    phases = find_phases(made(accuracy, restricted).assign(seed=7))
    assert set(phases["seed"]) == {7} and phases["begin"].iloc[0] == 0
    assert phases["begin"].tolist()[1:] == phases["end"].tolist()[:-1]
    return dict(phases[["phase", "end"]].values.tolist())


def test_phases_follow_each_other_up_to_the_last_snapshot():
    shares, loss = [0, 0.5, 1, 1, 1], [5, 4, 0.1, 0, 0]
    assert list_ends(shares, loss) == {"memorisation": 20, "clean-up": 40}  # both: no grokking
    assert list_ends(shares, [5, 5, 5, 0.4, 0]) == {
        "memorisation": 20, "circuit formation": 30, "clean-up": 40
    }  # fmt: skip
    assert list_ends(shares, [5, 5, 5, 4, 3]) == {"memorisation": 20, "circuit formation": 40}
    assert list_ends([0] * 5, loss) == {"memorisation": 40}


@pytest.mark.parametrize("form", ["one_hot", "expression", "binary"])
def test_no_fault_moves_an_operand_past_the_modulus(form):
    system = System(tiny(form=form))
    _, problems, names = system.task.enumerate_problems()
    assert mistakes.compute_mistaken_digits(system.task, problems) == []
    given = {"task": system.run.task, "every": True}
    table = problem_sets.draw_problem_set(
        "mine", problem_sets.ProblemSet.parse(given, "problems.mine")
    )
    cells = score_system(system, table)[0]
    assert cells.groupby("set")["n"].sum().to_dict() == {
        name: names.count(name) for name in ("trained", "held out")
    }
