"""The stage `code`: it checks all rows and hashes the code and settings that each stage reaches."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import torch

from carry import analyses, fingerprint, tasks, variants
from carry.certificates import contexts
from carry.config import paths, run_settings
from carry.data import data_sets, problem_sets
from carry.models.system import System
from carry.pipeline import runner
from carry.pipeline.stages import STAGES, find_stage
from carry.training.batched.network import BatchedNetwork


def check_rows(profile: str) -> None:
    """Check every row of a profile before any work starts; no weights are made.

    Raises:
        SettingsError: for the first row with a setting that does not fit.
    """
    for name in STAGES["problems"].rows(profile):
        settings = problem_sets.load_problem_set(name, profile)
        tasks.build_task(settings.task, f"problems.{name}.task")
        if settings.lengths:
            data_sets.build_task(name, settings)
    for row in STAGES["train"].rows(profile):
        run = run_settings.load_run(row, profile)
        with torch.device("meta"):
            system = System(run, device="meta")
            if run.training.batched_seeds:
                BatchedNetwork([system])
        problem_sets.check_problem_set(run, profile)
    for row in STAGES["analyse"].rows(profile):
        analyses.load_analyses(row, profile)
    for name in STAGES["variants"].rows(profile):
        variants.check_variant_set(name, profile)
    for row in STAGES["certify"].rows(profile):
        with torch.device("meta"):
            contexts.require_bounded_contexts(
                System(run_settings.load_run(row, profile), device="meta")
            )


def write_fingerprints(profile: str) -> Path:
    """Write for every stage of a profile which code and settings it depends on; return the folder.

    Every notebook has a file, and every row of a stage another. A file holds one line for the
    notebook without its outputs (saving a notebook in JupyterLab runs nothing again), one line for
    each file of the library that the notebook's imports and the row's settings reach, and the
    resolved settings of the row. `settings/` holds the resolved settings of all rows of this
    profile and of `paper`, for the stages that read them together.
    """
    folder = paths.data_path(profile, "code")
    all_modules = [
        module
        for row in run_settings.list_rows(profile)
        for module in STAGES["train"].modules(row, profile)
    ]
    for name, path in runner.find_notebooks().items():
        notebook = runner.strip_outputs(nbformat.read(path, as_version=4))
        line = fingerprint.hash_line(nbformat.writes(notebook).encode(), path)
        imports = fingerprint.find_imports(
            runner.notebook_code(notebook), fingerprint.list_modules()
        )
        stage = find_stage(name)
        chosen = {row: stage.modules(row, profile) for row in stage.rows(profile)} if stage else {}
        for row, modules in chosen.items():
            text = line + fingerprint.hash_code([*imports, *modules])
            _write_text(folder / name / f"{row}.txt", text + stage.settings(row, profile))
        looping = stage is not None and stage.section is not None
        modules = [m for chosen_modules in chosen.values() for m in chosen_modules]
        reached = [*imports, *(modules if looping else all_modules)]
        _write_text(folder / f"{name}.txt", line + fingerprint.hash_code(reached))
    templates = sorted((fingerprint.LIBRARY / "pipeline" / "site").glob("*.*"))
    lines = [
        fingerprint.hash_line(path.read_bytes(), path)
        for path in templates
        if path.suffix in (".html", ".css")
    ]
    site = fingerprint.hash_code(["carry.pipeline.site.__main__"])
    _write_text(folder / "site.txt", site + "".join(lines))
    _write_text(folder / "questions.txt", fingerprint.hash_code(["carry.data.problem_sets"]))
    for name in {profile, "paper"}:
        rows = [run_settings.load_run(row, name) for row in run_settings.list_rows(name)]
        # A label changes figures, but no weights, so that a run is dumped without it.
        runs = {run.name: {**run.model_dump(), "label": run.label} for run in rows}
        _write_text(folder / "settings" / f"{name}.json", json.dumps(runs, indent=1) + "\n")
    return folder


def _write_text(path: Path, text: str) -> None:
    with paths.write_atomically(path) as draft:
        draft.write_text(text, encoding="utf-8")
