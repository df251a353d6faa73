"""Names of rows in figures: from the row, its task, its schemes, its encodings and its format.

A row is called by its `label`, else by its position encodings, architecture and
format:

    addition_abacus           Abacus
    addition_abacus_fire      Abacus + FIRE
    addition_abacus_looped    Abacus, looped
    parity_fire_scratchpad    FIRE, scratchpad
"""

from __future__ import annotations

from carry import formats, positions, tasks
from carry.experiments import load_rows
from carry.experiments.own import STUDY
from carry.experiments.resolve import load_run
from carry.experiments.run import Run
from carry.models import encodings
from carry.positions.index import Index

NO_POSITIONS = "NoPE"
SHARED_WORDS = ("", "relative", "scratchpad")  # of all certified rows


def find_run(row: str) -> Run | None:
    """Return a row of the experiments; None for another name, and for a row without scales."""
    scales = load_rows()[row].scales if row in load_rows() else ()
    if not scales:
        return None
    return load_run(row, "laptop" if "laptop" in scales else next(iter(scales)))


def describe_positions(run: Run) -> str:
    """Return the position encodings of a run in words.

    >>> describe_positions(find_run("addition_abacus_fire"))
    'Abacus + FIRE'
    """
    words = []
    for pair in run.positions:
        scheme = positions.choose_scheme(pair["ids"])
        encoding = encodings.choose_encoding(pair["encoding"], "")
        # Embeddings are called by their scheme, and other encodings of plain order by the encoding.
        embeds = encoding.embed is not encodings.Encoding.embed
        if scheme is Index:
            words += [f"{encoding.label} {scheme.label.lower()}" if embeds else encoding.label]
        else:
            words += [scheme.label if embeds else f"{scheme.label} {encoding.label}"]
    return " + ".join(dict.fromkeys(words)) or NO_POSITIONS


def describe_row(row: str, run: Run | None = None) -> str:
    """Return the label of a row; for a row that no experiment has, its name in words.

    A row of params.yaml is called by its name: two of them may differ in the training alone.

    Args:
        run: its settings (default: those of the experiments).

    >>> describe_row("addition_abacus_looped"), describe_row("my_new_idea")
    ('Abacus, looped', 'My new idea')
    """
    own = load_rows().get(row)
    if own is not None and own.study == STUDY:
        return own.label or row
    run = run or find_run(row)
    return describe_run(run) if run else row.replace("_", " ").capitalize()


def describe_run(run: Run) -> str:
    """Return the label of a run, or the one that follows from its settings."""
    words = [describe_positions(run), describe_architecture(run), describe_format(run)]
    return run.label or ", ".join(word for word in words if word)


def describe_architecture(run: Run) -> str:
    """Return how a run's model differs from a standard transformer, in one word."""
    if run.model.get("name", "transformer") != "transformer":
        return run.model["name"]
    if run.model.get("recurrences", 1) > 1:
        return "looped"
    return "injected" if run.model.get("injection", "none") != "none" else ""


def describe_format(run: Run) -> str:
    """Return "scratchpad" for a run that writes steps before its answer; else nothing."""
    form = formats.build_format(run.format, tasks.build_task(run.task))
    return "scratchpad" if form.has_steps else ""


def name_certified_row(row: str) -> str:
    """Return the name of a certified row's task and part.

    >>> name_certified_row("multi_operand_addition_relative_scratchpad")
    'Multi operand addition'
    >>> name_certified_row("addition_line_rows_relative")
    'Addition, line rows'
    """
    task = find_run(row).task["name"]
    part = [word for word in row.removeprefix(task).split("_") if word not in SHARED_WORDS]
    return ", ".join([task.replace("_", " ").capitalize(), *[" ".join(part)] * bool(part)])
