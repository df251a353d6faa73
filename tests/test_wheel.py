"""The wheel: it brings one model, and works in any folder without the packages of the pipeline."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from carry.config.paths import ROOT
from carry.evaluation.trained_models import load_committed
from carry.exports import write_model

MODEL = "reports/models/addition_relative/seed_0.safetensors"

USE = """
import importlib, json, pkgutil

import carry
from carry import ids
from carry.experiments.resolve import make_run
from carry.exports import load_exported
from carry.models.system import System
from carry.training.loop import Trainer

for name in ("tasks", "formats", "positions", "models", "models.architectures", "models.encodings"):
    package = importlib.import_module(f"carry.{name}")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"carry.{name}.{module.name}")
run = make_run({"task": {"name": "addition"}, "model": {"width": 8}, "training": {"steps": 2}})
trainer = Trainer(run, 0, None).train()
exported = load_exported("exported")
print(json.dumps([carry.__file__, trainer.step, exported.run.name]))
"""
CALL = """
import contextlib, io, json, sys

from carry import cli
for words in json.loads(sys.argv[1]):
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            cli.main(words.split())
        except SystemExit as exit:
            code = exit.code
    print(json.dumps([code, output.getvalue(), errors.getvalue()]))
"""


def find_core():
    """Return the distributions that the library needs, and those that these need."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed, core = [*settings["project"]["dependencies"]], set()
    while needed:
        requirement = Requirement(needed.pop())
        name = canonicalize_name(requirement.name)
        if name in core or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        core.add(name)
        needed += importlib.metadata.requires(name) or []
    return core


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return the wheel, built from a copy, since the build writes next to its sources."""
    source = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "lib", source / "lib", symlinks=True, ignore=ignored)
    (source / MODEL).parent.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", MODEL):
        shutil.copy(ROOT / name, source / name)
    words = ["pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", "wheels", "."]
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=source, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (path,) = (source / "wheels").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def run_light(wheel, tmp_path_factory):
    """Return a function that runs Python with the wheel and what it needs alone, in no clone."""
    site, folder = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("elsewhere")
    zipfile.ZipFile(wheel).extractall(site)
    for name in find_core():
        distribution = importlib.metadata.distribution(name)
        for entry in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
            (site / entry).symlink_to(distribution.locate_file(entry))
    write_model(load_committed("addition_relative"), folder / "exported")
    environment = {**os.environ, "PYTHONPATH": str(site)}

    def run(code, *words):
        words = [sys.executable, "-S", "-c", code, *words]  # -S: no packages of this environment
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def test_the_library_needs_few_packages():
    core = find_core()
    assert core >= {"torch", "numpy", "pydantic", "safetensors", "jaxtyping"}
    assert not core & {
        "pandas",
        "pyarrow",
        "scipy",
        "matplotlib",
        "ruamel-yaml",
        "dvc",
        "papermill",
    }


def test_the_wheel_has_the_weights_of_one_model(wheel):
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".safetensors"))
        assert name == MODEL.replace("reports/models", "carry/weights")
        assert files.read(name) == (ROOT / MODEL).read_bytes()


def test_models_train_and_load_without_the_pipeline(run_light):
    ((place, steps, row),) = run_light(USE)
    assert (
        place.endswith("carry/__init__.py")
        and str(ROOT) not in place
        and (steps, row) == (2, "addition_relative")
    )


COMMANDS = {
    "ask 653+49": (0, "702\n"),
    "ask 653+49 --seed 1": (2, "expected a clone of the project"),
    "ask 653+49 --row addition_nope": (2, "expected a clone of the project"),
    "show addition_relative": (0, "positions.0.window"),
    "--help": (0, "usage: carry"),
    "run addition_nope": (2, 'pandas: not installed; expected `pip install "carry[pipeline]"`'),
    "certify": (2, "is not in a clone of the project; expected the working directory in one"),
    "site": (2, "carry site:"),
}


def test_commands_work_or_say_what_they_need(run_light):
    results = run_light(CALL, json.dumps([*COMMANDS]))
    for (words, (code, text)), (found, output, errors) in zip(
        COMMANDS.items(), results, strict=True
    ):
        assert found == code and text in output + errors, (words, found, output, errors)
        assert errors.count("\n") == (code != 0) and (not output or code == 0), (words, errors)
