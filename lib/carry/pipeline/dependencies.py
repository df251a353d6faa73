"""The stage `code`: it checks all rows and hashes the code and settings that each stage reaches."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import torch

from carry import analyses, fingerprint, tasks, variants
from carry.certificates import contexts
from carry.config import paths, profiles, run_settings
from carry.data import data_sets, problem_sets
from carry.models.system import System
from carry.pipeline import runner
from carry.pipeline.stages import STAGES
from carry.training.batched.network import BatchedNetwork


def check_rows(profile: str) -> None:
    """Check every row of a profile before any work starts; no weights are made.

    Raises:
        SettingsError: for the first row with a setting that does not fit.
    """
    settings = profiles.load_profile(profile)
    for name in settings["problems"]:
        problem_set = problem_sets.load_problem_set(name, profile)
        tasks.build_task(problem_set.task, f"problems.{name}.task")
        if problem_set.lengths:
            data_sets.build_task(name, problem_set)
    for row in settings["rows"]:
        run = run_settings.load_run(row, profile)
        system = System(run, device="meta")
        if run.training.batched_seeds:
            with torch.device("meta"):
                BatchedNetwork([system])
        problem_sets.check_problem_set(run, profile)
    for row in settings["analyses"]:
        analyses.load_analyses(row, profile)
    for name in settings["variant_sets"]:
        variants.check_variant_set(name, profile)
    for row in settings["certificates"]:
        run = run_settings.load_run(row, profile)
        contexts.require_bounded_contexts(System(run, device="meta"))


def list_read_profiles(profile: str) -> list[str]:
    """Return the profiles whose settings figures and claims read: its own, committed ones, `paper`.

    >>> list_read_profiles("smoke")
    ['smoke', 'full', 'baselines', 'long', 'tuning', 'paper']
    """
    # No figure and no claim reads `gpu` yet, which has no results before someone has a GPU.
    committed = (name for name in paths.COMMITTED if name not in ("cpu", "gpu"))
    return list(dict.fromkeys([profile, *committed, "paper"]))


def write_fingerprints(profile: str) -> Path:
    """Write for every stage of a profile which code and settings it depends on; return the folder.

    A file holds one line for each notebook without its outputs (saving a notebook in JupyterLab
    runs nothing again), one line for each file of the library that its imports and the settings of
    its rows reach, and the resolved settings of its rows. `settings/` holds the resolved settings
    of all rows of the profiles of `list_read_profiles`, for the stages that read them together;
    `versions.txt` the versions of the packages with which results change.
    """
    folder = paths.data_path(profile, "code")
    notebooks = {name: _read_notebook(path) for name, path in runner.find_notebooks().items()}
    for stage in STAGES.values():
        line, imports = notebooks.pop(stage.notebook)
        for item in stage.items(profile) if stage.parameter else [""]:
            code = fingerprint.hash_code([*imports, *stage.modules(item, profile)])
            place = folder / stage.notebook / item if item else folder / stage.notebook
            _write_text(place.with_suffix(".txt"), line + code + stage.settings(item, profile))
    chosen = STAGES["claims"].modules("", profile)
    for work in profiles.load_profile(profile)["figures"]:
        drawn = [notebooks[name] for name in runner.list_notebooks(work)]
        code = fingerprint.hash_code([*chosen, *(name for _, names in drawn for name in names)])
        _write_text(folder / "figures" / f"{work}.txt", "".join(line for line, _ in drawn) + code)
    _write_text(folder / "site.txt", _hash_site())
    code = fingerprint.hash_code(["carry.pipeline.files"])
    for row in profiles.load_profile(profile)["models"]:
        _write_text(folder / "models" / f"{profiles.find_study(row)}.txt", code)
    for name in list_read_profiles(profile):
        rows = [run_settings.load_run(row, name) for row in run_settings.list_rows(name)]
        # A label changes figures, but no weights, so that a run is dumped without it.
        runs = {run.name: {**run.model_dump(), "label": run.label} for run in rows}
        _write_text(folder / "settings" / f"{name}.json", json.dumps(runs, indent=1) + "\n")
    versions = fingerprint.list_versions()
    text = "".join(f"{name} {version}\n" for name, version in versions.items())
    _write_text(folder / "versions.txt", text)
    return folder


def _read_notebook(path: Path) -> tuple[str, set[str]]:
    """Return a line with the hash of a notebook without outputs, and the modules it imports."""
    notebook = runner.strip_outputs(nbformat.read(path, as_version=4))
    line = fingerprint.hash_line(nbformat.writes(notebook).encode(), paths.display_path(path))
    imports = fingerprint.find_imports(runner.notebook_code(notebook), fingerprint.list_modules())
    return line, imports


def _hash_site() -> str:
    templates = sorted((fingerprint.LIBRARY / "pipeline" / "site").glob("*.*"))
    lines = [
        fingerprint.hash_file(path)
        for path in templates
        if path.suffix in (".html", ".css", ".js", ".yaml")
    ]
    return fingerprint.hash_code(["carry.pipeline.site"]) + "".join(lines)


def _write_text(path: Path, text: str) -> None:
    with paths.write_atomically(path) as draft:
        draft.write_text(text, encoding="utf-8")
