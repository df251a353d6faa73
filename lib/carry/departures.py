"""Departures: the settings of a row that differ from those of its counterpart at another scale.

Next to the scale `paper` they are the departures of a row from its paper. A setting of size (how
large, how long, how many) is kept apart from one of kind: a small model of the paper's kind may
still show what the paper shows, but a model of another kind is another experiment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from carry.experiments import load_rows
from carry.experiments.resolve import load_run
from carry.experiments.run import Run
from carry.models.architectures.transformer import NORM_EPSILON
from carry.models.encodings import Encoding
from carry.models.identity import list_settings
from carry.positions import choose_scheme

SUMS, BLOCKS = "multi_operand_addition_coupled", "addition_abacus_10"
# Rows that a laptop trains to the lengths of a paper, and the row that has its settings.
COUNTERPARTS = {
    "addition_nope_20": "addition_nope",
    "addition_fire_20": "addition_fire",
    "addition_randomized_fire_hints_20": "addition_randomized_fire_hints",
    "sorting_abacus_fire_10": "sorting_abacus_fire",
    "addition_abacus_20_jumps_longer": "addition_abacus_20",
    "addition_abacus_injected_20_jumps_longer": "addition_abacus_injected_20",
    "addition_abacus_looped_20_jumps_longer": "addition_abacus_looped_20",
    "addition_abacus_looped_20_published": "addition_abacus_looped_20",
    "addition_coupled_30_jumps_longer": "addition_coupled_30",
    f"{SUMS}_scratchpad_10": f"{SUMS}_scratchpad",
    f"{SUMS}_scratchpad_10_2l2h": f"{SUMS}_scratchpad_2l2h",
    f"{SUMS}_10": SUMS,
    "multiplication_coupled_scratchpad_10": "multiplication_coupled_scratchpad",
    f"{SUMS}_scratchpad_10_2l2h_jump_longer": f"{SUMS}_scratchpad_2l2h",
    f"{SUMS}_scratchpad_10_1l4h_jump_longer": f"{SUMS}_scratchpad_1l4h",
    "multiplication_coupled_scratchpad_10_jump_longer": "multiplication_coupled_scratchpad",
    "bitwise_or_abacus_jumps_longer": "bitwise_or_abacus",
    "parity_coupled_scratchpad_jumps_longer": "parity_coupled_scratchpad",
    **{f"addition_abacus_{digits}": "addition_abacus" for digits in (10, 30, 40)},
    **{f"addition_{name}_6": f"addition_{name}" for name in ("nope", "fire")},
    **{f"addition_{name}_6_looped": f"addition_{name}_looped" for name in ("nope", "fire")},
    # The paper's blocks of 16 layers; its changes of training are of all its architectures.
    **{f"{BLOCKS}_3x1_standard_{word}": "addition_abacus" for word in ("everything", "noise")},
    **{
        f"{BLOCKS}_{rest}": "addition_abacus_injected"
        for rest in ("3x1", "6x1", "3x1_everything", "3x1_noise")
    },
    **{
        f"{BLOCKS}_3x2": "addition_abacus_looped",
        f"{BLOCKS}_2x3": "addition_abacus_looped_4",
        f"{BLOCKS}_2x3_entrance": "addition_abacus_looped_4",
    },
    **{
        f"{BLOCKS}_1x{rest}": "addition_abacus_looped_16"
        for rest in ("3", "6", "16", "3_everything", "3_noise", "3_divided")
    },
    **{
        f"noisy_majority_{size}_unit": f"noisy_majority_{size}"
        for size in ("d8_a4", "d2_a1", "d32_a16")
    },
    "noisy_majority_d8_a4_everything": "noisy_majority_d8_a4",
    "noisy_majority_d2_a1_everything": "noisy_majority_d2_a1",
    "noisy_majority_d8_a4_short": "noisy_majority_d8_a4",
    "noisy_majority_d8_a4_short_dropout": "noisy_majority_d8_a4",
}

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
# problems that a name of a problem set stands for, and a stream gives others of the same kind.
RECORDS = {
    *("training.score_every", "training.score_problems", "training.checkpoint_every"),
    *("training.snapshot_every", "training.pool", "training.batched_seeds"),
    *("training.problem_set", "evaluation.problem_set", "model.attention", "data_set.task"),
    "training.stream",
    "evaluation.starts",  # results of further starts stand next to those of the paper's
}


def list_departures(row: str, scale: str = "laptop", against: str = "paper") -> pd.DataFrame:
    """Return the settings of a row that differ between two scales, those of size last.

    Columns: `setting`, its name in words; `here`, its value at `scale`; one named `against`, its
    value there; `kind`, which is model, optimizer, data, evaluation or size. Defaults count as if
    they were written, and settings without effect, such as the cooldown of a cosine, do not count.

    >>> table = list_departures("addition_abacus").set_index("setting")
    >>> table.loc["norm place"].tolist(), table.loc["digits", "kind"]
    (['pre', 'post', 'model'], 'size')

    Raises:
        SettingsError: for an unknown row, and for a scale that it does not have.
    """
    here, there = load_run(row, scale), find_counterpart(row, against)
    return compare_runs(here, there or load_run(row, against), against)


def find_counterpart(row: str, scale: str = "paper") -> Run | None:
    """Return the run at a scale with which a row is compared, its own or that of `COUNTERPARTS`.

    >>> find_counterpart("multiplication_coupled_scratchpad_10").name
    'multiplication_coupled_scratchpad'
    >>> find_counterpart("copying_relative") is None
    True
    """
    rows = load_rows()
    for name in (row, COUNTERPARTS.get(row)):
        if name in rows and scale in rows[name].scales:
            return load_run(name, scale)
    return None


def list_changed(runs: Mapping[str, Run]) -> list[str]:
    """Return the rows that have other settings now than in these runs, or that are gone.

    Their results are kept until new ones replace them, seed by seed.

    >>> list_changed({"addition_nope": load_run("addition_nope")})
    []
    """
    known = load_rows()

    def is_changed(row: str, run: Run) -> bool:
        if row not in known or run.scale not in known[row].scales:
            return True
        now = load_run(row, run.scale).model_copy(update={"seeds": run.seeds})
        return not compare_runs(run, now).empty

    return [row for row, run in runs.items() if is_changed(row, run)]


def tabulate_departures(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Return the departures of rows from the paper; rows that share all of them share a line.

    The index `rows` has their names. The columns `model`, `optimizer`, `data` and `evaluation` have
    the settings of a kind as "setting: value here, not value there". The column `size` has the
    shape of the model, the digits, steps and batch of training, as "value here for value there";
    `list_departures` has all sizes. Rows without a counterpart share the last line, which says so.
    Runs of the scale `paper` are left out.

    >>> rows = ("addition_nope", "addition_fire", "copying_relative")
    >>> table = tabulate_departures({row: load_run(row) for row in rows})
    >>> list(table.index), table["model"].iloc[0].split("; ")[0]
    (['addition_nope, addition_fire', 'copying_relative'], 'activation: relu, not gated_gelu')
    >>> table["size"].iloc[0].split("; ")[0], table["model"].iloc[1]
    ('3 layers x 96 for 16 x 1,024', 'no counterpart in the paper')
    """
    kinds = ORDER[:-1]  # the last is size
    groups: dict[tuple[str, ...], list[str]] = {}
    alone = []
    for row, run in runs.items():
        if run.scale == "paper":
            continue
        counterpart = find_counterpart(row)
        if counterpart is None:
            alone.append(row)
            continue
        table = compare_runs(run, counterpart)
        texts = [_describe_settings(table[table["kind"] == kind]) for kind in kinds]
        groups.setdefault((*texts, _describe_sizes(run, counterpart)), []).append(row)
    if alone:
        groups["no counterpart in the paper", *[""] * len(kinds)] = alone
    index = pd.Index([", ".join(rows) for rows in groups.values()], dtype=object, name="rows")
    return pd.DataFrame([*groups], index, ORDER, dtype=object)


