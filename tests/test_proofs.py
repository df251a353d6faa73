"""The proofs in Coq have the weights of certificates, and `make prove` lists what they assume."""

import ast
import copy
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from carry import cli
from carry.certificates import files
from carry.config import paths
from carry.config.settings import SettingsError
from carry.evaluation.trained_models import load_committed
from carry.experiments.resolve import find_row, make_run
from carry.exports import coq
from carry.models.system import System
from certificates.independent import contexts, rows

ROOT = Path(__file__).parents[1]
PROOFS = ROOT / "proofs"
WEIGHTS = sorted(PROOFS.glob("weights/*.v"))
SOURCES = [path for path in sorted(PROOFS.rglob("*.v")) if path not in WEIGHTS]
THEOREMS = [path for path in SOURCES if path.parent.name in ("rows", "long")]
NEGATIVES = sorted(PROOFS.glob("negative/*.v"))
SMALL, TWO_LEVELS = "addition_relative_small", "subtraction_relative_scratchpad"

RECORD = json.loads(paths.PROOFS.read_text(encoding="utf-8"))

spec = importlib.util.spec_from_file_location("prove", PROOFS / "prove.py")
prove = importlib.util.module_from_spec(spec)
spec.loader.exec_module(prove)


def name_path(path):
    return path.relative_to(PROOFS).as_posix()


def strip_comments(text):
    """Return a source of Coq without comments, which may be nested."""
    kept, depth = [], 0
    for part in re.split(r"(\(\*|\*\))", text):
        depth += {"(*": 1, "*)": -1}.get(part, 0)
        if depth == 0 and part != "*)":
            kept.append(part)
    return "".join(kept)


def find_tricks(text):
    """Return the words of a source that let Coq believe what is not proved."""
    text = re.sub(r"Module Type (\w+).*?End \1\.", "", strip_comments(text), flags=re.DOTALL)
    words = "Admitted|admit|Axioms?|Parameters?|Conjecture|native_compute|bypass_check|Unset Guard"
    return re.findall(rf"\b(?:{words})\b", text)


def test_tricks_are_found():
    for text in ("Proof. admit. Admitted.", "Axiom false : False.", "Parameter x : nat."):
        assert find_tricks(text), text
    allowed = "(* no (* Axiom *) Admitted *) Module Type A. Parameter a : nat. End A. Lemma admits."
    assert not find_tricks(allowed)


