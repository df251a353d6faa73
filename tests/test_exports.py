"""Exported models: identical logits, numbers of the results, and one line for what does not fit."""

import json
import re
import shutil
from pathlib import Path

import huggingface_hub
import pandas as pd
import pytest
import safetensors.torch
import torch

from carry import cli
from carry.config import params, paths
from carry.config.settings import SettingsError
from carry.data.tables import FORMER_START
from carry.evaluation import trained_models
from carry.evaluation.ask import ask, make_problem, read_answer
from carry.experiments import resolve
from carry.experiments.resolve import make_run
from carry.exports import (
    CARD,
    CONFIG,
    SNAPSHOTS,
    WEIGHTS,
    load_exported,
    load_exported_snapshots,
    write_model,
)
from carry.exports.card import export_model, find_certificate, make_card, score_model
from carry.models.system import System
from carry.randomness import stream
from carry.training.jobs import train_runs
from made_up_project import move_project

ABACUS = [{"ids": "abacus", "encoding": "learned", "offset": 25}]
LOOPED = {"layers": 1, "recurrences": 3, "injection": "every_layer", "width": 16, "heads": 2}
RUNS = {
    "looped": {"positions": ABACUS, "model": LOOPED, "label": "Looped"},
    "tied": {"model": {"width": 16, "heads": 2, "tied": True}},
}


def make_system(name, seed=3):
    system = System(make_run({"task": {"name": "addition"}, **RUNS[name]}), seed)
    system.network.eval()
    return system


def compute_logits(system):
    problems = system.task.draw(8, digits=6, generator=stream(0, "export"))
    batch = system.format.write(problems)
    with torch.inference_mode():
        return system.logits(batch, system.ids(batch, start=2))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return the exports of a certified row and of one that is not, written by the command."""
    folder = tmp_path_factory.mktemp("exports")
    for row in ("addition_relative", "addition_abacus"):
        cli.run_command(["export", row, "--to", str(folder / row)])
    return folder


def read_metadata(folder):
    return huggingface_hub.ModelCard((folder / CARD).read_text(encoding="utf-8")).data


@pytest.mark.parametrize("name", RUNS)
def test_an_exported_model_has_identical_logits(name, tmp_path):
    system = make_system(name)
    write_model(system, tmp_path)
    again = load_exported(tmp_path)
    assert (again.run, again.seed, again.run.label) == (system.run, 3, system.run.label)
    assert not again.network.training
    assert torch.equal(compute_logits(again), compute_logits(system))


def test_committed_weights_load_without_the_pipeline(exported, monkeypatch):
    """Neither experiments nor params.yaml are read."""
    expected = compute_logits(trained_models.load_committed("addition_relative"))
    monkeypatch.setattr(params, "load_params", None)
    monkeypatch.setattr(resolve, "load_rows", None)
    system = load_exported(str(exported / "addition_relative"))
    assert torch.equal(compute_logits(system), expected)
    assert read_answer(system, ask(system, 653, 49)) == "702"


def test_the_program_of_a_card_runs(exported, monkeypatch, capsys):
    folder = exported / "addition_relative"
    (program,) = re.findall(r"```python\n(.*?)```", (folder / CARD).read_text("utf-8"), re.DOTALL)
    a, b = map(int, re.findall(r'"(\d+)"', program))
    monkeypatch.chdir(folder)
    exec(compile(program, "card", "exec"), {})
    assert int(capsys.readouterr().out) == a + b
    assert len(program.strip().splitlines()) <= 6


def test_a_card_has_the_numbers_of_the_results(exported):
    """Each accuracy is that of the cells of seed 0, counted once more here."""
    cells = pd.read_parquet(paths.results_folder("addition_schemes") / "cells.parquet")
    cells = cells[(cells["row"] == "addition_abacus") & (cells["seed"] == 0)]
    assert set(cells["scale"]) == {"laptop"}
    cells = cells[cells["start"] != FORMER_START]
    counted = {}
    for cell in cells.itertuples():
        inside = max(cell.i, cell.j) <= cell.trained
        counts = counted.setdefault((cell.start, cell.set, inside), [0, 0])
        counts[0] += cell.exact
        counts[1] += cell.n
    data = read_metadata(exported / "addition_abacus")
    assert data.model_name == "addition_abacus, seed 0" and data.license == "mit"
    values = sorted((result.metric_value, int(result.metric_name.rsplit(" ", 1)[1]))
                    for result in data.eval_results)  # fmt: skip
    assert values == sorted((round(exact / n, 6), n) for exact, n in counted.values())
    text = (exported / "addition_abacus" / CARD).read_text("utf-8")
    for exact, n in counted.values():
        if exact < n - n // 1000:
            assert f"| {exact / n:.1%} (" in text and f"| {n} |" in text


def test_scores_of_a_card():
    """The row's median and range count each seed once, and far sizes have a line each."""
    system = make_system("looped", seed=1)
    cells = pd.DataFrame(
        [(seed, set_, i, i, 10, exact)
         for seed, exact in enumerate([2, 5, 10])
         for set_, i in [("equal", 10), ("equal", 11), ("equal", 12), ("far", 90), ("far", 99)]],
        columns=["seed", "set", "i", "j", "n", "exact"],
    ).assign(start="1", trained=10)  # fmt: skip
    scores = score_model(system, cells).set_index(["region", "low_size", "high_size"])
    assert [*scores.index] == [
        ("in distribution", 10, 10), ("out of distribution", 11, 12), ("far", 90, 90),
        ("far", 99, 99),
    ]  # fmt: skip
    assert scores["n"].tolist() == [10, 20, 10, 10] and set(scores["accuracy"]) == {0.5}
    assert not scores["learned"].any(), "5 of 10 at the trained size"
    (spread,) = scores[["least", "median", "most", "seeds"]].drop_duplicates().values.tolist()
    assert spread == [0.2, 0.5, 1.0, 3]
    assert (scores["low"] < 0.5).all() and (scores["high"] > 0.5).all()
    card = make_card(system, scores.reset_index(), None)
    assert "At its worst trained size it is right on less than 95% of the problems." in card
    assert "beyond sizes of 99 is unknown" in card and "# mine, seed 1" in card
    assert "row `mine` of carry, scale `laptop`, seed 1" in card
    learned = score_model(system, cells.assign(exact=cells["n"] - 3 * (cells["i"] > 10)))
    assert "worst trained size" not in make_card(system, learned, None)
    unknown = score_model(system, cells[cells["i"] > 10])
    assert unknown["learned"].isna().all()
    assert "worst trained size" not in make_card(system, unknown, None)
    none = score_model(system, cells[cells["seed"] == 0])
    assert none.empty and "Not measured" in make_card(system, none, None)