def compare_runs(run: Run, other: Run, against: str = "paper") -> pd.DataFrame:
    """Return the table of `list_departures` from the settings of both sides."""
    here, there = resolve_settings(run), resolve_settings(other)
    departures = [
        (label_setting(place), here.get(place), there.get(place), _kind(place))
        for place in dict.fromkeys([*here, *there])
        if here.get(place) != there.get(place) and _is_comparable(place, here, there)
    ]
    departures.sort(key=lambda departure: ORDER.index(departure[3]))
    return pd.DataFrame(departures, columns=["setting", "here", against, "kind"], dtype=object)


def _describe_settings(table: pd.DataFrame) -> str:
    lines = table.drop(columns="kind").itertuples(index=False, name=None)
    return "; ".join(f"{name}: {_show(here)}, not {_show(there)}" for name, here, there in lines)


def _describe_sizes(run: Run, other: Run) -> str:
    """Return the shape of the model and the sizes of its training that differ.

    >>> sides = [load_run("addition_abacus_looped", scale) for scale in ("laptop", "gpu")]
    >>> _describe_sizes(*sides).split("; ")[:2]
    ['1 layer x 3 recurrences x 128 for 4 x 2 x 128', 'digits 10 for 20']
    """
    here, there = resolve_settings(run), resolve_settings(other)
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


def compare_lengths(runs: Mapping[str, Run]) -> str:
    """Say whether rows are trained and tested at the lengths of the paper.

    Of several rows, the shortest length here is compared with the longest one there. Rows without a
    counterpart are left out.

    >>> compare_lengths({"addition_coupled_30": load_run("addition_coupled_30")})
    'yes'
    >>> compare_lengths({row: load_run(row) for row in ("sorting_abacus", "sorting_fire")})
    'trained to 3, not 10; tested to 9, not 30'
    """
    sides = [
        (_find_lengths(run), _find_lengths(other))
        for row, run in runs.items()
        if (other := find_counterpart(row)) is not None
    ]
    if not sides:
        return ""
    parts = []
    for at, verb in enumerate(("trained", "tested")):
        here, there = min(ours[at] for ours, _ in sides), max(theirs[at] for _, theirs in sides)
        parts += [f"{verb} to {here}, not {there}"] if here < there else []
    return "; ".join(parts) or "yes"


def _find_lengths(run: Run) -> tuple[int, int]:
    """Return the longest lengths on which a row is trained and tested."""
    return max(run.trained_lengths()), run.evaluation.largest_size()


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


def resolve_settings(run: Run) -> dict[str, Any]:
    """Return all settings of a run that change results, by place.

    Defaults are filled in, and settings without effect are left out.

    >>> resolve_settings(load_run("addition_relative", "notebook"))["model.head_width"]
    16
    """
    settings = {place: value for place, value, _ in list_settings(run)}
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
