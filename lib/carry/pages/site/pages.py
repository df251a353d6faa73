"""Executed notebooks as pages.

nbconvert's full template would load scripts for formulas and widgets from the network. Its `basic`
template is the notebook alone; `notebook.html` wraps it into a page. Pictures become files: those
of figures are the site's, with its alt texts; others stand next to the page.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import nbformat
import pandas as pd
from markupsafe import Markup, escape
from nbconvert import HTMLExporter
from nbformat import NotebookNode

from carry.config import paths, profiles
from carry.config.settings import SettingsError
from carry.pages.site.figures import Figure, read_file
from carry.pipeline.stages import STAGES, find_executed
from carry.plots import index

# Links of the author; those of figures are ours.
LINK = re.compile(r'<a href="(?![a-z]+:|#|\.\./figures/)([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
PICTURE = "image/png"
INDEX = "index"  # the notebook whose tables the page of figures has


class Page(NamedTuple):
    """An executed notebook, with its name on the site.

    Fields:
        source: the executed copy.
        name: of its page.
        title: its question, or the stage and its item.
        group: the work or the stage.
        notebook: the name of a notebook of figures, with its folder; else none.
    """

    source: Path
    name: str
    title: str
    group: str
    notebook: str = ""


def list_pages(profile: str, items: pd.DataFrame) -> list[Page]:
    """Return the executed notebooks of a profile: the tour, those of works, those of stages.

    Those of a work are in the order of the items that they answer. Those of stages are left out if
    they have not run, so that a fresh clone has a site. Studies come from the profile, since a
    removed one may have left its notebook in the folder.
    """
    sources = index.find_figure_notebooks()
    pages = []
    if "tour" in sources:  # committed with its outputs
        title = index.read_question(sources["tour"])
        pages.append(Page(sources["tour"], "tour", title, "tour", "tour"))
    order = [*dict.fromkeys(items["notebooks"].explode().dropna())]
    for work in profiles.load_profile(profile)["figures"]:
        mine = [name for name in sources if (name.rpartition("/")[0] or name) == work]
        for name in sorted(mine, key=lambda name: order.index(name) if name in order else 999):
            path, title = find_executed(name, profile), index.read_question(sources[name])
            pages.append(Page(path, path.stem, title, work, name))
    for stage in STAGES.values():
        for item in stage.items(profile) if stage.parameter else [""]:
            name = f"{stage.name}_{item}" if item else stage.name
            title = f"{stage.name}: {item}" if item else stage.name
            path = stage.executed(profile, item)
            pages += [Page(path, name, title, stage.name)] if path.exists() else []
    return pages


def list_drawn(page: Page, names: Iterable[str]) -> set[str]:
    """Return the names of the figures that an executed notebook has drawn, of those that it shows.

    Raises:
        SettingsError: for a missing notebook, and for one that does not show a figure of `names`.
    """
    has_picture = {}
    for cell in read_notebook(page.source).cells:
        if cell.cell_type == "code":
            drawn = any(PICTURE in output.get("data", {}) for output in cell.outputs)
            has_picture |= dict.fromkeys(index.list_shown(cell.source), drawn)
    for name in names:
        if name not in has_picture:
            raise SettingsError(
                f"site: {paths.display_path(page.source)} does not show the figure {name!r}; "
                "expected the notebook to be run as it is now"
            )
    return {name for name in names if has_picture[name]}


def read_notebook(path: Path) -> NotebookNode:
    """Return a notebook.

    Raises:
        SettingsError: if it is missing.
    """
    return nbformat.reads(read_file(path).decode(), as_version=4)


def render_notebook(
    page: Page,
    names: set[str],
    figures: Mapping[str, Figure],
    draw: Callable[[Figure], str],
) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as HTML without a surrounding page, and pictures that it links to.

    Links to other notebooks lead to their pages; other links into the project become plain text.

    Args:
        page: the notebook.
        names: of all pages of notebooks.
        figures: those of the notebook that are drawn, by name.
        draw: returns the HTML of a figure with its caption.
    """
    notebook = read_notebook(page.source)
    pictures = _replace_pictures(notebook, page, figures, draw)
    exporter = HTMLExporter(template_name="basic", exclude_anchor_links=True)
    body, _ = exporter.from_notebook_node(notebook)

    def replace(match: re.Match) -> str:
        name = Path(match[1].partition("#")[0]).stem
        target = "../figures.html" if name == INDEX else f"{name}.html" if name in names else ""
        return f'<a href="{target}">{match[2]}</a>' if target else match[2]

    return LINK.sub(replace, body), pictures


def _replace_pictures(
    notebook: NotebookNode,
    page: Page,
    figures: Mapping[str, Figure],
    draw: Callable[[Figure], str],
) -> dict[str, bytes]:
    """Replace the pictures of a notebook by links to files; return those that are no figures."""
    heading, pictures = page.title, {}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            heading = [heading, *HEADING.findall(cell.source)][-1]
            continue
        remaining = [figures[name] for name in index.list_shown(cell.source) if name in figures]
        captions, outputs = {figure.caption for figure in remaining}, []
        for output in cell.outputs:
            data = output.get("data", {})
            if PICTURE in data and remaining:
                output.data = {"text/html": draw(remaining.pop(0))}
            elif PICTURE in data:
                name = f"{page.name}_{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data[PICTURE])
                output.data = {"text/html": _link_picture(name, pictures[name], heading)}
            elif data.get("text/markdown") in captions:
                continue
            outputs.append(output)
        cell.outputs = outputs
    return pictures


def _link_picture(name: str, picture: bytes, heading: str) -> str:
    """Return the HTML of a picture that is no figure; its alt text has the heading above it."""
    width, height = struct.unpack(">II", picture[16:24])  # of the PNG's head
    return Markup(
        f'<a class="picture" href="{name}"><img src="{name}" alt="Picture: {escape(heading)}" '
        f'width="{width}" height="{height}" loading="lazy" decoding="async"></a>'
    )