@pytest.mark.parametrize("radix", [2, 16, 60])
def test_the_question_of_a_card_is_in_the_base_of_the_task(radix):
    """The model can be asked for the operands, which have a symbol for each digit."""
    run = make_run({"task": {"name": "addition", "radix": radix}, "model": {"width": 8}})
    system = System(run)
    card = make_card(system, pd.DataFrame(), None)
    (question,) = re.findall(r"make_problem\(system.task, \[(.*?)\]\)", card)
    operands = re.findall(r'"(\w+)"', question)
    drawn = system.task.draw(1, 3, stream(0, "model card"))
    assert torch.equal(make_problem(system.task, operands).trim().operands, drawn.trim().operands)
    assert len(ask(system, *operands))


def test_a_certificate_is_of_exactly_these_weights(exported):
    text = {row: (exported / row / CARD).read_text("utf-8") for row in
            ("addition_relative", "addition_abacus")}  # fmt: skip
    assert "exact at every length: correct in all" in text["addition_relative"]
    assert "no certificate" in text["addition_abacus"]
    assert "more than 35 ids" in text["addition_abacus"]
    system = load_exported(exported / "addition_relative")
    assert find_certificate(system)["seed"] == 0
    with torch.no_grad():
        next(system.network.parameters()).view(-1)[0] += 1e-6
    assert find_certificate(system) is None


def test_a_later_export_replaces_an_earlier_one(exported, tmp_path, capsys):
    shutil.copytree(exported / "addition_abacus", tmp_path / "mine")
    cli.run_command(["export", "addition_relative", "--seed", "1", "--to", str(tmp_path / "mine")])
    assert capsys.readouterr().out == f"{tmp_path / 'mine'}\n"
    assert load_exported(tmp_path / "mine").seed == 1
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == [CARD, CONFIG, WEIGHTS]


def test_a_row_that_is_trained_here_without_results(tmp_path, monkeypatch):
    """The default folder is in data/, which git ignores."""
    move_project(monkeypatch, tmp_path)
    row = resolve.list_rows(scale="smoke")[0]
    run = resolve.load_run(row, "smoke")
    train_runs([run], [0])
    cli.run_command(["export", row, "--scale", "smoke"])
    target = tmp_path / "data" / "exports" / row / "seed_0"
    assert load_exported(target).run == run
    assert "Not measured" in (target / CARD).read_text(encoding="utf-8")


