"""An entry of the gallery: a drawing function, its caption, and the rows that it needs."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from carry.evaluation.regions import LEARNED
from carry.plots import load, style

Drawing = tuple[Figure, pd.DataFrame]
Rows = tuple[str, ...]

INTERVALS = "t intervals over seeds (95%; none for a single seed)"
LEARNED_CAPTION = (
    f'"Not learned", hollow or grey: half of the seeds or more are below {LEARNED:.0%} at their '
    "trained lengths."
)
BARS_CAPTION = (
    f"Bars are means over seeds, dark lines their {INTERVALS}, dots the seeds. {LEARNED_CAPTION}"
)
LINES_CAPTION = (
    f"Lines are means over seeds, with {INTERVALS}; small dots are the seeds. {LEARNED_CAPTION}"
)
MEDIANS_CAPTION = f"Thin lines are seeds, thick lines their median. {LEARNED_CAPTION}"

MAX_NAMED_ROWS = 12  # of a longer list only the ends are named


def name_rows(task: str, *parts: Rows) -> Rows:
    """Return the names of a task's rows: one of each of the parts, the first changing slowest.

    >>> name_rows("addition", ("nope", "abacus"), ("", "_looped"))
    ('addition_nope', 'addition_nope_looped', 'addition_abacus', 'addition_abacus_looped')
    """
    names = [f"{task}_"]
    for part in parts:
        names = [name + ending for name in names for ending in part]
    return tuple(names)


def join_names(rows: list[str]) -> str:
    """Return the names of rows in words; of a long list the first and the last.

    >>> join_names(["a", "b"]), join_names([str(number) for number in range(48)])
    ('a, b', '0 to 47 (48 rows)')
    """
    if len(rows) <= MAX_NAMED_ROWS:
        return ", ".join(rows)
    return f"{rows[0]} to {rows[-1]} ({len(rows)} rows)"


def describe_origins(sources: Mapping[str, str], profile: str) -> str:
    """Return a sentence that says which rows a profile trained; none if it trained all.

    >>> describe_origins({"a": "cpu", "b": "full"}, "cpu")
    ' Trained here: a; from the committed results of `full`: b.'
    >>> describe_origins({"a": "full"}, "cpu"), describe_origins({"a": "cpu"}, "cpu")
    (' All rows are committed results of `full`.', '')
    """
    trained = [row for row, source in sources.items() if source == profile]
    committed = [row for row in sources if row not in trained]
    if not committed:
        return ""
    origins = ", ".join(f"`{source}`" for source in dict.fromkeys(map(sources.get, committed)))
    if not trained:
        return f" All rows are committed results of {origins}."
    names = join_names(trained), join_names(committed)
    return f" Trained here: {names[0]}; from the committed results of {origins}: {names[1]}."


class Entry(NamedTuple):
    """A figure of the gallery.

    Fields:
        title, caption: the texts that a reader needs to understand the figure.
        picture: the drawing function, from result tables to the figure and its table.
        rows: groups of rows. A group is drawn if at least `minimum_rows` of its rows have results
            and one training length (with `any_training_length`: any lengths). Without groups, the
            drawing function gets all tables.
        stand_ins: groups that are drawn if none of `rows` is, each only with all of its rows; for
            profiles whose usual row has another training length than its variants.
        extra_rows: rows that are drawn too if a drawn row has their training length.
        source: the figure or section of a paper.
        table, column: a row is drawn only if it has values there.
        profile: the profile that makes missing rows.
        select_rows: in place of groups, selects the rows to draw among those with results.
    """

    title: str
    caption: str
    picture: Callable[[load.ResultTables], Drawing]
    rows: tuple[tuple[str, ...], ...] = ()
    minimum_rows: int = 1
    any_training_length: bool = False
    stand_ins: tuple[tuple[str, ...], ...] = ()
    extra_rows: tuple[str, ...] = ()
    source: str = ""
    table: str = "cells"
    column: str = "exact"
    profile: str = "gpu"
    select_rows: Callable[[Iterable[str]], list[str]] | None = None

    def draw(self, tables: load.ResultTables) -> Drawing:
        """Return the figure and its table; without results, a note that names the missing rows."""
        if not self.rows:
            return self.picture(tables)
        rows = self.choose_rows(tables)
        if not rows:
            present = self._find_lengths(tables)
            missing = [row for row in self.list_rows() if row not in present]
            return draw_missing(self.source or self.title, missing, self.profile)
        return self.picture(tables.select_rows(rows))

    def write_caption(
        self, sources: Mapping[str, str], profile: str, drawn: Iterable[str] = ()
    ) -> str:
        """Return the caption with its source, the rows without results, and the origins of others.

        Args:
            sources: the profile whose results each row has.
            profile: the profile that draws the figure.
            drawn: the rows that it draws.

        >>> entry = Entry("Sums", "Right.", None, rows=(("a", "b"),), source="Fig. 2")
        >>> entry.write_caption({"b": "full", "c": "cpu"}, "cpu", ["b"])
        'Right. (Fig. 2.) Not in this profile: a. All rows are committed results of `full`.'
        """
        text = self.caption + (f" ({self.source}.)" if self.source else "")
        missing = [row for row in self.list_rows() if row not in sources]
        text += f" Not in this profile: {join_names(missing)}." if missing else ""
        return text + describe_origins({row: sources[row] for row in drawn}, profile)

    def list_rows(self) -> list[str]:
        """Return all rows of the groups, each once."""
        return list(dict.fromkeys(row for group in self.rows for row in group))

    def choose_rows(self, tables: load.ResultTables) -> list[str]:
        """Return the rows to draw, by training length; no rows if no group is complete."""
        present = self._find_lengths(tables)
        rows = [row for group in self.rows for row in self._keep_complete(group, present)]
        for group in () if rows else self.stand_ins:
            lengths = {present.get(row) for row in group}
            complete = None not in lengths and (self.any_training_length or len(lengths) == 1)
            rows += group if complete else ()
        lengths = {present[row] for row in rows}
        rows += [row for row in self.extra_rows if present.get(row) in lengths]
        return sorted(dict.fromkeys(rows), key=present.get)

    def _keep_complete(self, group: Rows, present: Mapping[str, int]) -> list[str]:
        """Return the rows of training lengths that at least `minimum_rows` rows have."""
        rows = [row for row in group if row in present]
        if self.any_training_length:
            return rows if len(rows) >= self.minimum_rows else []
        count = Counter(present[row] for row in rows)
        return [row for row in rows if count[present[row]] >= self.minimum_rows]

    def _find_lengths(self, tables: load.ResultTables) -> dict[str, int]:
        """Return the training lengths of the rows that have the needed results."""
        if not tables.has_rows(self.table) or self.column not in tables[self.table]:
            return {}
        table = tables[self.table]
        rows = {*table.loc[table[self.column].notna(), "row"].unique()}
        lengths = load.find_training_lengths(tables["cells"])
        return {row: length for row, length in lengths.items() if row in rows}


@style.use_style
def draw_missing(name: str, rows: list[str], profile: str = "gpu") -> Drawing:
    """Draw a note: which results a figure needs, and the command that makes them."""
    text = f"{name} needs results that this profile does not have: {join_names(rows)}"
    lines = textwrap.wrap(text, 110, break_on_hyphens=False)
    lines += ["", f"make repro PROFILE={profile}"]
    figure, axes = plt.subplots(figsize=(8.2, 0.3 + 0.17 * len(lines)), layout="constrained")
    axes.text(0, 0.5, "\n".join(lines), va="center", color="#555555", fontsize="small")
    axes.axis("off")
    return figure, pd.DataFrame({"needs": rows})
