"""The stages of the pipeline: what each runs, what it loops over and what it writes.

The runner, the code hashes, the site and pruning read this registry. dvc.yaml names the same
stages, since DVC reads nothing else; a test compares the two.

    problems -> train -> evaluate, analyse, certify       one job for each row of a profile
    variants                                              one job for each set of variants
    claims                                                once; so do the notebooks of figures
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from carry.config import paths, profiles, run_settings


def _no_modules(row: str, profile: str) -> list[str]:
    return []


def _no_settings(row: str, profile: str) -> str:
    return ""


@dataclass(frozen=True)
class Stage:
    """One kind of stage.

    Attributes:
        name: the name in dvc.yaml.
        section: the section of a profile that lists the rows; None: the stage runs once.
        modules: returns the modules that the settings of a row choose by name.
        settings: returns the settings of a row that its results depend on, as JSON.
        results: the folder below reports/ with one entry for each row, `{profile}` filled in;
            several stages may share one.
    """

    name: str
    section: str | None = None
    modules: Callable[[str, str], list[str]] = _no_modules
    settings: Callable[[str, str], str] = _no_settings
    results: tuple[str, ...] = ()

    @property
    def notebook(self) -> str:
        """The notebook that the stage executes, below notebooks/."""
        return f"pipeline/{self.name}"

    def rows(self, profile: str) -> list[str]:
        """Return the rows that the stage loops over, none if it runs once."""
        return list(profiles.load_profile(profile)[self.section]) if self.section else []

    def executed(self, profile: str, row: str | None = None) -> Path:
        """Return the path of the executed notebook, or without a row of a looping stage its folder.

        >>> paths.display_path(STAGES["train"].executed("cpu", "mine"))
        'data/cpu/executed/pipeline/train/mine.ipynb'
        """
        path = paths.data_path(profile, "executed", self.notebook)
        if self.section is None:
            return path.with_suffix(".ipynb")
        return path / f"{row}.ipynb" if row else path

    def folders(self, profile: str) -> Iterator[Path]:
        """Yield the folders with one entry for each row, apart from the executed notebooks."""
        for place in self.results:
            yield paths.reports_path(profile, *place.format(profile=profile).split("/"))


def _row_modules(row: str, profile: str) -> list[str]:
    return run_settings.load_run(row, profile).module_names()


def _analysis_modules(row: str, profile: str) -> list[str]:
    from carry import analyses  # imported here: it loads torch, and the runner must start quickly

    names = [f"carry.analyses.{name}" for name in analyses.list_analyses(row, profile)]
    return _row_modules(row, profile) + names


def _task_module(name: str, profile: str) -> list[str]:
    from carry.data import problem_sets

    task = problem_sets.load_problem_set(name, profile).task
    return [f"carry.tasks.{task.get('name')}"]


def _variant_modules(name: str, profile: str) -> list[str]:
    from carry import variants

    return [
        part
        for variant in variants.list_variants(name, profile)
        for part in variant.run.module_names()
    ]


def _row_settings(row: str, profile: str) -> str:
    return run_settings.load_run(row, profile).model_dump_json(indent=1) + "\n"


def _training_settings(row: str, profile: str) -> str:
    run = run_settings.load_run(row, profile)
    return run.model_dump_json(indent=1, exclude={"evaluation"}) + "\n"


def _variant_settings(name: str, profile: str) -> str:
    from carry import variants

    variant_set = variants.load_variant_set(name, profile)
    scale = variant_set.model_dump(include={*variants.Scale.model_fields})
    runs = {
        variant.place: variant.run.model_dump() for variant in variants.list_variants(name, profile)
    }
    return json.dumps({**scale, "runs": runs}, indent=1) + "\n"


STAGES = {
    stage.name: stage
    for stage in (
        Stage("problems", "problems", _task_module),
        Stage("train", "rows", _row_modules, _training_settings),
        Stage("evaluate", "rows", _row_modules, _row_settings, ("results/{profile}",)),
        Stage(
            "analyse",
            "analyses",
            _analysis_modules,
            _row_settings,
            (f"results/{{profile}}/{paths.ANALYSES}",),
        ),
        Stage(
            "variants",
            "variant_sets",
            _variant_modules,
            _variant_settings,
            (f"results/{{profile}}/{paths.VARIANTS}",),
        ),
        Stage("certify", "certificates", _row_modules, _training_settings, ("certificates",)),
        Stage("claims"),
    )
}
SECTIONS = tuple(dict.fromkeys(stage.section for stage in STAGES.values() if stage.section))


def find_stage(notebook: str) -> Stage | None:
    """Return the stage that executes a notebook; None for a notebook of figures.

    >>> find_stage("pipeline/train").section, find_stage("overview")
    ('rows', None)
    """
    return next((stage for stage in STAGES.values() if stage.notebook == notebook), None)


def rows_of_notebook(notebook: str, profile: str) -> list[str]:
    """Return the rows for which a notebook is executed in a profile, none if it runs once."""
    stage = find_stage(notebook)
    return stage.rows(profile) if stage else []
