"""An entry of the gallery: a picture, how to read it, and the rows it is drawn from."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from carry.plots import load, style

Drawing = tuple[Figure, pd.DataFrame]
Rows = tuple[str, ...]

BARS = (
    "Bars count all seeds together, dark lines are their Wilson intervals (95%), dots are the "
    "seeds."
)

MOST = 12  # rows that are all named where some are lacking


def names(task: str, *parts: Rows) -> Rows:
    """Return the rows of a task that have one of each of the parts, the first changing slowest.

    >>> names("addition", ("nope", "abacus"), ("", "_looped"))
    ('addition_nope', 'addition_nope_looped', 'addition_abacus', 'addition_abacus_looped')
    """
    found = [f"{task}_"]
    for part in parts:
        found = [name + more for name in found for more in part]
    return tuple(found)


def listed(rows: list[str]) -> str:
    """Return rows in words, the first and the last of many.

    >>> listed(["a", "b"]), listed([str(number) for number in range(48)])
    ('a, b', '0 to 47 (48 rows)')
    """
    return ", ".join(rows) if len(rows) <= MOST else f"{rows[0]} to {rows[-1]} ({len(rows)} rows)"


class Entry(NamedTuple):
    """A figure of the gallery; `caption` says all that is needed to read it.

    rows: groups of rows; a group says something only if `least` of it that were trained to the
        same length are there, or, with `across`, to any. Without any, the picture is given all
        tables. A row's `_short` variant is drawn as well where it was trained as far as another
        row of its group (a profile may teach plain order less than Abacus), or if all else fails.
    beside: rows that are drawn as well if they were trained as far as one of those.
    source: where a paper has this picture.
    table, column: what a row needs to have written to be there.
    profile: the one to make for what is lacking.
    """

    title: str
    caption: str
    picture: Callable[[load.Tables], Drawing]
    rows: tuple[tuple[str, ...], ...] = ()
    least: int = 1
    across: bool = False
    beside: tuple[str, ...] = ()
    source: str = ""
    table: str = "cells"
    column: str = "exact"
    profile: str = "gpu"

    def draw(self, tables: load.Tables) -> Drawing:
        """Return the picture and the table behind it, or a picture of what it needs."""
        if not self.rows:
            return self.picture(tables)
        chosen = self.chosen(tables)
        if not chosen:
            there = self._there(tables)
            needed = [row for row in self.wanted() if row not in there]
            return lacking(self.source or self.title, needed, self.profile)
        return self.picture(tables.of(chosen))

    def told(self, rows: list[str]) -> str:
        """Return the caption with its source, and what of its rows is not among those given.

        >>> entry = Entry("Sums", "Right.", None, rows=(("a", "b"),), source="Fig. 2")
        >>> entry.told(["b", "c"])
        'Right. (Fig. 2.) Not in this profile: a.'
        """
        text = self.caption + (f" ({self.source}.)" if self.source else "")
        missing = [row for row in self.wanted() if row not in rows]
        return text + (f" Not in this profile: {listed(missing)}." if missing else "")

    def wanted(self) -> list[str]:
        """Return all rows that the entry would draw, each once."""
        return list(dict.fromkeys(row for group in self.rows for row in group))

    def chosen(self, tables: load.Tables) -> list[str]:
        """Return the rows to draw, by what they were trained to; none if no group is there."""
        there = self._there(tables)
        rows = [row for group in self.rows for row in self._of_group(group, there)]
        lengths = {there[row] for row in rows}
        rows += [row for row in self.beside if there.get(row) in lengths]
        return sorted(dict.fromkeys(rows), key=there.get)

    def _of_group(self, group: tuple[str, ...], there: dict[str, int]) -> list[str]:
        """Return what is drawn of a group: with short rows that compare, or these alone."""
        lengths = {there[row] for row in group if row in there}
        short = [f"{row}_short" for row in group if f"{row}_short" in there]
        compare = [row for row in short if there[row] in lengths]
        both = [row for name in group for row in (name, f"{name}_short")]
        rows = [row for row in both if row in compare or (row in group and row in there)]
        return self._alike(rows, there) or self._alike(short, there)

    def _alike(self, rows: list[str], there: dict[str, int]) -> list[str]:
        count = Counter(there[row] for row in rows)
        if self.across:
            return rows if len(rows) >= self.least else []
        return [row for row in rows if count[there[row]] >= self.least]

    def _there(self, tables: load.Tables) -> dict[str, int]:
        """Return the rows that have what is needed, with the length that each was trained to."""
        table = getattr(tables, self.table)
        if self.column not in table:
            return {}
        rows = set(table.loc[table[self.column].notna(), "row"])
        return load.lengths(tables.cells[tables.cells["row"].isin(rows)])


@style.styled
def lacking(name: str, rows: list[str], profile: str = "gpu") -> Drawing:
    """Return a picture that says which rows' results another one needs, and how to make them."""
    text = f"{name} needs results that this profile does not have: {listed(rows)}"
    lines = textwrap.wrap(text, 110, break_on_hyphens=False)
    lines += ["", f"make repro PROFILE={profile}"]
    figure, axes = plt.subplots(figsize=(8.2, 0.3 + 0.17 * len(lines)), layout="constrained")
    axes.text(0, 0.5, "\n".join(lines), va="center", color="#555555", fontsize="small")
    axes.axis("off")
    return figure, pd.DataFrame({"needs": rows})