@pytest.mark.parametrize("path", SOURCES, ids=name_path)
def test_nothing_is_admitted(path):
    assert not find_tricks(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", THEOREMS, ids=name_path)
def test_each_file_of_a_row_says_at_its_end_what_it_assumes(path):
    text = strip_comments(path.read_text(encoding="utf-8"))
    names = re.findall(r"Print Assumptions (\S+)\.(?=\s)", text)
    assert names and text.rstrip().endswith(f"Print Assumptions {names[-1]}.")
    for name in names:
        assert f"Check {name}." in text


def read_definition(text):
    """Return the mapping that a file of weights defines; its numbers are pairs."""
    text = strip_comments(text).partition(" := ")[2].strip().removesuffix(".")
    text = re.sub(r"(\w+) := ", r'"\1": ', text)
    for sign, of_python in {"{|": "{", "|}": "}", ";": ","}.items():
        text = text.replace(sign, of_python)
    return ast.literal_eval(text)


def tensors_of(weights):
    """Return the tensors that a mapping has by the names of safetensors."""
    heads = weights["heads"]

    def join(kind, part):
        return [entry for head in heads for entry in head[kind][part]]

    tensors = {"tokens.weight": weights["tokens"], "logits.weight": weights["logits"]}
    pairs = {"before.0": "before_attention", "before.1": "before_hidden", "output": "output"}
    pairs |= {"feed_forward.up": "up", "feed_forward.down": "down"}
    pairs = {f"blocks.0.{name}": field for name, field in pairs.items()}
    for name, field in {**pairs, "final_norm": "before_logits"}.items():
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = weights[field]
    for part, name in enumerate(("weight", "bias")):
        tensors[f"blocks.0.query.{name}"] = join("query", part)
        tensors[f"blocks.0.key_value.{name}"] = join("key_map", part) + join("value", part)
    for level in range(len(heads[0]["biases"])):
        columns = [head["biases"][level] for head in heads]
        tensors[f"encodings.{level}.biases.0"] = [*map(list, zip(*columns, strict=True))]
    return tensors


def to_fractions(value):
    """Return nested lists of pairs (m, k), or of floats, as fractions."""
    if isinstance(value, list):
        return [to_fractions(part) for part in value]
    if isinstance(value, tuple):
        numerator, power = value
        assert power >= 0
        return Fraction(numerator, 2**power)
    return Fraction(value)


@pytest.mark.parametrize("row, seed", [(SMALL, 1), (TWO_LEVELS, 0)])
def test_weights_are_exactly_those_of_the_file_in_git(row, seed):
    text = coq.write_weights(load_committed(row, seed))
    settings = rows.read_json(paths.certificate_file(row))
    path = paths.models_folder(row) / f"seed_{seed}.safetensors"
    expected = rows.read_weights(path, rows.read_row(settings))
    found = tensors_of(read_definition(text))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert to_fractions(found[name]) == to_fractions(values.tolist()), name
    assert max(map(len, text.splitlines())) <= 100
    assert f"Definition {row}_{seed} : weights (Z * Z) :=" in text


@pytest.mark.parametrize("path", WEIGHTS, ids=name_path)
def test_weights_for_coq_are_those_of_the_certificate(path):
    row, _, seed = path.stem.rpartition("_")
    text = path.read_text(encoding="utf-8")
    certificate = files.read_certificate(paths.certificate_file(row))
    (sha256,) = (part["weights"] for part in certificate["seeds"] if part["seed"] == int(seed))
    assert re.findall(r"\b[0-9a-f]{64}\b", text) == [sha256]
    assert text == coq.write_weights(load_committed(row, int(seed)))


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Return a folder that stands for the project: the row has a certificate and a proof."""
    for name in ("certificates", "models"):
        shutil.copytree(paths.REPORTS / name, tmp_path / "reports" / name)
    for folder, row in (("rows", SMALL), ("long", TWO_LEVELS)):
        source = tmp_path / "proofs" / folder / "Any.v"
        source.parent.mkdir(parents=True)
        source.write_text(f"From Carry Require Import weights.{row}_0.\n")
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(cli.tree, "is_project", lambda root: True)
    return tmp_path


def run(capsys, *words):
    with pytest.raises(SystemExit) as exit:
        cli.main([*words])
    output = capsys.readouterr()
    return exit.value.code, output.out, output.err


def test_all_seeds_are_exported_or_one(copied, capsys):
    names = [f"proofs/weights/{SMALL}_{seed}.v" for seed in range(3)]
    assert run(capsys, "export-coq", SMALL) == (0, "\n".join([*names, ""]), "")
    for name in names:
        assert (copied / name).read_bytes() == (ROOT / name).read_bytes()
    folder = copied / "elsewhere"
    path = folder / f"{TWO_LEVELS}_2.v"
    words = ("export-coq", TWO_LEVELS, "--seed", "2", "--to", str(folder))
    assert run(capsys, *words) == (0, f"{path}\n", "")
    assert [*folder.iterdir()] == [path]


def tamper(copied):
    """Let the certificate name other weights of the last seed."""
    path = copied / "reports" / "certificates" / f"{SMALL}.json"
    content = files.read_certificate(path)
    content["seeds"][2]["weights"] = "0" * 64
    files.write_certificate(path, content)


REFUSED = {
    "addition_nope": "'addition_nope' is not certified",
    "addition_relative_smal": "did you mean 'addition_relative_small'",
    "addition_relative": f"'addition_relative' has no proof in Coq; expected {SMALL}, {TWO_LEVELS}",
    f"{SMALL} --seed 3": "seed: 3 has no certificate; expected 0 to 2",
    f"{SMALL} --seed -1": "'-1' is no seed",
    f"{SMALL} --to params.yaml": "params.yaml",
    SMALL: f"certificates.{SMALL}: the weights of seed 2 are ",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_has_no_certificate_or_proof_is_refused_in_one_line(copied, capsys, words):
    if words == SMALL:
        tamper(copied)
    (copied / "params.yaml").write_text("")
    words = words.replace("params.yaml", str(copied / "params.yaml")).split()
    code, out, err = run(capsys, "export-coq", *words)
    assert code in (1, 2) and out == "" and err.count("\n") == 1, (code, out, err)
    assert REFUSED.get(" ".join(words), "params.yaml") in err, err
    assert not (copied / "proofs" / "weights").exists(), "nothing is written"


def test_a_missing_certificate_or_model_is_refused(copied):
    (paths.models_folder(SMALL) / "seed_1.safetensors").unlink()
    with pytest.raises(SettingsError, match="no weights of seed 1 in git"):
        coq.export_weights(SMALL, None)
    paths.certificate_file(SMALL).unlink()
    with pytest.raises(SettingsError, match="missing; expected the certify stage"):
        coq.export_weights(SMALL, None)


OTHERS = {
    "model.layers: 2": dict(layers=2),
    "model.norm: 'rms'": dict(norm="rms"),
    "model.norm_epsilon: 0.001": dict(norm_epsilon=1e-3),
    "model.norm_place: 'post'": dict(norm_place="post"),
    "model.biases: False": dict(biases=False),
    "model.activation: 'gelu'": dict(activation="gelu"),
    "positions.0.scale: 4.0": dict(scale=4.0),
    "positions.0.clip: 7": dict(clip=7),
    "positions.0.encoding: Shaw": dict(encoding="shaw"),
    "positions.0: {": dict(window=None),
}


@pytest.mark.parametrize("message", OTHERS)
def test_another_architecture_is_refused(message):
    settings = copy.deepcopy(find_row(SMALL).resolve())
    part = settings["positions"][0] if message.startswith("positions") else settings["model"]
    part |= OTHERS[message]
    system = System(make_run(settings, "mine"), device="meta")
    with pytest.raises(SettingsError, match="^runs.mine." + re.escape(message)) as error:
        coq.write_weights(system)
    assert str(error.value).count("\n") == 0 and "expected" in str(error.value)


def run_prove(folder, version=None, **variables):
    """Run proofs/prove.py where the only program is a coqc of some version, if any."""
    folder.mkdir(exist_ok=True)
    if version:
        (folder / "coqc").write_text(f"#!/bin/sh\necho {version} 4.13.1\n")
        (folder / "coqc").chmod(0o755)
    return subprocess.run(
        [sys.executable, PROOFS / "prove.py"],
        env={"PATH": str(folder), **variables},
        capture_output=True,
        text=True,
    )


def test_without_coq_one_line_says_how_to_install_it(tmp_path):
    done = run_prove(tmp_path)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    assert "apt-get install coq" in done.stdout and "opam install coq" in done.stdout


@pytest.mark.parametrize("version", ["8.9.1", "8.15.2", "7.4"])
def test_an_older_coq_is_refused_in_one_line(tmp_path, version):
    done = run_prove(tmp_path, version)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"Coq {version} " in done.stderr and "expected 8.16 or newer" in done.stderr


OUTPUT = """\
sum
     : forall a b : N, decode (question a b) =
       answer a b
Axioms:
PrimFloat.add : PrimFloat.float -> PrimFloat.float -> PrimFloat.float
FunctionalExtensionality.functional_extensionality_dep
  : forall (A : Type) (f g : A -> A), f = g
Seed1.small
     : 1 = 1
Closed under the global context
"""
SOURCE = "Check sum.\nPrint Assumptions sum.\nCheck Seed1.small. Print Assumptions Seed1.small.\n"


def test_the_record_is_of_these_sources_and_of_certified_weights():
    """`make prove-all` writes it; a change of a proof asks for another run."""
    assert RECORD["sources"] == prove.hash_sources()
    certified = {
        (row, seed["seed"]): seed["weights"]
        for row in {model["row"] for model in RECORD["models"]}
        for seed in files.read_certificate(paths.certificate_file(row))["seeds"]
    }
    for model in RECORD["models"]:
        assert model["weights"] == certified[model["row"], model["seed"]]
        assert RECORD["theorems"][model["file"]]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Let prove.py read proofs in another folder."""
    monkeypatch.setattr(prove, "FOLDER", tmp_path)
    monkeypatch.setattr(prove, "MODELS", tmp_path / "models")
    return tmp_path


def write_output(project, source, output):
    (project / "row.v").write_text(source)
    (project / "row.out").write_text(output)
    return [project / "row.v"]


def read_all(proofs):
    return {file: prove.read_theorems(file) for file in proofs}


def test_theorems_are_listed_with_all_that_they_assume(project):
    text = prove.describe_theorems(read_all(write_output(project, SOURCE, OUTPUT)))
    assert text.splitlines() == [
        "row:",
        "  sum",
        "       : forall a b : N, decode (question a b) =",
        "         answer a b",
        "row:",
        "  Seed1.small",
        "       : 1 = 1",
        "2 theorems are proved. All that they assume of Coq's library (types: proofs/*/*.out):",
        "  FunctionalExtensionality: functional_extensionality_dep",
        "  PrimFloat: add",
    ]


@pytest.mark.parametrize("axiom", ["Windows.cheat : False", "cheat\n  : False", "add : nat"])
def test_an_axiom_of_the_project_is_refused(project, axiom):
    proofs = write_output(project, SOURCE, OUTPUT.replace("PrimFloat.add : ", f"{axiom}\n  : "))
    with pytest.raises(prove.Refusal, match=f"sum assumes {axiom.split()[0]}; expected"):
        read_all(proofs)


@pytest.mark.parametrize("source", ["", "Print Assumptions sum.\n"])
def test_a_proof_that_does_not_say_what_it_proves_is_refused(project, source):
    proofs = write_output(project, source, "Closed under the global context\n")
    with pytest.raises(prove.Refusal, match="row.v: expected lines `Check "):
        read_all(proofs)


def test_weights_that_are_missing_or_old_are_exported(project, monkeypatch):
    exported = []
    monkeypatch.setattr(prove.subprocess, "run", lambda words, check: exported.append(words))
    for row in ("add", "add_small", "unused"):
        (project / "models" / row).mkdir(parents=True)
        for seed in range(2):
            (project / "models" / row / f"seed_{seed}.safetensors").write_text("")
    source = "Require Import weights.add_0 weights.add_small_1. (* unused_17 *)"
    weights = prove.read_weights_named(write_output(project, source, ""))
    assert [*weights] == ["add_0", "add_small_1"]
    prove.export_weights(weights)
    assert exported.pop() == ["carry", "export-coq", "add", "add_small"] and not exported
    (project / "weights").mkdir()
    for name, age in {"add_0": -10, "add_small_1": 10}.items():
        path = project / "weights" / f"{name}.v"
        path.write_text("")
        changed = weights[name].stat().st_mtime + age
        os.utime(path, (changed, changed))
    prove.export_weights(weights)
    assert exported.pop() == ["carry", "export-coq", "add"] and not exported
    del weights["add_0"]
    prove.export_weights(weights)
    assert not exported


needs_coq = pytest.mark.skipif(
    shutil.which("coqc") is None, reason=f"Coq is not installed: {prove.INSTALL}"
)


@pytest.fixture(scope="session")
def compiled():
    """Compile the proofs, as `make prove`."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, PROOFS / "prove.py"],
        env={**os.environ, "PATH": programs},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def run_coq(source, folder):
    """Compile a source in a folder, which may use the compiled proofs."""
    path = folder / "scratch.v"
    path.write_text(source, encoding="utf-8")
    words = ["coqc", "-q", "-w", "none", "-R", PROOFS, "Carry", path.name]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


@needs_coq
@pytest.mark.slow
@pytest.mark.parametrize("path", NEGATIVES, ids=name_path)
def test_coq_refuses_what_is_wrong(compiled, tmp_path, path):
    source = path.read_text(encoding="utf-8")
    (expected,) = re.findall(r"\A\(\*+ expected: (.*?) \*\)", source, re.DOTALL)
    done = run_coq(source, tmp_path)
    assert done.returncode != 0
    assert " ".join(expected.split()) in " ".join(done.stderr.split())


def read_tasks():
    """Return the rows that have a proof; its file defines the task `learned`.

    Not the calculator: Coq prints its contexts in ten minutes.
    """
    found = {(model["row"], model["file"]) for model in RECORD["models"]}
    return sorted(pair for pair in found if "longhand" not in pair[0] and "integers" not in pair[1])


@needs_coq
@pytest.mark.slow
@pytest.mark.parametrize("row, file", read_tasks())
def test_contexts_are_those_of_the_independent_checker(tmp_path, row, file):
    """A context: the query, what it sees, as tokens with rows of biases, and the due token."""
    text = (PROOFS / file).read_text("utf-8")
    tasks = re.findall(r"\btasks\.(\w+)", text)
    sources = [PROOFS / "tasks" / f"{task}.v" for task in tasks]
    prove.compile_proofs(sources, {}, prove.find_version())  # not all are needed by `make prove`
    imports = " ".join(f"tasks.{task}" for task in tasks)
    (learned,) = re.findall(r"Definition learned : task := (.*?)\.\n", text)
    source = f"""
        From Coq Require Import List NArith.
        From Carry Require Import Windows {imports}.
        Import ListNotations.
        Set Printing Depth 1000000000.
        Redirect "contexts" Eval vm_compute in contexts ({learned}).
    """
    done = run_coq(source, tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "contexts.out").read_text().rpartition(":")[0].strip().removeprefix("=")
    found = {
        (query, tuple(sorted((token, tuple(levels)) for token, levels in keys)), due)
        for query, keys, due in ast.literal_eval(text.replace(";", ",").strip())
    }
    settings = rows.read_json(paths.certificate_file(row))
    theirs = contexts.enumerate_contexts(rows.read_row(settings).definition)
    relations = np.array(theirs.relations)
    expected = set()
    for query, due, codes in zip(theirs.query, theirs.due, theirs.codes, strict=True):
        relation, token = np.divmod(codes[codes >= 0], contexts.TOKEN_CODES)
        keys = zip(token.tolist(), map(tuple, relations[relation].tolist()), strict=True)
        expected.add((int(query), tuple(sorted(keys)), int(due)))
    assert found == expected, f"{len(found)} contexts, expected {len(expected)}"
