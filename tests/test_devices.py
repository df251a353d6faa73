"""Every kind of row trains, is scored, asked, analysed and certified on a second device."""

import pandas as pd
import pytest
import torch

from carry.analyses import mechanism
from carry.certificates import verification
from carry.config import paths, profiles, run_settings
from carry.data import problem_sets
from carry.evaluation import decoding, trained_models
from carry.evaluation.ask import ask
from carry.evaluation.rows import evaluate_rows
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.rows import train_runs
from fake_device import CPU, CUDA, FakeDevice, FakeGenerator, MixedDevices

ANALYSED = {
    "addition_relative": ["reach", "local_adder", "faults"],
    "addition_line_rows_relative": ["lines"],
    "noisy_majority_d8_a4_shapley": ["heads"],
    "modular_addition_113": ["modular"],
    "addition_equal_learned": ["learning", "mechanism"],
    "addition_equal_abacus_adaptive": ["depths"],
    "addition_five_digits": ["subtasks"],
    "multi_operand_addition_coupled": [],
}
ROWS = [
    *ANALYSED, "addition_abacus_looped", "addition_randomized_fire_hints", "sorting_abacus_fire",
    "multi_operand_addition_coupled_scratchpad_unpadded", "addition_equal_parts",
]  # fmt: skip
TINY = {"steps": 2, "batch": 8, "pool": 2, "score_every": 2, "score_problems": 8,
        "precision": "fp32"}  # fmt: skip


# Rows and problem sets that the smoke profile does not have, at its scale.
MORE_ROWS = {
    "addition_line_rows_relative": {"evaluation": {"digits": 3, "reach": [[4, 4, 5]]}},
    "modular_addition_113": {"task": {"modulus": 13}, "training": {"examples": 50},
                             "evaluation": {"digits": 3}},
    "addition_equal_abacus_adaptive": {},
    "addition_five_digits": {"model": {"width": 24}},
    "multi_operand_addition_coupled": {"evaluation": {"attention_cell": [2, 2]}},
    "multi_operand_addition_coupled_scratchpad_unpadded": {"evaluation": {"attention_cell": None}},
    "addition_randomized_fire_hints": {},
    "sorting_abacus_fire": {"evaluation": {"digits": 4, "far": [[2, 8]]}},
    "addition_equal_parts": {"training": {"examples": 300}, "evaluation": {"digits": 4}},
}  # fmt: skip
MORE_PROBLEMS = {
    "sorting": {"grid": 4, "each": 2, "equal": 4, "far": [{"i": 2, "j": 8, "each": 3}]},
    "modular_addition_113": {"task": {"modulus": 13}},
    "generalize_to_longer_small_multitask": {"lengths": [1, 3], "beyond": [2, 4], "test": 9,
                                             "validation": 9},
}  # fmt: skip


@pytest.fixture
def device(monkeypatch):
    """Make the fake device the one that every row trains on."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "Generator", FakeGenerator)
    with FakeDevice():
        yield CUDA


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Keep what rows write in a temporary folder, and make rows of the smoke profile smaller."""
    load, smoke = run_settings.load_run, profiles.load_profile("smoke")
    more = {"rows": MORE_ROWS, "problems": MORE_PROBLEMS}
    smoke = profiles.merge_settings(smoke, more)
    monkeypatch.setattr(profiles, "load_profile", lambda name: smoke)

    def load_tiny(name, profile):
        run = load(name, profile)
        tiny = {} if run.training.batched_seeds else TINY
        snapshots = {"snapshot_every": 1} if run.training.snapshot_every else {}
        training = run.training.model_copy(update={**tiny, "steps": 2, **snapshots})
        return run.model_copy(update={"seeds": 1, "training": training})

    monkeypatch.setattr(run_settings, "load_run", load_tiny)
    monkeypatch.setattr(mechanism, "PROBLEMS", dict.fromkeys(mechanism.PROBLEMS, 30))
    monkeypatch.setattr(mechanism, "TWINS", 5)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    return tmp_path


def write_questions(run):
    """Write a few short problems that score a row."""
    name = problem_sets.get_problem_set_name(run)
    settings = problem_sets.load_problem_set(name, "smoke")
    table = problem_sets.select_questions(run, problem_sets.draw_problem_set(name, settings))
    table = table[table[["i", "j"]].max(axis=1) < 10].groupby(["set", "i"]).head(1)
    table = table.groupby("set").head(3)
    path = problem_sets.find_questions_file(run)
    path.parent.mkdir(parents=True)
    table.to_parquet(path, index=False)
    return table


@pytest.mark.parametrize("row", ROWS)
def test_every_kind_of_row_uses_one_device(home, device, row):
    run = run_settings.load_run(row, "smoke")
    table = write_questions(run)
    train_runs([run])
    evaluate_rows([row], "smoke")
    system = trained_models.load_trained("smoke", row)
    assert system.device == CUDA
    on_cpu = trained_models.load_trained("smoke", row, device="cpu")
    assert on_cpu.device == CPU

    question = table["operands"].iloc[0].split()
    pd.testing.assert_frame_equal(ask(system, *question), ask(on_cpu, *question))
    problems = problem_sets.to_problems(table, system.task)
    batch = system.format.write(problems)
    response = decoding.decode_greedily(system, problems)
    assert response.device == CPU
    assert response.equal(decoding.decode_greedily(on_cpu, problems))
    logits = system.logits(batch, system.ids(batch))
    assert logits.device == CPU
    if system.format.marks_known_from_question:
        result = teacher_forced_pass(system, batch)
        assert result.predicted.device == result.target.device == CPU
    for name in ANALYSED.get(row, []):
        module = __import__(f"carry.analyses.{name}", fromlist=["tables"])
        assert module.tables(row, "smoke")


@pytest.mark.parametrize("row", ["addition_relative", "parity_relative_scratchpad"])
def test_certificates_are_computed_on_the_cpu(home, device, row):
    run = run_settings.load_run(row, "smoke")
    system = System(run, 0, CUDA)
    contexts = verification.find_contexts_or_conflict(system)
    certificate = verification.certify_model(system, contexts)
    expected = verification.certify_model(System(run, 0), contexts)
    assert certificate == expected


def test_the_fake_device_refuses_mixed_devices(device):
    one, other = torch.ones(3, device=CUDA), torch.ones(3)
    assert one.device == CUDA and (one * 2).device == CUDA and one[0].cpu().device == CPU
    for mix in (lambda: one + other, lambda: torch.cat([one, other]), lambda: other[one.long()],
                lambda: one.numpy(), lambda: torch.rand(3, device=CUDA, generator=stream(0)),
                lambda: torch.where(one > 0, other, other)):  # fmt: skip
        with pytest.raises(MixedDevices):
            mix()
    assert (one + other.to(CUDA)).sum() == 6 and (one + torch.tensor(1.0)).device == CUDA
    assert stream(0, device=CUDA).device == CUDA
