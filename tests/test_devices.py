"""Every kind of row trains, is scored, asked, analysed and certified on a second device."""

import pandas as pd
import pytest
import torch

from carry import analyses
from carry.analyses import mechanism
from carry.certificates import verification
from carry.data import problem_sets
from carry.data.training_batches import draw_held_out
from carry.evaluation import decoding, trained_models
from carry.evaluation.ask import ask
from carry.evaluation.jobs import evaluate_runs
from carry.evaluation.scoring import score_system
from carry.experiments.base import SMOKE, merge
from carry.experiments.resolve import find_row, list_rows, load_run, make_run
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.jobs import train_runs
from carry.training.loop import Trainer
from fake_device import CPU, CUDA, FakeDevice, FakeGenerator, MixedDevices
from made_up_project import move_project

ANALYSED = {
    "addition_relative": ["reach", "local_adder", "faults"],
    "addition_line_rows_relative": ["lines"],
    "noisy_majority_d8_a4_shapley": ["heads"],
    "modular_addition_113": ["modular"],
    "addition_equal_learned": ["learning", "mechanism"],
    "addition_equal_learned_plain": ["milestones", "alignment"],
    "addition_equal_abacus_adaptive": ["depths"],
    "addition_five_digits": ["subtasks"],
    "multi_operand_addition_coupled": [],
    "multi_operand_addition_fire": ["attended"],
    "parity_nope": ["last_bits"],
}
ROWS = [
    *ANALYSED, "addition_abacus_20", "addition_abacus_looped", "addition_randomized_fire_hints",
    "sorting_abacus_fire", "multi_operand_addition_coupled_scratchpad_unpadded",
    "addition_equal_parts",
]  # fmt: skip
TINY = {"steps": 2, "batch": 8, "pool": 2, "score_every": 2, "score_problems": 8,
        "precision": "fp32"}  # fmt: skip


# What rows change that have no scale `smoke`, at the settings that all others have there.
MORE_ROWS = {
    "addition_line_rows_relative": {"evaluation": {"digits": 3, "reach": [[4, 4, 5]]}},
    "modular_addition_113": {"training": {"examples": 50},
                             "evaluation": {"problem_set": "modular_addition_113", "digits": 3}},
    "addition_equal_abacus_adaptive": {"training": {"examples": 300}},
    "addition_equal_learned_plain": {"training": {"examples": 300,
                                     "problem_set": "generalize_to_longer_tiny"}},
    "addition_five_digits": {"model": {"width": 24}},
    "multi_operand_addition_coupled": {"evaluation": {"attention_cell": [2, 2]}},
    "multi_operand_addition_coupled_scratchpad_unpadded": {
        "evaluation": {"digits": 3, "attention_cell": None}},
    "addition_randomized_fire_hints": {},
    "sorting_abacus_fire": {"evaluation": {"digits": 4, "far": [[2, 8]]}},
    "addition_equal_parts": {"training": {"examples": 300, "digits": 9},
                             "evaluation": {"digits": 9}},
    "addition_abacus_20": {"training": {"digits": 4},
                           "positions": [{"ids": "abacus", "encoding": "learned", "offset": 6,
                                          "per_example": True, "even": True}],
                           "evaluation": {"digits": 4, "far": [8], "starts": [1, "all"]}},
}  # fmt: skip


@pytest.fixture
def device(monkeypatch):
    """Make the fake device the one that every row trains on."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "Generator", FakeGenerator)
    with FakeDevice():
        yield


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Keep what rows write in a temporary folder, and let them be scored on two problems of a set.

    These are short.
    """
    move_project(monkeypatch, tmp_path)
    monkeypatch.setattr(mechanism, "PROBLEMS", dict.fromkeys(mechanism.PROBLEMS, 30))
    monkeypatch.setattr(mechanism, "TWINS", 5)
    load = problem_sets.load_questions

    def load_questions(run):
        table = load(run)
        table = table[table[["i", "j"]].max(axis=1) < 10].groupby(["set", "i"]).head(1)
        return table.sort_values(["i", "j"], kind="stable").groupby("set").head(2)

    monkeypatch.setattr(problem_sets, "load_questions", load_questions)


def load_tiny(row):
    """Return a row at the scale `smoke`, trained for two steps; also one without this scale."""
    found = find_row(row)
    settings = merge(found.resolve("smoke" if "smoke" in found.scales else "laptop"), SMOKE)
    settings = merge(settings, MORE_ROWS.get(row, {}))
    training = settings["training"]
    tiny = {} if training.get("batched_seeds") else TINY
    snapshots = {"snapshot_every": 1} if training.get("snapshot_every") else {}
    settings = merge(settings, {"seeds": 1, "training": {**tiny, "steps": 2, **snapshots}})
    return make_run(settings, row, scale="smoke")


