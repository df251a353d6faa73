"""Names of rows in figures: from the row, its task, its schemes, its encodings and its format.

A row is called by its `label:` in params.yaml, else by its position encodings, architecture and
format:

    addition_abacus           Abacus
    addition_abacus_fire      Abacus + FIRE
    addition_abacus_looped    Abacus, looped
    parity_fire_scratchpad    FIRE, scratchpad
"""

from __future__ import annotations

from functools import cache
from typing import Any

from carry import formats, positions, tasks
from carry.config import profiles, run_settings
from carry.config.settings import choose_class
from carry.models import encodings
from carry.positions.index import Index

NO_POSITIONS = "NoPE"
SHARED_WORDS = ("", "relative", "scratchpad")  # of all certified rows


def find_settings(row: str) -> dict[str, Any] | None:
    """Return the settings of a row in params.yaml; None for a row that is not there."""
    return _find_settings(row, profiles.find_params().stat().st_mtime_ns)


@cache  # a figure asks for the settings of each row many times
def _find_settings(row: str, changed: int) -> dict[str, Any] | None:
    """Return the settings of a row; `changed` is the time of the last change of params.yaml."""
    if row not in profiles.load_params()["runs"]:
        return None
    return run_settings.load_row_settings(row)


def find_task(row: str) -> type[tasks.Task] | None:
    """Return the kind of task of a row; None for a row that is not in params.yaml.

    >>> find_task("bitwise_or_fire").noun, find_task("mine")
    ('answers', None)
    """
    settings = find_settings(row)
    if settings is None:
        return None
    return choose_class("carry.tasks", tasks.Task, settings["task"]["name"], f"runs.{row}.task")


def describe_positions(settings: dict[str, Any]) -> str:
    """Return the position encodings of a row in words.

    >>> describe_positions(find_settings("addition_abacus_fire"))
    'Abacus + FIRE'
    """
    pairs = [
        describe_pair(
            positions.choose_scheme(pair.get("ids")),
            encodings.choose_encoding(pair.get("encoding"), ""),
        )
        for pair in settings.get("positions", [])
    ]
    return " + ".join(dict.fromkeys(pairs)) or NO_POSITIONS


def describe_pair(scheme: type[positions.Scheme], encoding: type[encodings.Encoding]) -> str:
    """Return one position encoding in words.

    Embeddings are called by their scheme, if it is not plain order; other encodings of plain order
    are called by the encoding.

    >>> from carry.models.encodings.fire import Fire
    >>> describe_pair(Index, Fire), describe_pair(positions.choose_scheme("randomized"), Fire)
    ('FIRE', 'Randomized FIRE')
    """
    embeds = encoding.embed is not encodings.Encoding.embed
    if scheme is Index:
        return f"{encoding.label} {scheme.label.lower()}" if embeds else encoding.label
    return scheme.label if embeds else f"{scheme.label} {encoding.label}"


def describe_row(row: str) -> str:
    """Return the label of a row; for a row that is not in params.yaml, its name in words.

    >>> describe_row("addition_abacus_looped"), describe_row("my_new_idea")
    ('Abacus, looped', 'My new idea')
    """
    settings = find_settings(row)
    return describe_settings(settings) if settings else row.replace("_", " ").capitalize()


def describe_settings(settings: dict[str, Any]) -> str:
    """Return the label in the settings of a row, or the label that follows from them."""
    if settings.get("label"):
        return settings["label"]
    words = [
        describe_positions(settings),
        describe_architecture(settings),
        describe_format(settings),
    ]
    return ", ".join(word for word in words if word)


def describe_architecture(settings: dict[str, Any]) -> str:
    """Return how a row's model differs from a standard transformer, in one word."""
    model = settings.get("model", {})
    if model.get("name", "transformer") != "transformer":
        return model["name"]
    if model.get("recurrences", 1) > 1:
        return "looped"
    return "injected" if model.get("injection", "none") != "none" else ""


def describe_format(settings: dict[str, Any]) -> str:
    """Return "scratchpad" for a row that writes steps before its answer; else nothing."""
    task = tasks.build_task(settings["task"])
    form = formats.build_format(settings.get("format", {}), task)
    return "scratchpad" if form.has_steps else ""


def find_task_name(row: str) -> str:
    """Return the name of a row's task; empty for a row that is not in params.yaml.

    >>> find_task_name("bitwise_or_fire"), find_task_name("mine")
    ('bitwise_or', '')
    """
    settings = find_settings(row)
    return settings["task"]["name"] if settings else ""


def name_certified_row(row: str) -> str:
    """Return the name of a certified row's task and part.

    >>> name_certified_row("multi_operand_addition_relative_scratchpad")
    'Multi operand addition'
    >>> name_certified_row("addition_line_rows_relative")
    'Addition, line rows'
    """
    task = find_task_name(row)
    part = [word for word in row.removeprefix(task).split("_") if word not in SHARED_WORDS]
    return ", ".join([task.replace("_", " ").capitalize(), *[" ".join(part)] * bool(part)])
