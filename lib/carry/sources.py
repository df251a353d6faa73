"""The first stage of the pipeline: all rows checked, and what code each later stage depends on."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import torch

from carry import (
    ablations,
    analysis,
    data_sets,
    fingerprint,
    paths,
    pipeline,
    problem_sets,
    run,
    tasks,
)
from carry.certificates import contexts
from carry.models.system import System
from carry.models.together import Together


def check_rows(profile: str) -> None:
    """Refuse a row that does not fit, before any row is worked on; weights are not made.

    Raises:
        SettingsError: for the first such row.
    """
    for row in pipeline.rows("problems", profile):
        given = problem_sets.load(row, profile)
        tasks.build(given.task, f"problems.{row}.task")
        if given.lengths:
            data_sets.task_of(row, given)
    for row in pipeline.rows("train", profile):
        of = run.load(row, profile)
        with torch.device("meta"):
            system = System(of, device="meta")
            if of.training.together:
                Together([system])
        problem_sets.check(of, profile)
    for row in pipeline.rows("analyse", profile):
        analysis.chosen(row, profile)
    for name in pipeline.rows("ablate", profile):
        ablations.check(name, profile)
    for row in pipeline.rows("certify", profile):
        with torch.device("meta"):
            contexts.check(System(run.load(row, profile), device="meta"))


def fingerprints(profile: str) -> Path:
    """Write for every stage of a profile what code it depends on, and return their folder.

    Every notebook has a file, and one for each of its rows. A file has a line for the notebook,
    without its outputs (so that saving it in JupyterLab makes nothing run again), and one for each
    file of the library that the notebook's imports and its row's choices reach; the row's settings
    follow, as they are once all that it is like has been looked up. Two files that are equal name
    the same work. What all rows of a profile are set to is in `settings/`, for the stages that read
    them together: this profile's, and the `paper` profile's, whose weights are counted anywhere.
    """
    place = paths.data(profile, "code")
    rows = pipeline.rows("train", profile)
    everything = [part for row in rows for part in run.load(row, profile).parts()]
    for notebook, path in pipeline.sources().items():
        clean = pipeline.stripped(nbformat.read(path, as_version=4))
        own = fingerprint.line(nbformat.writes(clean).encode(), path)
        start = fingerprint.imported(pipeline.code(clean), fingerprint.modules())
        known = pipeline.rows(notebook, profile)
        for row in known:
            text = own + fingerprint.of([*start, *_parts(notebook, row, profile)])
            _write_text(place / notebook / f"{row}.txt", text + _settings(notebook, row, profile))
        some = [part for row in known for part in _parts(notebook, row, profile)]
        whole = fingerprint.of([*start, *(some if known else everything)])
        _write_text(place / f"{notebook}.txt", own + whole)
    beside = sorted(path for path in (fingerprint.LIBRARY / "site").iterdir() if path.is_file())
    templates = [path for path in beside if path.suffix != ".py"]
    shown = [fingerprint.line(path.read_bytes(), path) for path in templates]
    _write_text(place / "site.txt", fingerprint.of(["carry.site.__main__"]) + "".join(shown))
    _write_text(place / "questions.txt", fingerprint.of(["carry.problem_sets"]))
    for name in {profile, "paper"}:
        each = {row: run.load(row, name).model_dump() for row in run.rows(name)}
        _write_text(place / "settings" / f"{name}.json", json.dumps(each, indent=1) + "\n")
    return place


def _parts(notebook: str, row: str, profile: str) -> list[str]:
    if notebook == "problems":
        return [f"carry.tasks.{problem_sets.load(row, profile).task.get('name')}"]
    if notebook == "ablate":
        return [part for of in ablations.variants(row, profile) for part in of.run.parts()]
    own = run.load(row, profile).parts()
    if notebook == "analyse":
        own += [f"carry.analysis.{name}" for name in analysis.names(row, profile)]
    return own


def _settings(notebook: str, row: str, profile: str) -> str:
    if notebook == "problems":
        return ""
    if notebook == "ablate":
        asked = ablations.load(row, profile).model_dump(include={*ablations.Scale.model_fields})
        each = {of.where: of.run.model_dump() for of in ablations.variants(row, profile)}
        return json.dumps({**asked, "runs": each}, indent=1) + "\n"
    without = {"evaluation"} if notebook in ("train", "certify") else None
    return run.load(row, profile).model_dump_json(indent=1, exclude=without) + "\n"


def _write_text(path: Path, text: str) -> None:
    with paths.atomically(path) as draft:
        draft.write_text(text)