@pytest.mark.parametrize("row", ROWS)
def test_every_kind_of_row_uses_one_device(home, device, row):
    run = load_tiny(row)
    train_runs([run])
    evaluate_runs([run])
    table, system = problem_sets.load_questions(run), trained_models.load_seed(run)
    assert system.device == CUDA
    on_cpu = trained_models.load_seed(run, device="cpu")
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
        assert analyses.analyse_seeds(module, run)


def test_every_analysis_of_a_gpu_is_run():
    wanted = {
        name
        for run in (load_run(row, "gpu") for row in list_rows(scale="gpu"))
        for name in run.analyses
    }
    assert wanted <= {name for names in ANALYSED.values() for name in names}


@pytest.mark.parametrize("row", ["addition_relative", "parity_relative_scratchpad"])
def test_certificates_are_computed_on_the_cpu(home, device, row):
    run = load_tiny(row)
    system = System(run, 0, CUDA)
    contexts = verification.find_contexts_or_conflict(system)
    certificate = verification.certify_model(system, contexts)
    expected = verification.certify_model(System(run, 0), contexts)
    assert certificate == expected


def list_gpu_kinds():
    """Return rows for a GPU that have every value of what a step can depend on at least once.

    That is the task with its format, each pair of ids and encoding, the architecture, the
    optimizer, the loss, and whether there are loops, dropout, padding and a mixture.
    """
    seen, chosen = set(), []
    for row in list_rows(scale="gpu"):
        run = load_run(row, "gpu")
        training, model = run.training, run.model
        values = {("pair", pair["ids"], pair["encoding"], "window" in pair)
                  for pair in run.positions}  # fmt: skip
        values |= {("task", run.task["name"], run.format.get("name"), run.format.get("hints")),
                   ("model", model.get("name"), model.get("recurrences", 1) > 1),
                   ("injection", model.get("injection")), ("loss", training.loss),
                   ("divided", model.get("divide_gradient")), ("average", training.loss_average),
                   ("optimizer", training.optimizer, training.precision),
                   ("dropout", training.dropout > 0), ("progressive", training.progressive > 0),
                   ("padding", training.random_padding > 0), ("spaces", run.format.get("spaces")),
                   ("mixture", bool(run.data_set and run.data_set.mixture))}  # fmt: skip
        if values - seen:
            chosen.append(row)
            seen |= values
    return chosen


def shrink(row, **more):
    """Return a row for a GPU as a tiny model of its kind."""
    run = load_run(row, "gpu")
    model = {**run.model, "width": 24, "heads": 2, "head_width": None, "hidden": 24,
             "layers": min(run.model.get("layers", 1), 2),
             "recurrences": min(run.model.get("recurrences", 1), 2)}  # fmt: skip
    digits = {} if run.data_set else {"digits": min(run.training.digits, 4)}
    examples = run.training.examples and min(run.training.examples, 300)
    training = {**TINY, **digits, "steps": 6, "examples": examples, "batch_ramp": 0.0, **more}
    if run.data_set is not None:
        small = run.data_set.model_copy(update={"test": 9, "validation": 9})
        run = run.model_copy(update={"data_set": small})
    evaluation = {"digits": training.get("digits", run.training.digits), "longest": None,
                  "far": [], "attention_cell": None}  # fmt: skip
    changes = {"model": model, "seeds": 1}
    changes["training"] = run.training.model_copy(update=training)
    changes["evaluation"] = run.evaluation.model_copy(update=evaluation)
    return run.model_copy(update=changes)


@pytest.mark.parametrize("row", list_gpu_kinds())
def test_rows_of_a_gpu_are_trained_there_and_scored_and_decoded_as_on_the_cpu(device, row):
    run = shrink(row, **{} if load_run(row, "gpu").data_set else {"digits": 2})
    assert Trainer(run, 0, None).train().device == CUDA
    systems = [System(run, 0, where) for where in (CPU, CUDA)]
    task = systems[0].task
    problems = draw_held_out(run, task, count=2)
    cells = pd.DataFrame(problems.lengths[:, [0, -1]].numpy(), columns=["i", "j"])
    table = problem_sets.to_table("grid", torch.tensor(cells.values), problems, task)
    scores = [score_system(system, table, [1])[0] for system in systems]
    pd.testing.assert_frame_equal(*scores)
    responses = [decoding.decode_greedily(system, problems) for system in systems]
    assert responses[0].equal(responses[1])


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
