"""Executed notebooks as pages; one that has not run here is shown as it is in git.

nbconvert's full template would load scripts for formulas and widgets from the network. Its `basic`
template is the notebook alone; `notebook.html` wraps it into a page. Figures are those of the site;
other pictures stay within the page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pandas as pd
from nbconvert import HTMLExporter
from nbformat import NotebookNode

from carry.config import paths
from carry.pages.site import works
from carry.pages.site.figures import Figure
from carry.plots import index

# Links of the author; those of figures are ours.
LINK = re.compile(r'<a href="(?![a-z]+:|#|\.\./figures/)([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
PICTURE = "image/png"
INDEX = "index"  # the notebook whose tables the page of figures has


class Page(NamedTuple):
    """A notebook with its name on the site."""

    source: Path  # the executed copy, else the notebook itself
    name: str  # of its page
    title: str  # its question, or the stage and its item
    group: str  # the work or the stage
    notebook: str = ""  # the name of a notebook of figures, with its folder

    @property
    def has_run(self) -> bool:
        """Whether it has run here; else the outputs are those in git."""
        return self.source.is_relative_to(paths.ROOT / "data")


def list_pages(items: pd.DataFrame) -> list[Page]:
    """Return the notebooks of the site: the tour, those of works, those of stages that have run.

    Those of a work are in the order of the items that they answer.
    """
    sources = index.find_figure_notebooks()
    groups = {name: name.partition("/")[0] for name in sources if name != INDEX}
    group_order = ["tour", "overview", *works.read_works(), works.OWN, *groups.values()]
    order = [*items["notebooks"].explode().dropna(), *sources]
    pages = []
    for name in sorted(
        groups, key=lambda name: (group_order.index(groups[name]), order.index(name))
    ):
        path, title = paths.executed_file(name), index.read_question(sources[name])
        source = path if path.exists() else sources[name]
        pages.append(Page(source, path.stem, title, groups[name], name))
    folder = paths.executed_file("pipeline/claims").parent
    for path in sorted(folder.rglob("*.ipynb")):
        if "." not in path.stem:  # else a notebook that runs or has failed
            parts = path.relative_to(folder).with_suffix("").parts
            pages.append(Page(path, "_".join(parts), ": ".join(parts), parts[0]))
    return pages


def render_notebook(page: Page, names: set[str], figures: Mapping[str, Figure], macros: Any) -> str:
    """Return a notebook as HTML without a surrounding page.

    Links to other notebooks lead to the pages of these `names`; other links into the project become
    plain text. `figures` are those of the notebook that are drawn, by name.
    """
    notebook = nbformat.read(page.source, as_version=4)
    _place_figures(notebook, page, figures, macros)
    exporter = HTMLExporter(template_name="basic", exclude_anchor_links=True)
    body, _ = exporter.from_notebook_node(notebook)

    def replace(match: re.Match) -> str:
        name = Path(match[1].partition("#")[0]).stem
        target = "../figures.html" if name == INDEX else f"{name}.html" if name in names else ""
        return f'<a href="{target}">{match[2]}</a>' if target else match[2]

    return LINK.sub(replace, body)


def _place_figures(
    notebook: NotebookNode, page: Page, figures: Mapping[str, Figure], macros: Any
) -> None:
    """Replace the figures of a notebook by those of the site, and name its other pictures.

    Their alt text has the heading above them.
    """
    heading = page.title
    for cell in notebook.cells:
        if cell.cell_type != "code":
            heading = [heading, *HEADING.findall(cell.source)][-1]
            continue
        cell.metadata["alt"], outputs = f"Picture: {heading}", []
        for output in cell.outputs:
            data, figure = output.get("data", {}), output.get("metadata", {}).get("figure")
            if figure in figures and PICTURE not in data:
                continue  # its caption, which `draw` adds
            if figure in figures:
                output.data = {"text/html": macros.draw(figures[figure], "../")}
            outputs.append(output)
        cell.outputs = outputs
