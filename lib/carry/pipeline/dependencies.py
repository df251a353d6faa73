"""The first stage of the pipeline: all rows checked, and what code each later stage depends on."""

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
from carry.training.batched.network import BatchedNetwork


def check_rows(profile: str) -> None:
    """Refuse a row that does not fit, before any row is worked on; weights are not made.

    Raises:
        SettingsError: for the first such row.
    """
    for row in runner.rows_of_notebook("problems", profile):
        given = problem_sets.load_problem_set(row, profile)
        tasks.build(given.task, f"problems.{row}.task")
        if given.lengths:
            data_sets.task_of(row, given)
    for row in runner.rows_of_notebook("train", profile):
        of = run_settings.load_run(row, profile)
        with torch.device("meta"):
            system = System(of, device="meta")
            if of.training.batched_seeds:
                BatchedNetwork([system])
        problem_sets.check_problem_set(of, profile)
    for row in runner.rows_of_notebook("analyse", profile):
        analyses.chosen(row, profile)
    for name in runner.rows_of_notebook("variants", profile):
        variants.check_variant_set(name, profile)
    for row in runner.rows_of_notebook("certify", profile):
        with torch.device("meta"):
            contexts.check(System(run_settings.load_run(row, profile), device="meta"))


def fingerprints(profile: str) -> Path:
    """Write for every stage of a profile what code it depends on, and return their folder.

    Every notebook has a file, and one for each of its rows. A file has a line for the notebook,
    without its outputs (so that saving it in JupyterLab makes nothing run again), and one for each
    file of the library that the notebook's imports and its row's choices reach; the row's settings
    follow, as they are once all that it is like has been looked up. Two files that are equal name
    the same work. What all rows of a profile are set to is in `settings/`, for the stages that read
    them together: this profile's, and the `paper` profile's, whose weights are counted anywhere.
    """
    place = paths.data_path(profile, "code")
    rows = runner.rows_of_notebook("train", profile)
    everything = [part for row in rows for part in run_settings.load_run(row, profile).parts()]
    for notebook, path in runner.find_notebooks().items():
        clean = runner.strip_outputs(nbformat.read(path, as_version=4))
        own = fingerprint.hash_line(nbformat.writes(clean).encode(), path)
        start = fingerprint.imported_modules(
            runner.notebook_code(clean), fingerprint.library_modules()
        )
        known = runner.rows_of_notebook(notebook, profile)
        for row in known:
            text = own + fingerprint.hash_code([*start, *_parts(notebook, row, profile)])
            _write_text(place / notebook / f"{row}.txt", text + _settings(notebook, row, profile))
        some = [part for row in known for part in _parts(notebook, row, profile)]
        whole = fingerprint.hash_code([*start, *(some if known else everything)])
        _write_text(place / f"{notebook}.txt", own + whole)
    beside = sorted(path for path in (fingerprint.LIBRARY / "site").iterdir() if path.is_file())
    templates = [path for path in beside if path.suffix != ".py"]
    shown = [fingerprint.hash_line(path.read_bytes(), path) for path in templates]
    _write_text(
        place / "site.txt",
        fingerprint.hash_code(["carry.pipeline.site.__main__"]) + "".join(shown),
    )
    _write_text(place / "questions.txt", fingerprint.hash_code(["carry.data.problem_sets"]))
    for name in {profile, "paper"}:
        each = {
            row: run_settings.load_run(row, name).model_dump()
            for row in run_settings.list_rows(name)
        }
        _write_text(place / "settings" / f"{name}.json", json.dumps(each, indent=1) + "\n")
    return place


def _parts(notebook: str, row: str, profile: str) -> list[str]:
    if notebook == "pipeline/problems":
        return [f"carry.tasks.{problem_sets.load_problem_set(row, profile).task.get('name')}"]
    if notebook == "pipeline/variants":
        return [part for of in variants.list_variants(row, profile) for part in of.run.parts()]
    own = run_settings.load_run(row, profile).parts()
    if notebook == "pipeline/analyse":
        own += [f"carry.analyses.{name}" for name in analyses.names(row, profile)]
    return own


def _settings(notebook: str, row: str, profile: str) -> str:
    if notebook == "pipeline/problems":
        return ""
    if notebook == "pipeline/variants":
        asked = variants.load_variant_set(row, profile).model_dump(
            include={*variants.Scale.model_fields}
        )
        each = {of.where: of.run.model_dump() for of in variants.list_variants(row, profile)}
        return json.dumps({**asked, "runs": each}, indent=1) + "\n"
    without = {"evaluation"} if notebook in ("pipeline/train", "pipeline/certify") else None
    return run_settings.load_run(row, profile).model_dump_json(indent=1, exclude=without) + "\n"


def _write_text(path: Path, text: str) -> None:
    with paths.write_atomically(path) as draft:
        draft.write_text(text)
