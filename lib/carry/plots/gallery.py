"""Every figure by name: what it is called, how to read it, and how to draw it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt

from carry.plots import (
    accuracy,
    architectures,
    certificates,
    cho2025,
    curves,
    errors,
    every_length,
    fraknoi2024,
    heatmaps,
    ibrahimli2024,
    ibrahimli2024_inside,
    load,
    mcleish2024,
    numbering,
    places,
    regions,
    style,
)
from carry.plots.entry import Drawing, Entry


class Notebook(NamedTuple):
    """What a notebook draws; its figures go to a folder of their own."""

    source: str
    question: str
    entries: dict[str, Entry]
    paper: str = ""


PAPERS = {
    "mcleish2024": mcleish2024.NOTEBOOKS,
    "cho2025": cho2025.NOTEBOOKS,
    "fraknoi2024": fraknoi2024.NOTEBOOKS,
    "ibrahimli2024": ibrahimli2024.NOTEBOOKS | ibrahimli2024_inside.NOTEBOOKS,
}

OURS = {"every_length": every_length.NOTEBOOKS | certificates.NOTEBOOKS}  # after no paper

# Of the rows that their entries name, those that the overview has as well.
SHARED = [
    "addition_nope", "addition_learned", "addition_rope", "addition_fire", "addition_abacus_short",
    "addition_abacus", "addition_abacus_looped", "addition_abacus_fire", "addition_coupled",
    "addition_relative",
]  # fmt: skip


def overview(rows: Iterable[str]) -> list[str]:
    """Return the rows of addition, without those that only vary one for another figure.

    >>> overview(["addition_abacus", "addition_abacus_noise", "sorting_fire", "addition_mine"])
    ['addition_abacus', 'addition_mine']
    """
    drawn = [entries for of in (PAPERS | OURS).values() for _, entries in of.values()]
    varied = {row for of in drawn for entry in of.values() for row in entry.wanted()} - {*SHARED}
    return [row for row in rows if style.task(row) in ("addition", "") and row not in varied]


def _of_sums(draw: Callable[[load.Tables], Drawing]) -> Callable[[load.Tables], Drawing]:
    """Draw the rows of the overview."""

    def picture(tables: load.Tables) -> Drawing:
        rows = overview(load.rows(tables.cells))
        return draw(tables.of(rows) if rows else tables)  # of a profile without sums, what it has

    return picture


OVERVIEW = {
    "numbering": Entry(
        "How each scheme numbers a sum",
        "The same sum as each position scheme sees it: tokens above, ids below. Equal ids have "
        "equal colours within a strip; id 0 tells nothing about place.",
        lambda tables: numbering.of_a_sum(),
    ),
    "architectures": Entry(
        "Three architectures",
        "Four layers deep each: the standard decoder, the same with its embedded input added "
        "again before every layer, and half the layers run twice.",
        lambda tables: architectures.side_by_side(),
    ),
    "curves": Entry(
        "Learning curves",
        "Training loss, and exact match on held-out sums of the training lengths. Thin lines are "
        "seeds, thick ones their median, up to where the first seed has stopped.",
        _of_sums(lambda tables: curves.by_step(tables.curves)),
    ),
    "accuracy": Entry(
        "Accuracy by length",
        "Sums wholly right, both operands of one length. Thin lines are seeds, thick ones their "
        "median; shaded: the lengths of training. The second panel has the rows that change when "
        "ids start in the middle of their table.",
        _of_sums(lambda tables: accuracy.by_length(tables.cells)),
    ),
    "regions": Entry(
        "Accuracy by region",
        "In distribution both operands are as long as in training at most; out of distribution at "
        "least one is longer. Bars count all seeds together, dark lines are their Wilson intervals "
        "(95%), dots are the seeds.",
        _of_sums(lambda tables: regions.by_region(tables.cells)),
    ),
    "heatmaps": Entry(
        "Accuracy for every pair of lengths",
        "Sums wholly right, the mean over seeds, by the lengths of both operands. The frame holds "
        "the lengths of training.",
        _of_sums(lambda tables: heatmaps.by_lengths(tables.cells)),
    ),
    "places": Entry(
        "Accuracy by place",
        "Digits right at each place of the answer, given the right digits before. Thin lines are "
        "seeds, thick ones their median.",
        _of_sums(lambda tables: places.by_place(tables.places, load.starts(tables.cells))),
    ),
    "errors": Entry(
        "Kinds of error",
        "How answers beyond the training lengths end, all seeds together, named by their first "
        "wrong token. A wrong digit drawn at random looks like a carry's fault once in 9 and "
        "misaligned more often, so shares of that size say little.",
        _of_sums(lambda tables: errors.by_kind(tables.cells)),
    ),
}


NOTEBOOKS = {
    "overview": Notebook("figures", "Where does each digit stand?", OVERVIEW),
    **{
        name: Notebook(f"{paper}/{name}", question, entries, paper)
        for paper, of in PAPERS.items()
        for name, (question, entries) in of.items()
    },
    **{
        name: Notebook(f"{folder}/{name}", question, entries)
        for folder, of in OURS.items()
        for name, (question, entries) in of.items()
    },
}
FIGURES = {name: entry for of in NOTEBOOKS.values() for name, entry in of.entries.items()}


def caption(name: str, tables: load.Tables) -> str:
    """Return what is said below a figure that is drawn from some tables."""
    return FIGURES[name].told(load.rows(tables.cells))


def draw(name: str, tables: load.Tables) -> Drawing:
    """Return one figure and the table behind it."""
    return FIGURES[name].draw(tables)


def write(name: str, tables: load.Tables, folder: Path) -> Drawing:
    """Draw one figure, save it and the table behind it, and return both.

    The figure is closed for pyplot, so that a notebook shows it where it is displayed, and once.
    """
    figure, table = draw(name, tables)
    style.save(figure, name, table, folder)
    plt.close(figure)
    return figure, table
