"""Variants: a row changed in one ingredient at a time, to see which ingredients it needs.

The section `variants` of params.yaml lists sets of variants by name: the row, the settings that all
variants share (`base`), and `groups` of variants with their changes. A profile's `variant_sets`
lists the sets that it trains, and their scale. All variants of a set are one stage, since they are
small (see `carry.variants.jobs`).

A set with a `band` chooses between its variants: each is scored on the validation band, sizes just
beyond training (`Run.validation_band`), and at multiples of the trained length, none of which is in
the band. The choice sees both (`carry.variants.choice`), so that a row whose settings are chosen
here reports other lengths.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from carry.config import profiles, run_settings
from carry.config.settings import Settings, SettingsError, suggest_name
from carry.experiments.run import Run, Size
from carry.models.system import System
from carry.training.loop import TrainingDiverged

REFERENCE = "reference"  # only the variants of this group may change nothing


class Change(Settings):
    """The changed settings of a row: positions are replaced, all other sections are merged."""

    task: dict[str, Any] = {}
    format: dict[str, Any] = {}
    positions: list[dict[str, Any]] = []
    model: dict[str, Any] = {}
    training: dict[str, Any] = {}


class Scale(Settings):
    """The scale of a set of variants, and the problems on which they are scored.

    times: lengths of problems, as multiples of the trained length.
    problems: for each length, or fewer such that they have at most `tokens` tokens in total.
    dense: longest problem in tokens for a model without a window, which compares all tokens.
    band: problems of each size in the validation band; 0: the set has none.
    start: first id of all scored problems, or "all": the mean of probabilities over all starts.
    only: groups, and variants as `group.variant`; default: all.
    """

    seeds: int = Field(default=5, ge=1)
    base: dict[str, Any] = {}
    times: list[Annotated[int, Field(ge=1)]] = Field(default=[1, 2, 10, 100], min_length=1)
    problems: int = Field(default=100, ge=1)
    tokens: int = Field(default=100_000, ge=1)
    dense: int = Field(default=4096, ge=1)
    band: int = Field(default=0, ge=0)
    start: Size | Literal["all"] = 1
    only: list[str] | None = None


class VariantSet(Scale):
    """The row that variants change, and the variants by group and name."""

    row: str
    groups: dict[str, dict[str, dict[str, Any]]] = Field(min_length=1)


class Variant(NamedTuple):
    """A changed row, as a run."""

    variant_set: str
    group: str
    name: str
    change: dict[str, Any]
    run: Run

    @property
    def place(self) -> str:
        """The place of the change in params.yaml."""
        return _change_place(self.variant_set, self.group, self.name)


def load_variant_set(name: str, profile: str) -> VariantSet:
    """Return a set of variants at the scale of a profile.

    >>> load_variant_set("addition_relative", "notebook").row
    'addition_relative'

    Raises:
        SettingsError: for an unknown set, and for a setting that does not fit.
    """
    scales = profiles.load_profile(profile)["variant_sets"]
    sets = profiles.load_params()["variants"]
    if name not in scales:
        raise SettingsError(
            f"variant_sets: {name!r} is not in profile {profile!r}, {suggest_name(name, scales)}"
        )
    if name not in sets:
        raise SettingsError(
            f"variant_sets: {name!r} is not in variants, {suggest_name(name, sets)}"
        )
    Scale.parse(scales[name], f"variant_sets.{name}")  # a profile changes no variants
    merged = profiles.merge_settings(sets[name], scales[name], where=f"variants.{name}")
    variant_set = VariantSet.parse(merged, f"variants.{name}")
    names = _list_names(variant_set)
    for requested in variant_set.only or ():
        if requested not in names:
            hint = suggest_name(requested, names)
            raise SettingsError(f"variant_sets.{name}.only: unknown variant {requested!r}, {hint}")
    return variant_set


def load_base_run(name: str, profile: str) -> Run:
    """Return the run that the variants of a set change: the row with the settings of `base`.

    >>> load_base_run("addition_relative", "notebook").training.steps
    60
    """
    variant_set, rows = load_variant_set(name, profile), run_settings.list_rows(profile)
    if variant_set.row not in rows:
        hint = suggest_name(variant_set.row, rows)
        raise SettingsError(
            f"variants.{name}.row: {variant_set.row!r} is not in profile {profile!r}, {hint}"
        )
    row = run_settings.load_run(variant_set.row, profile)
    return _change_run(row, variant_set.base, f"variants.{name}.base")


def list_variants(name: str, profile: str) -> list[Variant]:
    """Return the variants of a set that a profile trains, in order.

    They are scored as `Scale` says; the `evaluation` of their runs is not used.

    >>> [variant.name for variant in list_variants("addition_relative", "notebook")]
    ['row', 'none']

    Raises:
        SettingsError: for a change that does not fit, or that changes nothing.
    """
    variant_set, base = load_variant_set(name, profile), load_base_run(name, profile)
    places = {base.key(): f"runs.{variant_set.row}"}
    variants = []
    for group, changes in variant_set.groups.items():
        for variant, change in changes.items():
            names = {group, f"{group}.{variant}"}
            if variant_set.only is not None and not names & {*variant_set.only}:
                continue
            place = _change_place(name, group, variant)
            run = _change_run(base, change, place)
            if (group, change) != (REFERENCE, {}):
                _check_new(run, place, places)
            variants.append(Variant(name, group, variant, change, run))
    return variants


def check_variant_set(name: str, profile: str) -> None:
    """Refuse a set with a variant that does not build; no weights are allocated.

    Raises:
        SettingsError: for the first such variant.
    """
    variant_set = load_variant_set(name, profile)
    runs = {f"variants.{name}.base": load_base_run(name, profile)}
    for place, run in runs.items():
        if variant_set.band and not run.validation_band():
            raise SettingsError(
                f"{place}.training.digits: {run.training.digits} has no validation band; "
                "expected 2 or more, or band 0"
            )
    runs |= {variant.place: variant.run for variant in list_variants(name, profile)}
    for place, run in runs.items():
        with errors_at(place, f"runs.{run.name}"):
            system = System(run, device="meta")
        for times in variant_set.times:
            digits = times * run.training.digits
            system.task.check_cell((digits, digits), f"variants.{name}.times")


@contextmanager
def errors_at(place: str, row: str) -> Iterator[None]:
    """Replace the place of the row in error messages by the place of the variant's change.

    >>> with errors_at("variants.mine.groups.window.wide", "runs.mine"):
    ...     raise SettingsError("runs.mine.positions.0.window: -1 does not fit")
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: variants.mine.groups.window.wide.positions.0.window: \
-1 does not fit
    """
    try:
        yield
    except (SettingsError, TrainingDiverged) as error:
        message = str(error)
        message = message.removeprefix(row) if message.startswith(row) else f": {message}"
        raise type(error)(f"{place}{message}") from None


def _change_place(name: str, group: str, variant: str) -> str:
    return f"variants.{name}.groups.{group}.{variant}"


def _list_names(variant_set: VariantSet) -> list[str]:
    """Return the names of all groups, and of all variants with their groups."""
    groups = variant_set.groups
    return [*groups, *(f"{group}.{name}" for group in groups for name in groups[group])]


def _change_run(row: Run, change: dict[str, Any], place: str) -> Run:
    """Return a run with changed settings, and with an evaluation on trained lengths only."""
    Change.parse(change, place)
    settings = row.model_dump(include={*Change.model_fields})
    merged = profiles.merge_settings(settings, change, where=place)
    with errors_at(place, f"runs.{row.name}"):
        training = run_settings.make_run(merged, row.name, row.profile).training
        if training.batched_seeds:
            raise SettingsError(
                f"runs.{row.name}.training.batched_seeds: True does not fit a variant; "
                "expected False"
            )
        kept = row.evaluation.model_dump(include={"recurrences"})
        evaluation = {**kept, "digits": training.digits, "starts": [1]}
        settings = {**merged, "evaluation": evaluation}
        return run_settings.make_run(settings, row.name, row.profile)


def _check_new(run: Run, place: str, places: dict[str, str]) -> None:
    """Refuse a variant with the same settings as the row or as another variant."""
    same = places.setdefault(run.key(), place)
    if same != place:
        raise SettingsError(
            f"{place}: same settings as {same}; expected a change, or group {REFERENCE!r}"
        )
