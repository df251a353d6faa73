"""The stages of the pipeline: what each runs, what it loops over and what it writes.

The runner, the code hashes, the site and pruning read this registry. dvc.yaml names the same
stages, since DVC reads nothing else; a test compares the two.

    problems, claims                      once
    train, evaluate, analyse, certify     for each study of a profile
    variants                              for each set of variants
    figures                               for each work, all of its notebooks
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carry.config import paths, profiles, run_settings

Names = Callable[[str, str], list[str]]
Profile = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """One kind of stage that executes a notebook.

    Attributes:
        name: the name in dvc.yaml.
        modules: returns the modules that the settings of a study or set choose by name.
        settings: returns the settings that its results depend on, as JSON.
        parameter: the parameter of the notebook that the stage loops over; None: it runs once.
        list_items: returns the values of that parameter, from a profile.
        section: the section of the profile's file in dvc.yaml.
        results: the folder of results below the profile's folder of a kind, with one entry for
            each item, as ("results", "analyses").
    """

    name: str
    modules: Names
    settings: Callable[[str, str], str]
    parameter: str | None = None
    list_items: Callable[[Profile], list[str]] = lambda profile: []
    section: str | None = None
    results: tuple[str, ...] = ()

    @property
    def notebook(self) -> str:
        """The notebook that the stage executes, below notebooks/."""
        return f"pipeline/{self.name}"

    def items(self, profile: str) -> list[str]:
        """Return the studies or sets that the stage loops over, none if it runs once."""
        return self.list_items(profiles.load_profile(profile))

    def executed(self, profile: str, item: str | None = None) -> Path:
        """Return the path of the executed notebook; of a looping stage without an item the folder.

        >>> paths.display_path(STAGES["train"].executed("cpu", "parity"))
        'data/cpu/executed/pipeline/train/parity.ipynb'
        """
        path = paths.data_path(profile, "executed", self.notebook)
        if self.parameter is None:
            return path.with_suffix(".ipynb")
        return path / f"{item}.ipynb" if item else path

    def list_results(self, profile: str) -> Iterator[Path]:
        """Yield the existing results of the stage, one folder for each item; a README is none."""
        if self.results:
            entries = sorted(paths.results_path(profile, *self.results).glob("*"))
            shared = (paths.ANALYSES, paths.VARIANTS)  # folders of other stages
            yield from (path for path in entries if path.is_dir() and path.name not in shared)


def _list_rows(section: str) -> Callable[[str, str], list[str]]:
    """Return a function from a study and a profile to the rows of a section."""

    def list_rows(study: str, profile: str) -> list[str]:
        settings = profiles.load_profile(profile)
        return [row for row in settings["studies"][study] if row in settings[section]]

    return list_rows


def _list_studies(section: str) -> Callable[[Profile], list[str]]:
    """Return a function from a profile to the studies that have rows in a section."""

    def list_studies(profile: Profile) -> list[str]:
        return [
            study
            for study, rows in profile["studies"].items()
            if any(row in profile[section] for row in rows)
        ]

    return list_studies


def _row_modules(section: str) -> Names:
    rows = _list_rows(section)

    def modules(study: str, profile: str) -> list[str]:
        runs = [run_settings.load_run(row, profile) for row in rows(study, profile)]
        return [module for run in runs for module in run.module_names()]

    return modules


def _analysis_modules(study: str, profile: str) -> list[str]:
    from carry import analyses  # imported here: it loads torch, and the runner must start quickly

    return _row_modules("analyses")(study, profile) + [
        f"carry.analyses.{name}"
        for row in _list_rows("analyses")(study, profile)
        for name in analyses.list_analyses(row, profile)
    ]


def _task_modules(item: str, profile: str) -> list[str]:
    from carry.data import problem_sets

    names = profiles.load_profile(profile)["problems"]
    tasks = [problem_sets.load_problem_set(name, profile).task for name in names]
    return [f"carry.tasks.{task.get('name')}" for task in tasks]


def _variant_modules(name: str, profile: str) -> list[str]:
    from carry import variants

    return [
        part
        for variant in variants.list_variants(name, profile)
        for part in variant.run.module_names()
    ]


def _all_modules(item: str, profile: str) -> list[str]:
    """Return the modules that all rows choose: figures and claims may build their models."""
    sources = profiles.find_sources(profile).items()
    runs = [run_settings.load_run(row, source) for row, source in sources]
    return [module for run in runs for module in run.module_names()]


def _no_settings(item: str, profile: str) -> str:
    return ""


def _row_settings(section: str, exclude: set[str]) -> Callable[[str, str], str]:
    """Return a function from a study and a profile to the settings of the rows of a section."""
    rows = _list_rows(section)

    def settings(study: str, profile: str) -> str:
        runs = [run_settings.load_run(row, profile) for row in rows(study, profile)]
        return _to_json({run.name: run.model_dump(exclude=exclude) for run in runs})

    return settings


def _analysis_settings(study: str, profile: str) -> str:
    named = profiles.load_profile(profile)["analyses"]
    rows = _list_rows("analyses")(study, profile)
    settings = _row_settings("analyses", set())(study, profile)
    return _to_json({row: named[row] for row in rows}) + settings


def _problem_settings(item: str, profile: str) -> str:
    """Return the problem sets, and what chooses the problems of each row."""
    names = profiles.load_profile(profile)["problems"]
    runs = [run_settings.load_run(row, profile) for row in run_settings.list_rows(profile)]
    chosen = {
        run.name: {
            "task": run.task,
            "training": run.training.problem_set,
            "evaluation": run.evaluation.model_dump(),
            "band": [*run.validation_band()] if run.evaluation.band else [],
        }
        for run in runs
    }
    sets = {name: profiles.load_problem_set(name, profile) for name in names}
    return _to_json({"problems": sets, "rows": chosen})


def _variant_settings(name: str, profile: str) -> str:
    from carry import variants

    variant_set = variants.load_variant_set(name, profile)
    scale = variant_set.model_dump(include={*variants.Scale.model_fields})
    runs = {
        variant.place: variant.run.model_dump() for variant in variants.list_variants(name, profile)
    }
    return _to_json({**scale, "runs": runs})


def _to_json(content: Any) -> str:
    return json.dumps(content, indent=1) + "\n"


def _list_variant_sets(profile: Profile) -> list[str]:
    return list(profile["variant_sets"])


STAGES = {
    stage.name: stage
    for stage in (
        Stage("problems", _task_modules, _problem_settings),
        Stage(
            "train",
            _row_modules("rows"),
            _row_settings("rows", {"evaluation"}),
            "study",
            _list_studies("rows"),
            "train",
        ),
        Stage(
            "evaluate",
            _row_modules("rows"),
            _row_settings("rows", set()),
            "study",
            _list_studies("rows"),
            "train",
            ("results",),
        ),
        Stage(
            "analyse",
            _analysis_modules,
            _analysis_settings,
            "study",
            _list_studies("analyses"),
            "analyse",
            ("results", paths.ANALYSES),
        ),
        Stage(
            "variants",
            _variant_modules,
            _variant_settings,
            "variant_set",
            _list_variant_sets,
            "variant_sets",
            ("results", paths.VARIANTS),
        ),
        Stage(
            "certify",
            _row_modules("certificates"),
            _row_settings("certificates", {"evaluation"}),
            "study",
            _list_studies("certificates"),
            "certify",
            ("certificates",),
        ),
        Stage("claims", _all_modules, _no_settings),
    )
}


def find_stage(notebook: str) -> Stage | None:
    """Return the stage that executes a notebook; None for a notebook of figures.

    >>> find_stage("pipeline/train").parameter, find_stage("overview")
    ('study', None)
    """
    return next((stage for stage in STAGES.values() if stage.notebook == notebook), None)


def find_executed(notebook: str, profile: str) -> Path:
    """Return the path of an executed notebook of figures, in the folder of its work.

    >>> paths.display_path(find_executed("cho2025/how_small_can_it_be", "cpu"))
    'data/cpu/executed/cho2025/how_small_can_it_be.ipynb'
    >>> paths.display_path(find_executed("overview", "cpu"))
    'data/cpu/executed/overview/overview.ipynb'
    """
    work, _, name = notebook.rpartition("/")
    return paths.data_path(profile, "executed", work or name, f"{name}.ipynb")
