"""Departures: the settings of a row that differ from those of its counterpart in another profile.

Next to the profile `paper` they are the departures of a row from its paper. A setting of size (how
large, how long, how many) is kept apart from one of kind: a small model of the paper's kind may
still show what the paper shows, but a model of another kind is another experiment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from carry.config import profiles as profile_files
from carry.config import run_settings
from carry.config.settings import choose_class
from carry.experiments.run import Run
from carry.formats import Format
from carry.models.architectures import Architecture
from carry.models.architectures.transformer import NORM_EPSILON
from carry.models.encodings import Encoding, choose_encoding
from carry.positions import choose_scheme
from carry.tasks import Task

# Kinds by section, in the order of the table; sizes come last.
KINDS = {
    "positions": "model",
    "model": "model",
    "training": "optimizer",
    "task": "data",
    "format": "data",
    "data_set": "data",
    "evaluation": "evaluation",
    "seeds": "size",
}
ORDER = [*dict.fromkeys(KINDS.values())]

# Settings of size, and the ranges of ids that follow from sizes.
SIZES = {
    *("seeds", "layers", "model.recurrences", "width", "heads", "head_width", "hidden"),
    *("digits", "steps", "batch", "examples", "lengths", "test", "validation", "pad_to"),
    *("offset", "limit", "table", "range", "longest", "far", "attention_cell", "reach"),
}

# The sizes that a table of several rows shows; the others follow from them, or are of evaluation.
SHAPE = ("model.layers", "model.recurrences", "model.width")
SHOWN = ("training.digits", "training.steps", "training.batch")

# Settings that change no result, or only how a run is computed and recorded; `data_set` has the
# problems that a name of a problem set stands for.
RECORDS = {
    *("training.score_every", "training.score_problems", "training.checkpoint_every"),
    *("training.snapshot_every", "training.device", "training.pool", "training.batched_seeds"),
    *("training.problem_set", "evaluation.problem_set", "model.attention", "data_set.task.name"),
    *("training.graphs", "training.micro_batch"),
}
NOT_COMPARED = {"evaluation.starts"}  # results of further starts stand next to those of the paper's


def list_departures(row: str, profile: str, against: str = "paper") -> pd.DataFrame:
    """Return the settings of a row that differ between two profiles, those of size last.

    Columns: `setting`, its name in words; `here`, its value in `profile`; one named `against`, its
    value there; `kind`, which is model, optimizer, data, evaluation or size. Defaults count as if
    they were written, and settings without effect, such as the cooldown of a cosine, do not count.

    >>> table = list_departures("addition_abacus", "full").set_index("setting")
    >>> table.loc["norm place"].tolist(), table.loc["digits", "kind"]
    (['pre', 'post', 'model'], 'size')

    Raises:
        SettingsError: for an unknown row or profile, and for a row that one of them does not have.
    """
    there = resolve_settings(find_counterparts(against).get(row, row), against)
    return _compare_settings(resolve_settings(row, profile), there, against)


def find_counterparts(against: str) -> dict[str, str]:
    """Return the row of a profile with which a row is compared: of the same name, or as it says.

    >>> find_counterparts("paper")["multiplication_coupled_scratchpad_10"]
    'multiplication_coupled_scratchpad'

    Raises:
        SettingsError: for an unknown profile.
    """
    named = profile_files.load_profile(against)["counterparts"]
    return {row: row for row in run_settings.list_rows(against)} | named


def tabulate_departures(profiles: Mapping[str, str], against: str = "paper") -> pd.DataFrame:
    """Return the departures of several rows, with one line for rows that share all that it shows.

    The index `rows` has their names. The columns `model`, `optimizer`, `data` and `evaluation` have
    the settings of a kind as "setting: value here, not value there". The column `size` has the
    shape of the model, the digits, steps and batch of training, as "value here for value there";
    `list_departures` has all sizes. Rows that `against` does not have share the last line, which
    says so. Rows of the profile `against` are left out.

    Args:
        profiles: the profile of each row.
        against: the profile with which they are compared.

    >>> rows = ("addition_nope", "addition_fire", "copying_relative")
    >>> table = tabulate_departures(dict.fromkeys(rows, "baselines"))
    >>> list(table.index), table["model"].iloc[0].split("; ")[0]
    (['addition_nope, addition_fire', 'copying_relative'], 'activation: relu, not gated_gelu')
    >>> table["size"].iloc[0].split("; ")[0], table["model"].iloc[1]
    ('3 layers x 96 for 16 x 1,024', 'no counterpart in the paper')

    Raises:
        SettingsError: for an unknown profile, and for a row that its profile does not have.
    """
    counterparts, kinds = find_counterparts(against), ORDER[:-1]  # the last is size
    groups: dict[tuple[str, ...], list[str]] = {}
    alone = []
    for row, profile in profiles.items():
        if profile == against:
            continue
        if row not in counterparts:
            alone.append(row)
            continue
        here, there = resolve_settings(row, profile), resolve_settings(counterparts[row], against)
        table = _compare_settings(here, there, against)
        texts = [_describe_settings(table[table["kind"] == kind]) for kind in kinds]
        groups.setdefault((*texts, _describe_sizes(here, there)), []).append(row)
    if alone:
        where = "the paper" if against == "paper" else f"profile {against}"
        groups[f"no counterpart in {where}", *[""] * len(kinds)] = alone
    index = pd.Index([", ".join(rows) for rows in groups.values()], dtype=object, name="rows")
    return pd.DataFrame([*groups], index, ORDER, dtype=object)


def _compare_settings(here: dict[str, Any], there: dict[str, Any], against: str) -> pd.DataFrame:
    """Return the table of `list_departures` from the settings of both sides."""
    departures = [
        (label_setting(place), here.get(place), there.get(place), _kind(place))
        for place in dict.fromkeys([*here, *there])
        if place not in NOT_COMPARED
        if here.get(place) != there.get(place) and _is_comparable(place, here, there)
    ]
    departures.sort(key=lambda departure: ORDER.index(departure[3]))
    return pd.DataFrame(departures, columns=["setting", "here", against, "kind"], dtype=object)


def _describe_settings(table: pd.DataFrame) -> str:
    lines = table.drop(columns="kind").itertuples(index=False, name=None)
    return "; ".join(f"{name}: {_show(here)}, not {_show(there)}" for name, here, there in lines)


def _describe_sizes(here: dict[str, Any], there: dict[str, Any]) -> str:
    """Return the shape of the model and the sizes of its training that differ.

    >>> here = dict.fromkeys(SHOWN, 9) | dict(zip(SHAPE, (1, 3, 96), strict=True))
    >>> _describe_sizes(here, {**here, "model.layers": 8, "training.steps": 10000})
    '1 layer x 3 recurrences x 96 for 8 x 3 x 96; steps 9 for 10,000'
    """
    ours, theirs = ([settings.get(place, 1) for place in SHAPE] for settings in (here, there))
    words = [
        f"{number} {unit}" + "s" * (number > 1)
        for number, unit in zip(ours, ("layer", "recurrence"), strict=False)
    ]
    sides = [[*words, f"{ours[2]:,}"], [f"{number:,}" for number in theirs]]
    if ours[1] == theirs[1] == 1:
        sides = [[layers, width] for layers, _, width in sides]
    parts = [" for ".join(" x ".join(side) for side in sides)] if ours != theirs else []
    for place in SHOWN:
        if here[place] != there[place]:
            parts.append(f"{label_setting(place)} {here[place]:,} for {there[place]:,}")
    return "; ".join(parts)


def compare_lengths(profiles: Mapping[str, str], against: str = "paper") -> str:
    """Say whether rows are trained and tested at the lengths that they have in another profile.

    Of several rows, the shortest length here is compared with the longest one there.

    Args:
        profiles: the profile of each row.
        against: the profile with which they are compared; rows that it does not have are left out.

    >>> compare_lengths({"addition_coupled_30": "long"})
    'yes'
    >>> compare_lengths({"sorting_abacus": "baselines", "sorting_fire": "baselines"})
    'trained to 3, not 10; tested to 9, not 30'

    Raises:
        SettingsError: for an unknown profile, and for a row that its profile does not have.
    """
    counterparts = find_counterparts(against)
    sides = [
        (_find_lengths(row, profile), _find_lengths(counterparts[row], against))
        for row, profile in profiles.items()
        if row in counterparts
    ]
    if not sides:
        return ""
    parts = []
    for at, verb in enumerate(("trained", "tested")):
        here, there = min(ours[at] for ours, _ in sides), max(theirs[at] for _, theirs in sides)
        parts += [f"{verb} to {here}, not {there}"] if here < there else []
    return "; ".join(parts) or "yes"


def _find_lengths(row: str, profile: str) -> tuple[int, int]:
    """Return the longest lengths on which a row is trained and tested."""
    run = run_settings.load_run(row, profile)
    far = [size if isinstance(size, int) else max(size) for size in run.evaluation.far]
    tested = [run.evaluation.digits, run.evaluation.longest or 0, *far]
    return max(run.trained_lengths()), max(tested)


def _show(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def label_setting(place: str) -> str:
    """Return the name of a setting in words; that of a model or a training is its last key.

    >>> [label_setting(place) for place in ("training.digits", "evaluation.digits")]
    ['digits', 'evaluation digits']
    >>> label_setting("positions.1.per_example")
    'position 2 per example'
    """
    section, *keys = place.split(".")
    if section in ("model", "training"):
        words = keys
    elif section == "positions":
        words = ["position", str(int(keys[0]) + 1), *keys[1:]]
    else:
        words = [section, *keys]
    return " ".join(words).replace("_", " ")


def resolve_settings(row: str, profile: str) -> dict[str, Any]:
    """Return all settings of a row that change results, by place.

    Defaults are filled in, and settings without effect are left out.

    >>> resolve_settings("addition_relative", "notebook")["model.head_width"]
    16

    Raises:
        SettingsError: for an unknown row or profile.
    """
    run = run_settings.load_run(row, profile)
    chosen = run_settings.list_leaves(run.model_dump(exclude={"name", "profile"}))
    settings = list_part_defaults(run) | {".".join(path): value for path, value in chosen}
    width, heads = settings["model.width"], settings["model.heads"]
    for place, value in (
        ("model.head_width", width // heads),
        ("model.hidden", 4 * width),
        ("model.norm_epsilon", NORM_EPSILON.get(settings.get("model.norm"))),
        ("evaluation.longest", settings["evaluation.digits"]),
    ):
        if place in settings and settings[place] is None:
            settings[place] = value
    if settings["training.precision"] == "auto":  # the fastest that is real fp32
        settings["training.precision"] = "fp32"
    idle = {
        "training.cooldown": settings["training.decay"] != "trapezoid",
        "training.patience": settings["training.stop_at"] is None,
        "training.progressive": settings.get("model.recurrences", 1) == 1,
    }
    for place, value in settings.items():
        if place.endswith(".initial"):
            idle[place.replace("initial", "base")] = value == "normal"  # without waves
    return {
        place: value
        for place, value in settings.items()
        if place not in RECORDS and not idle.get(place)
    }


def list_part_defaults(run: Run) -> dict[str, Any]:
    """Return the defaults of a run's task, format, model and positions, by place.

    >>> run = run_settings.load_run("addition_relative", "notebook")
    >>> list_part_defaults(run)["model.norm_place"]
    'pre'
    """
    names = {"format.name": "expression", "model.name": "transformer"}
    return names | {
        f"{place}.{name}": field.get_default(call_default_factory=True)
        for place, kind in _find_parts(run)
        for name, field in kind.model_fields.items()
        if not field.is_required()
    }


def _find_parts(run: Run) -> Iterator[tuple[str, type]]:
    """Yield the place and the class of the settings of each part of a run."""
    form, model = run.format.get("name", "expression"), run.model.get("name", "transformer")
    yield "task", choose_class("carry.tasks", Task, run.task.get("name"), "task")
    yield "format", choose_class("carry.formats", Format, form, "format")
    kind = choose_class("carry.models.architectures", Architecture, model, "model")
    yield "model", kind.Settings
    for index, pair in enumerate(run.positions):
        place = f"positions.{index}"
        yield place, choose_scheme(pair.get("ids"), f"{place}.ids")
        yield place, choose_encoding(pair.get("encoding"), f"{place}.encoding").Settings


def _is_comparable(place: str, here: dict[str, Any], there: dict[str, Any]) -> bool:
    """Return whether a setting means the same on both sides.

    Different ids, encodings of ids, or norms have settings of their own, which say no more than
    their names.
    """
    section, *keys = place.split(".")
    if section == "positions" and keys[1] in ("ids", "encoding"):
        return True  # one side may have fewer pairs
    if place not in here or place not in there:
        return False
    if place == "model.norm_epsilon":
        return here["model.norm"] == there["model.norm"]
    if section != "positions" or keys[1] in Encoding.Settings.model_fields:
        return True
    ids, encoding = (f"{section}.{keys[0]}.{name}" for name in ("ids", "encoding"))
    of_ids = keys[1] in choose_scheme(here[ids]).model_fields
    return here[ids] == there[ids] and (of_ids or here[encoding] == there[encoding])


def _kind(place: str) -> str:
    is_size = place in SIZES or place.rpartition(".")[2] in SIZES
    return "size" if is_size else KINDS[place.partition(".")[0]]