def test_snapshots_of_training(tmp_path, monkeypatch):
    """They are states of the exported network, the last of which has the exported weights."""
    move_project(monkeypatch, tmp_path)
    training = {"steps": 5, "batch": 4, "score_problems": 4, "snapshot_every": 2}
    settings = {"task": {"name": "addition"}, "model": {"width": 8}, "training": training}
    run = make_run(settings)
    train_runs([run], [0])
    system, folder = trained_models.load_seed(run, device="cpu"), tmp_path / "mine"
    export_model(system, folder, with_snapshots=True)
    assert "after steps 2, 4, 5 of training" in (folder / CARD).read_text("utf-8")
    snapshots, again = load_exported_snapshots(folder), load_exported(folder)
    assert [*snapshots] == [2, 4, 5]
    assert all(torch.equal(snapshots[5][name], weights)
               for name, weights in again.network.state_dict().items())  # fmt: skip
    again.network.load_state_dict(snapshots[2])
    assert not torch.equal(compute_logits(again), compute_logits(system))
    content = (folder / SNAPSHOTS).read_bytes()
    (folder / SNAPSHOTS).write_bytes(content[:-1])
    refuse(folder, "snapshots.safetensors: damaged", load_exported_snapshots)
    export_model(system, folder)  # without: those of an earlier export do not stay
    assert sorted(path.name for path in folder.iterdir()) == [CARD, CONFIG, WEIGHTS]
    refuse(folder, "missing; expected an export with `--snapshots`", load_exported_snapshots)
    (folder / CONFIG).unlink()
    refuse(folder, "expected a folder of `carry export`", load_exported_snapshots)


def refuse(folder, words, load=load_exported):
    with pytest.raises(SettingsError, match=words) as error:
        load(folder)
    assert "\n" not in str(error.value)


def test_damaged_exports_are_refused(exported, tmp_path):
    folder = tmp_path / "mine"
    refuse(folder, "config.json': missing; expected a folder of `carry export`")
    shutil.copytree(exported / "addition_relative", folder)
    config, weights = (folder / name for name in (CONFIG, WEIGHTS))
    tensors, content = safetensors.torch.load_file(weights), weights.read_bytes()
    name = next(iter(tensors))
    for changed in ({**tensors, name: tensors[name] + 1}, {**tensors, "other": torch.ones(1)}):
        safetensors.torch.save_file(changed, weights)
        refuse(folder, r"model.safetensors: damaged \(")
    weights.write_bytes(content[:-5])
    refuse(folder, r"model.safetensors: damaged \(")
    weights.unlink()
    refuse(folder, "model.safetensors': missing")
    weights.write_bytes(content)
    settings = json.loads(config.read_text(encoding="utf-8"))
    for change, words in (
        ({"model_type": "bert"}, "another model .*; expected a folder of"),
        ({"weights": "0" * 64}, r"not the weights of config.json\)"),
        ({"run": {**settings["run"], "widht": 1}}, "widht: unknown setting"),
    ):
        config.write_text(json.dumps({**settings, **change}), encoding="utf-8")
        refuse(folder, words)
    config.write_text(json.dumps({"model_type": "carry"}), encoding="utf-8")
    refuse(folder, r"config.json: damaged \('run'\)")


def test_files_of_others_are_not_replaced(tmp_path, monkeypatch, capsys):
    """Such as the project's own README.md; nothing is written."""
    monkeypatch.chdir(tmp_path)
    Path(CARD).write_text("mine", encoding="utf-8")
    Path("note.txt").write_text("mine", encoding="utf-8")
    for words, expected in (
        (["addition_relative", "--to", "."], "has another README.md; expected an empty folder"),
        (["addition_relative", "--to", "note.txt"], "is a file; expected a folder"),
        (["addition_nope"], "seed 0 is not trained here, and reports/models/addition_nope/seed_0"),
        (["addition_relative", "--seed", "99"], "seed 99 is not trained here"),
        (["addition_relative", "--to", "new", "--snapshots"], "is in git without snapshots; exp"),
    ):
        with pytest.raises(SystemExit) as exit:
            cli.main(["export", *words])
        output = capsys.readouterr()
        assert (exit.value.code, output.out) == (2, "") and output.err.count("\n") == 1
        assert expected in output.err
    assert sorted(path.name for path in tmp_path.iterdir()) == [CARD, "note.txt"]


def test_an_interrupted_export_is_noticed(tmp_path, monkeypatch):
    """Weights of one seed with the settings of another are refused."""
    write_model(make_system("looped", seed=0), tmp_path)
    before = (tmp_path / CONFIG).read_bytes()
    write_model(make_system("looped", seed=1), tmp_path)
    (tmp_path / CONFIG).write_bytes(before)
    refuse(tmp_path, "not the weights of config.json")
    monkeypatch.setattr(safetensors.torch, "save_file", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_model(make_system("looped"), tmp_path / "new")
    assert [*(tmp_path / "new").iterdir()] == []
