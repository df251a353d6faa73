"""Figures as the site shows them: their texts, sizes and files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from carry.config import paths
from carry.config.settings import SettingsError
from carry.plots.index import FigureEntry

FILES = ("svg", "csv")  # that the site has of each figure
SIZE = re.compile(r'<svg [^>]*?\bwidth="([\d.]+)pt" height="([\d.]+)pt"')
PIXELS = 4 / 3  # of CSS in a point
FEW_NUMBERS = 6  # rows of a table that an alt text can hold


class Figure(NamedTuple):
    """A figure, with the texts of its notebook.

    Fields:
        name, title: as the notebook has them.
        caption: with the origins of the rows, if it is drawn.
        answers: the items that it answers, as text.
        url: its place on the site, from the top.
        drawn: whether the profile has results for it. Without them it has no files.
        alt: a text instead of the picture.
        width, height: of the picture, in pixels of CSS.
    """

    name: str
    title: str
    caption: str
    answers: list[str]
    url: str
    drawn: bool
    alt: str = ""
    width: int = 0
    height: int = 0


def describe_entry(entry: FigureEntry, url: str) -> Figure:
    """Return a figure that is not drawn, with what its notebook says of it."""
    answers = [f"{work} {item}" for work, item in entry.answers]
    return Figure(entry.name, entry.title, entry.caption, answers, url, drawn=False)


def read_figure(entry: FigureEntry, url: str, folder: Path) -> Figure:
    """Return a figure from the files that its notebook wrote into a folder.

    Raises:
        SettingsError: for a missing file, and for a picture without a size.
    """
    record = json.loads(read_file(folder / f"{entry.name}.json"))
    svg = folder / f"{entry.name}.svg"
    size = SIZE.search(read_file(svg).decode())
    if not size:
        raise SettingsError(f"site: {paths.display_path(svg)} has no size; expected points")
    width, height = (round(float(number) * PIXELS) for number in size.groups())
    table_file = folder / f"{entry.name}.csv"
    read_file(table_file)
    table = pd.read_csv(table_file) if table_file.stat().st_size > 1 else pd.DataFrame()
    alt = write_alt(record["title"], record["caption"], table)
    figure = describe_entry(entry, url)
    texts = {"title": record["title"], "caption": record["caption"]}
    return figure._replace(**texts, drawn=True, alt=alt, width=width, height=height)


def write_alt(title: str, caption: str, table: pd.DataFrame) -> str:
    """Return a text instead of a picture: what it shows, and its numbers if they are few.

    >>> table = pd.DataFrame({"label": ["NoPE", "Abacus"], "accuracy": [0, 0.98765], "seed": None})
    >>> write_alt("Sums", "Exact match.", table)
    'Sums. Exact match. Its numbers: NoPE, accuracy 0; Abacus, accuracy 0.988.'
    >>> write_alt("Sums", "Exact match on `n` sums.", pd.concat([table] * 9))
    'Sums. Exact match on n sums.'
    """
    text = f"{title}. {caption}".replace("`", "")
    if not 0 < len(table) <= FEW_NUMBERS:
        return text
    lines = [", ".join(_list_values(row)) for row in table.to_dict("records")]
    return f"{text} Its numbers: {'; '.join(lines)}."


def _list_values(row: dict[str, Any]) -> list[str]:
    """Return the values of a line of a table, numbers with the names of their columns."""
    known = {name: value for name, value in row.items() if not pd.isna(value)}
    return [
        value if isinstance(value, str) else f"{name} {value:.3g}" for name, value in known.items()
    ]


def read_file(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        SettingsError: if it is missing.
    """
    if not path.exists():
        raise SettingsError(
            f"site: {paths.display_path(path)} is not there; expected the stages before"
        )
    return path.read_bytes()
