"""Ablations: one row, changed in one thing at a time, to see which of its ingredients it needs.

`variants` in params.yaml holds them by name: the row, what all of its variants have in common
(`base`), and `groups` of variants, each with what it changes. Which of them run, and how large,
is in a profile's `ablations`. So many small models are trained as one piece of work, since starting
one for each would take longer than training it (see `carry.variants.jobs`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field

from carry.config import profiles, run_settings
from carry.config.run_settings import Run
from carry.config.settings import Settings, SettingsError, suggest_name
from carry.models.system import System
from carry.training.loop import TrainingDiverged

REFERENCE = "reference"  # the group whose variants may change nothing: the row as it is


class Change(Settings):
    """What is changed of a row: positions are replaced whole, all else is merged."""

    task: dict[str, Any] = {}
    format: dict[str, Any] = {}
    positions: list[dict[str, Any]] = []
    model: dict[str, Any] = {}
    training: dict[str, Any] = {}


class Scale(Settings):
    """How large an ablation is made, and on what its variants are scored.

    `times`: lengths, as multiples of the one trained, each with as many `problems`, or fewer, so
    that they have no more than so many `tokens` together. A model without a window compares all
    tokens with all: it is not asked where one problem has more than `dense`. `only`: groups, and
    variants as `group.variant`; default: all.
    """

    seeds: int = Field(default=5, ge=1)
    base: dict[str, Any] = {}
    times: list[Annotated[int, Field(ge=1)]] = Field(default=[1, 2, 10, 100], min_length=1)
    problems: int = Field(default=100, ge=1)
    tokens: int = Field(default=100_000, ge=1)
    dense: int = Field(default=4096, ge=1)
    only: list[str] | None = None


class VariantSet(Scale):
    """The row that variants change, and the variants by group and name."""

    of: str
    groups: dict[str, dict[str, dict[str, Any]]] = Field(min_length=1)


class Variant(NamedTuple):
    """A row with a change, as a run of its own."""

    ablation: str
    group: str
    name: str
    change: dict[str, Any]
    run: Run

    @property
    def where(self) -> str:
        """The place where the change stands in params.yaml."""
        return _place(self.ablation, self.group, self.name)


def load_variant_set(name: str, profile: str) -> VariantSet:
    """Return an ablation at the scale of a profile.

    >>> load_variant_set("addition_relative", "notebook").of
    'addition_relative'

    Raises:
        SettingsError: for an ablation that is not there, or a setting that does not fit.
    """
    here, known = profiles.load_profile(profile)["variant_sets"], profiles.load_params()["variants"]
    if name not in here:
        raise SettingsError(
            f"variant_sets: {name!r} is not in profile {profile!r}, {suggest_name(name, here)}"
        )
    if name not in known:
        raise SettingsError(
            f"variant_sets: {name!r} is not in variants, {suggest_name(name, known)}"
        )
    Scale.parse(here[name], f"variant_sets.{name}")  # what is changed is no matter of size
    found = VariantSet.parse(profiles.merge(known[name], here[name]), f"variants.{name}")
    there = _names(found)
    for wanted in found.only or ():
        if wanted not in there:
            hint = suggest_name(wanted, there)
            raise SettingsError(f"variant_sets.{name}.only: {wanted!r} is not there, {hint}")
    return found


def base_run(name: str, profile: str) -> Run:
    """Return what the variants of an ablation change: its row, with what they share.

    >>> base_run("addition_relative", "notebook").training.steps
    60
    """
    given, rows = load_variant_set(name, profile), run_settings.list_rows(profile)
    if given.of not in rows:
        hint = suggest_name(given.of, rows)
        raise SettingsError(
            f"variants.{name}.of: {given.of!r} is not in profile {profile!r}, {hint}"
        )
    row = run_settings.load_run(given.of, profile)
    return _changed(row, given.base, f"variants.{name}.base")


def list_variants(name: str, profile: str) -> list[Variant]:
    """Return the variants of an ablation that a profile wants, in order.

    Their evaluation is that of no row: it is `Scale` that says what they are asked.

    >>> [variant.name for variant in list_variants("addition_relative", "notebook")]
    ['row', 'none']

    Raises:
        SettingsError: for a change that does not fit, or that changes nothing.
    """
    given, whole = load_variant_set(name, profile), base_run(name, profile)
    seen = {whole.key(): f"runs.{given.of}"}
    found = []
    for group, of in given.groups.items():
        for variant, change in of.items():
            if given.only is not None and not {group, f"{group}.{variant}"} & {*given.only}:
                continue
            where = _place(name, group, variant)
            made = _changed(whole, change, where)
            if (group, change) != (REFERENCE, {}):
                _check_new(made, where, seen)
            found.append(Variant(name, group, variant, change, made))
    return found


def check_variant_set(name: str, profile: str) -> None:
    """Refuse an ablation with a variant that does not build; weights are not made.

    Raises:
        SettingsError: for the first such variant.
    """
    asked, whole = load_variant_set(name, profile), base_run(name, profile)
    runs = {f"variants.{name}.base": whole}
    runs |= {variant.where: variant.run for variant in list_variants(name, profile)}
    for where, of in runs.items():
        with blamed(where, f"runs.{of.name}"), torch.device("meta"):
            system = System(of, device="meta")
        for times in asked.times:
            digits = times * of.training.digits
            system.task.check_cell((digits, digits), f"variants.{name}.times")


@contextmanager
def blamed(where: str, row: str) -> Iterator[None]:
    """Let what is wrong with a variant name the place of its change, and not the row.

    >>> with blamed("variants.mine.groups.window.wide", "runs.mine"):
    ...     raise SettingsError("runs.mine.positions.0.window: -1 does not fit")
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: variants.mine.groups.window.wide.positions.0.window: \
-1 does not fit
    """
    try:
        yield
    except (SettingsError, TrainingDiverged) as error:
        said = str(error)
        said = said.removeprefix(row) if said.startswith(row) else f": {said}"
        raise type(error)(f"{where}{said}") from None


def _place(name: str, group: str, variant: str) -> str:
    return f"variants.{name}.groups.{group}.{variant}"


def _names(of: VariantSet) -> list[str]:
    """Return the names of all groups, and of all variants with their groups."""
    each = [f"{group}.{variant}" for group, named in of.groups.items() for variant in named]
    return [*of.groups, *each]


def _changed(row: Run, change: dict[str, Any], where: str) -> Run:
    """Return a run whose settings are merged with a change, to be asked no more than is trained."""
    Change.parse(change, where)
    merged = profiles.merge(row.model_dump(include={*Change.model_fields}), change)
    with blamed(where, f"runs.{row.name}"):
        trained = run_settings.make_run(merged, row.name, row.profile).training
        if trained.batched_seeds:
            raise SettingsError(
                f"runs.{row.name}.training.batched_seeds: True does not fit an ablation, expected False"
            )
        evaluation = {"digits": trained.digits, "recurrences": row.evaluation.recurrences}
        given = {**merged, "evaluation": {**evaluation, "starts": [1]}}
        return run_settings.make_run(given, row.name, row.profile)


def _check_new(made: Run, where: str, seen: dict[str, str]) -> None:
    """Refuse a variant that is trained as the row is, or as another one."""
    same = seen.setdefault(made.key(), where)
    if same != where:
        raise SettingsError(
            f"{where}: nothing is different from {same}; expected a change, or group {REFERENCE!r}"
        )
