"""All figures by name, with their captions and drawing functions."""

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
from carry.plots.entry import BARS_CAPTION, MEDIANS_CAPTION, Drawing, Entry, draw_missing


class Notebook(NamedTuple):
    """The figures of one notebook; they are saved in a folder of their own."""

    source: str
    question: str
    entries: dict[str, Entry]
    paper: str = ""


PAPER_NOTEBOOKS = {
    "mcleish2024": mcleish2024.NOTEBOOKS,
    "cho2025": cho2025.NOTEBOOKS,
    "fraknoi2024": fraknoi2024.NOTEBOOKS,
    "ibrahimli2024": ibrahimli2024.NOTEBOOKS | ibrahimli2024_inside.NOTEBOOKS,
}
OWN_NOTEBOOKS = {"every_length": every_length.NOTEBOOKS | certificates.NOTEBOOKS}  # of no paper

# Rows of other notebooks that the overview draws too: six schemes on one footing, and the rows that
# go farthest.
FOOTING_ROWS = mcleish2024.FOOTING
FARTHEST_ROWS = (
    "addition_abacus_20", "addition_abacus_injected_20", "addition_abacus_looped_20",
    "addition_coupled_30", "addition_relative",
)  # fmt: skip
OVERVIEW_ROWS = FOOTING_ROWS + FARTHEST_ROWS


def select_overview_rows(rows: Iterable[str]) -> list[str]:
    """Return the rows of addition that are not variants for a figure of another notebook.

    >>> select_overview_rows(["addition_abacus_short", "addition_abacus_noise", "sorting_fire"])
    ['addition_abacus_short']
    """
    drawn_elsewhere = {
        row
        for notebooks in (PAPER_NOTEBOOKS | OWN_NOTEBOOKS).values()
        for _, entries in notebooks.values()
        for entry in entries.values()
        for group in (*entry.rows, *entry.stand_ins)
        for row in group
        if row not in OVERVIEW_ROWS
    }
    additions = [row for row in rows if style.find_task_name(row) == "addition"]
    return [row for row in additions if row not in drawn_elsewhere]


def _of_additions(
    title: str, draw: Callable[[load.ResultTables], Drawing], problems: str = "equal"
) -> Callable[[load.ResultTables], Drawing]:
    """Return a drawing function for the overview's rows that were scored on a kind of problems."""

    def picture(tables: load.ResultTables) -> Drawing:
        cells = tables["cells"]
        rows = select_overview_rows(load.list_rows(cells[cells["set"] == problems]))
        if not rows:
            return draw_missing(title, list(OVERVIEW_ROWS), profile="cpu")
        return draw(tables.select_rows(rows))

    return picture


