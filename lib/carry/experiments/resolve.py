"""From a row to a run: its settings at a scale, with what params.yaml overrides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from carry.config import params
from carry.config.settings import MOST_NAMES, SettingsError, check_known, check_name, describe
from carry.experiments import load_rows, own
from carry.experiments.base import SCALES, Row, merge
from carry.experiments.problems import find_problem_set
from carry.experiments.run import DataSet, Evaluation, Run, Training


def find_row(name: str) -> Row:
    """Return a row.

    Raises:
        SettingsError: for an unknown name; names the nearest, or the rows of a study.
    """
    rows = load_rows()
    if of_study := [row.name for row in rows.values() if row.study == name]:
        more = len(of_study) - MOST_NAMES
        listing = ", ".join(of_study[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        raise SettingsError(f"row: {name!r} is a study; expected one of its rows: {listing}")
    check_known(name, rows, "row")
    return rows[name]


def list_rows(study: str | None = None, scale: str = "laptop") -> list[str]:
    """Return the rows that have a scale, of all studies or of one.

    >>> list_rows("addition_hints")
    ['addition_randomized_fire_hints']

    Raises:
        SettingsError: for an unknown study; names the nearest.
    """
    rows = load_rows().values()
    if study is not None:
        check_known(study, {row.study for row in rows}, "study")
    return [row.name for row in rows if study in (row.study, None) and scale in row.scales]


def describe_scales(study: str) -> str:
    """Return the scales that rows of a study have, as a refusal names them.

    >>> describe_scales("addition_blocks")
    'laptop'
    """
    scales = {scale for row in load_rows().values() if row.study == study for scale in row.scales}
    return ", ".join(scale for scale in SCALES if scale in scales)


@contextmanager
def name_place(row: str) -> Iterator[None]:
    """Let an error about the settings of a row of params.yaml name their place there."""
    try:
        yield
    except SettingsError as error:
        text = str(error)
        if row not in params.load_params().rows or not text.startswith(f"runs.{row}"):
            raise
        raise SettingsError(f"{own.PLACE}{text.removeprefix('runs')}") from None


def load_run(name: str, scale: str = "laptop") -> Run:
    """Return the run of a row at a scale, with the settings that params.yaml overrides.

    Raises:
        SettingsError: for an unknown row, here or in params.yaml, a scale that the row does not
            have, and a setting that does not fit.
    """
    row, override = find_row(name), params.load_params().override
    for other in override:
        check_known(other, load_rows(), "params.yaml.override")
    check_known(scale, row.scales, f"{name}: scale")
    settings = merge(row.resolve(scale), override.get(name, {}))
    with name_place(name):
        return make_run(settings, name, study=row.study, scale=scale, label=row.label)


def make_run(settings: Any, name: str = "mine", **labels: Any) -> Run:
    """Return a run from settings; those of the study, the scale and so on may be `labels`.

    >>> make_run({"task": {"name": "addition"}}).training.digits
    10

    Raises:
        SettingsError: for the first setting that does not fit.
    """
    check_name(name, "runs")
    where = f"runs.{name}"
    if not isinstance(settings, dict):
        raise SettingsError(f"{where}: {describe(settings)} is not valid; expected a mapping")
    for key in [*labels, "name"]:
        if key in settings:
            raise SettingsError(f"{where}.{key}: is no setting; expected none")
    settings = dict(settings)
    for section, kind in (("training", Training), ("evaluation", Evaluation)):
        settings[section] = kind.parse(settings.get(section, {}), f"{where}.{section}")
    run = Run.parse({**settings, **labels, "name": name}, where)
    if run.data_set is None and run.training.problem_set is not None:
        place = f"{where}.training.problem_set"
        problem_set = find_problem_set(run.training.problem_set, run.scale, place)
        data_set = DataSet(**{key: getattr(problem_set, key) for key in DataSet.model_fields})
        run = run.model_copy(update={"data_set": data_set})
    _check_data_set(run)
    _check_band(run)
    return run


def _check_data_set(run: Run) -> None:
    """Refuse a data set that does not fit the run."""
    where, data_set, name = f"runs.{run.name}", run.data_set, run.training.problem_set
    if data_set is None:
        return
    if not data_set.lengths:
        raise SettingsError(
            f"{where}.training.problem_set: {describe(name)} has no lengths to train; "
            "expected the name of a set with lengths"
        )
    longest = max(data_set.lengths)
    if run.training.digits != longest:
        raise SettingsError(
            f"{where}.training.digits: {run.training.digits} does not fit {name!r}, whose longest "
            f"trained numbers have {longest}; expected {longest}"
        )
    if run.evaluation.problem_set not in (None, name):
        raise SettingsError(
            f"{where}.evaluation.problem_set: {describe(run.evaluation.problem_set)} may contain "
            f"trained problems; expected {name!r}"
        )


def _check_band(run: Run) -> None:
    """Refuse to score the validation band of a run whose settings were chosen on it."""
    evaluation, band = run.evaluation, run.validation_band()
    scored = {
        "far": evaluation.far_cells(),
        "attention_cell": [evaluation.attention_cell] if evaluation.attention_cell else [],
        "reach": [cell[:2] for cell in evaluation.reach],
    }
    for name, cells in scored.items() if evaluation.band else ():
        for i, j in cells:
            if max(i, j) in band:
                raise SettingsError(
                    f"runs.{run.name}.evaluation.{name}: ({i}, {j}) is in the validation band, on "
                    f"which settings were chosen; expected no size from {band[0]} to {band[-1]}"
                )
