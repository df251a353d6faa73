"""Figures as the site shows them: their texts, sizes and files."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from carry.config import paths
from carry.config.settings import SettingsError
from carry.plots.index import FigureEntry

SIZE = re.compile(r'<svg [^>]*?\bwidth="([\d.]+)pt" height="([\d.]+)pt"')
PIXELS = 4 / 3  # of CSS in a point
FEW_NUMBERS = 6  # rows of a table that an alt text can hold
LONG_TABLE = 20_000  # bytes; longer tables are compressed, or they would be most of the site
STYLE = re.compile(r' style="([^"]*)"')
USES = 3  # of a style from which on it gets a name


class Figure(NamedTuple):
    """A figure, with the texts of its notebook.

    Fields:
        notebook, name, title: as in the notebook.
        caption: with the origins of the rows, if it is drawn.
        answers: the items that it answers, as pairs of a work and its item.
        url: its place on the site, from the top.
        files: its picture, and the table of its numbers; none if the profile has no results for it.
        alt: a text instead of the picture.
        width, height: of the picture, in pixels of CSS.
    """

    notebook: str
    name: str
    title: str
    caption: str
    answers: tuple[tuple[str, str], ...]
    url: str
    files: tuple[str, ...] = ()
    alt: str = ""
    width: int = 0
    height: int = 0


def describe_entry(entry: FigureEntry, url: str) -> Figure:
    """Return a figure without files, with what its notebook says of it."""
    return Figure(entry.notebook, entry.name, entry.title, entry.caption, entry.answers, url)


def read_figure(entry: FigureEntry, url: str, folder: Path) -> Figure:
    """Return a figure from the files that its notebook wrote into a folder.

    Raises:
        SettingsError: for a missing file, and for a picture without a size.
    """
    svg, csv, record = (folder / f"{entry.name}.{ending}" for ending in ("svg", "csv", "json"))
    size = SIZE.search(read_file(svg).decode())
    if not size:
        raise SettingsError(f"site: {paths.display_path(svg)} has no size; expected points")
    width, height = (round(float(number) * PIXELS) for number in size.groups())
    texts = json.loads(read_file(record))
    table = pd.read_csv(csv, nrows=FEW_NUMBERS + 1) if read_file(csv).strip() else pd.DataFrame()
    return describe_entry(entry, url)._replace(
        title=texts["title"],
        caption=texts["caption"],
        files=(svg.name, csv.name + ".gz" * (csv.stat().st_size > LONG_TABLE)),
        alt=write_alt(texts["title"], texts["caption"], table),
        width=width,
        height=height,
    )


def pack_file(name: str, folder: Path) -> bytes:
    """Return the content of one of the `files` of a figure, from those in a folder."""
    content = read_file(folder / name.removesuffix(".gz"))
    if name.endswith(".svg"):
        return shorten_svg(content.decode()).encode()
    return gzip.compress(content, mtime=0) if name.endswith(".gz") else content


def shorten_svg(text: str) -> str:
    """Return an SVG without metadata, and with a name for each style that occurs often.

    >>> shorten_svg('<svg id="a">' + '<g style="fill:red"/>' * 3 + "</svg>")
    '<svg id="a"><style>.s0{fill:red}</style><g class="s0"/><g class="s0"/><g class="s0"/></svg>'
    """
    count = Counter(STYLE.findall(text))
    often = [style for style, uses in count.most_common() if uses >= USES]
    names = {style: f"s{number}" for number, style in enumerate(often)}
    css = "".join(f".{name}{{{style}}}" for style, name in names.items())
    text = re.sub(r"<metadata>.*?</metadata>\n?", "", text, flags=re.DOTALL)
    text = STYLE.sub(
        lambda match: f' class="{names[match[1]]}"' if match[1] in names else match[0], text
    )
    return re.sub(r"<svg [^>]*>", rf"\g<0><style>{css}</style>", text, count=1)


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
    values = {name: value for name, value in row.items() if not pd.isna(value)}
    return [
        value if isinstance(value, str) else f"{name} {value:.3g}" for name, value in values.items()
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
