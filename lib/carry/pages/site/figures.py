"""Figures as the site shows them: their texts, sizes and files."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from carry import results
from carry.config import paths
from carry.experiments import load_rows
from carry.plots.index import FigureEntry, name_command
from carry.plots.style import write_csv

SIZE = re.compile(r'<svg [^>]*?\bwidth="([\d.]+)pt" height="([\d.]+)pt"')
PIXELS = 4 / 3  # of CSS in a point
LONG_TABLE = 20_000  # bytes of CSV; longer tables are compressed, or they would be most of the site


class Figure(NamedTuple):
    """A figure, with the texts of its notebook.

    Fields:
        notebook, name, title: as in the notebook.
        caption: all that a reader needs to understand it.
        answers: the items that it answers, as pairs of a work and its item.
        url: its place on the site, from the top.
        files: its picture, and the table of its numbers; none if its rows have no results.
        width, height: of the picture, in pixels of CSS.
        command: what draws it again.
        commit: the last that changed its picture, with `+` if it has changed since; or nothing.
        studies: the names of those whose results it shows.
    """

    notebook: str
    name: str
    title: str
    caption: str
    answers: tuple[tuple[str, str], ...]
    url: str
    files: tuple[str, ...] = ()
    width: int = 0
    height: int = 0
    command: str = ""
    commit: str = ""
    studies: tuple[str, ...] = ()


def read_figure(entry: FigureEntry, url: str, commits: Mapping[str, str]) -> Figure:
    """Return a figure from the files that its notebook wrote.

    `commits` has the last of each file, by its path below reports/figures.
    """
    figure = Figure(entry.notebook, entry.name, entry.title, entry.caption, entry.answers, url)
    folder = paths.figures_folder(entry.notebook)
    svg = folder / f"{entry.name}.svg"
    if not svg.exists():
        return figure
    size = SIZE.search(svg.read_text(encoding="utf-8")).groups()
    width, height = (round(float(number) * PIXELS) for number in size)
    table = pd.read_parquet(svg.with_suffix(".parquet"))
    is_long = len(write_csv(table).encode()) > LONG_TABLE
    known = load_rows()
    rows = (
        [known[row] for row in results.list_rows(table) if row in known] if "row" in table else []
    )
    return figure._replace(
        command=name_command(entry.notebook),
        commit=commits.get(f"{entry.notebook}/{svg.name}", ""),
        studies=tuple(dict.fromkeys(row.study for row in rows)),
        files=(svg.name, f"{entry.name}.csv" + ".gz" * is_long),
        width=width,
        height=height,
    )


def pack_file(name: str, folder: Path) -> bytes:
    """Return the content of one of the `files` of a figure, from those of its notebook."""
    path = folder / name.removesuffix(".gz")
    if path.suffix == ".svg":
        return path.read_bytes()
    content = write_csv(pd.read_parquet(path.with_suffix(".parquet"))).encode()
    return gzip.compress(content, mtime=0) if name.endswith(".gz") else content