OVERVIEW = {
    "numbering": Entry(
        "How each scheme numbers a sum",
        "One sum with the ids of each position scheme: tokens above, ids below. Equal ids of a "
        "strip have one colour; id 0 marks tokens without a place.",
        lambda tables: numbering.draw_ids_of_sum(),
    ),
    "architectures": Entry(
        "Three architectures",
        "All have a depth of four layers: the standard decoder, the decoder that adds its embedded "
        "input again before every layer, and the decoder that runs two layers twice.",
        lambda tables: architectures.draw_architectures(),
    ),
    "curves": Entry(
        "Learning curves",
        "Training loss, and exact match on held-out sums of the training lengths. Thin lines are "
        "seeds, thick lines their median until the first seed stops.",
        _of_additions(
            "Learning curves", lambda tables: curves.draw_learning_curves(tables["curves"])
        ),
        select_rows=select_overview_rows,
    ),
    "accuracy": Entry(
        "Accuracy by length",
        "Exact match on sums of two operands of one length; the lengths of training are shaded. "
        "The other panels have the rows that change with the start of ids: the best single one, "
        "chosen on trained lengths, or the mean of next-token probabilities over all. "
        f"{MEDIANS_CAPTION}",
        _of_additions(
            "Accuracy by length", lambda tables: accuracy.draw_accuracy_by_length(tables["cells"])
        ),
        select_rows=select_overview_rows,
    ),
    "regions": Entry(
        "Accuracy by region",
        "In distribution both operands have lengths of training; out of distribution at least one "
        f"operand is longer. {BARS_CAPTION}",
        _of_additions(
            "Accuracy by region",
            lambda tables: regions.draw_accuracy_by_region(tables["cells"]),
            problems="grid",
        ),
        select_rows=select_overview_rows,
    ),
    "heatmaps": Entry(
        "Accuracy for every pair of lengths",
        f"Exact match on sums by the lengths of both operands, {mcleish2024.HEATMAPS_CAPTION}",
        _of_additions(
            "Accuracy for every pair of lengths",
            lambda tables: heatmaps.draw_accuracy_heatmaps(tables["cells"]),
            problems="grid",
        ),
        select_rows=select_overview_rows,
    ),
    "places": Entry(
        "Accuracy by place",
        "Correct digits at each place of the answer, under teacher forcing. Thin lines are seeds, "
        "thick lines their median.",
        _of_additions(
            "Accuracy by place",
            lambda tables: places.draw_accuracy_by_place(
                tables["places"], load.choose_starts(tables["cells"])
            ),
        ),
        select_rows=select_overview_rows,
    ),
    "errors": Entry(
        "Kinds of mistakes",
        "Answers beyond the training lengths, all seeds pooled, by their first wrong token. A "
        "random wrong digit counts as a carry mistake in one of 9 cases and as misaligned more "
        "often, so shares of that size mean little.",
        _of_additions(
            "Kinds of mistakes",
            lambda tables: errors.draw_mistake_kinds(tables["cells"]),
            problems="grid",
        ),
        select_rows=select_overview_rows,
    ),
}


NOTEBOOKS = {
    "overview": Notebook("overview", "Where does each digit stand?", OVERVIEW),
    **{
        name: Notebook(f"{paper}/{name}", question, entries, paper)
        for paper, notebooks in PAPER_NOTEBOOKS.items()
        for name, (question, entries) in notebooks.items()
    },
    **{
        name: Notebook(f"{folder}/{name}", question, entries)
        for folder, notebooks in OWN_NOTEBOOKS.items()
        for name, (question, entries) in notebooks.items()
    },
}
FIGURES = {
    name: entry for notebook in NOTEBOOKS.values() for name, entry in notebook.entries.items()
}


def write_caption(name: str, tables: load.ResultTables) -> str:
    """Return the caption of a figure, for the rows that have results."""
    entry, sources = FIGURES[name], _read_sources(tables)
    drawn = entry.select_rows(sources) if entry.select_rows else entry.choose_rows(tables)
    return entry.write_caption(sources, tables.profile, drawn)


def find_sources(notebook: str, tables: load.ResultTables) -> dict[str, str]:
    """Return the rows that the figures of a notebook show, and whose profile's results each has.

    Args:
        notebook: the name of a notebook in `NOTEBOOKS`.
        tables: the result tables from which its figures are drawn.

    >>> import pandas as pd
    >>> names = ["addition_abacus_20", "parity_nope"]
    >>> cells = pd.DataFrame({"row": names, "profile": "long", "trained": 20, "exact": 5})
    >>> find_sources("how_far", load.create_empty_results().with_tables(cells=cells))
    {'addition_abacus_20': 'long'}
    """
    entries, sources = NOTEBOOKS[notebook].entries.values(), _read_sources(tables)
    return {row: sources[row] for entry in entries for row in entry.choose_rows(tables)}


def _read_sources(tables: load.ResultTables) -> dict[str, str]:
    rows = tables["cells"].drop_duplicates("row")
    return dict(zip(rows["row"], rows["profile"], strict=True))


def draw_figure(name: str, tables: load.ResultTables) -> Drawing:
    """Return a figure of the gallery and its table."""
    return FIGURES[name].draw(tables)


def save_figure(name: str, tables: load.ResultTables, folder: Path) -> Drawing:
    """Draw a figure of the gallery, save it with its table, and return both.

    The figure is closed for pyplot, so that a notebook shows it only once.
    """
    figure, table = draw_figure(name, tables)
    style.save_figure(figure, name, table, folder)
    figure.set_layout_engine("none")  # keep the layout, which takes as long as drawing
    plt.close(figure)
    return figure, table
