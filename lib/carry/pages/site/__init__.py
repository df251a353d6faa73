"""The site: the story, works, claims, figures and executed notebooks, as pages that open offline.

    reports/site/index.html            the story in six figures, the works, how to cite
                 works/WORK.html       what a work states, what we measured; its notebooks' figures
                 figures.html          the index of what the works number, and all figures
                 ledger.html           all claims, to filter and sort
                 live.html             two certified models that run in the browser, see `live`
                 notebooks/NAME.html   executed notebooks, see `pages`
                 figures/NAME.svg      copies of the figures, each with its table as csv
                 style.css             light and dark, by the reader's system setting
                 site.js, ledger.js    search, filters; pages are complete without them

The texts of the story are in `story.yaml`. Nothing is loaded from a network.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from pathlib import Path

import jinja2
from markupsafe import Markup, escape
from pygments.formatters import HtmlFormatter

from carry.claims.ledger_page import (
    count_seen,
    describe_measurement,
    describe_number,
    summarise_claims,
)
from carry.claims.verdicts import METHOD, SEEN
from carry.config import paths
from carry.config.settings import SettingsError
from carry.pages.site import live, pages, search, works
from carry.pages.site.content import Content, list_chapters, list_works, read_content
from carry.pages.site.figures import pack_file
from carry.pages.site.links import check_links
from carry.pages.site.pages import Page

__all__ = ["HERE", "write_site"]

HERE = Path(__file__).parent
FOLDERS = ("figures", "notebooks", "works")
SCRIPTS = ("site.js", "ledger.js", "live.js", "live_page.js")


def write_site() -> Path:
    """Write the site from what the pipeline has written, and return its first page.

    Raises:
        SettingsError: for a story with unknown names, and for a page that would load something from
            the network or has a broken link.
    """
    folder, content = paths.REPORTS / "site", read_content()
    templates = make_templates(content)
    for name in FOLDERS:  # pages of removed rows would stay
        shutil.rmtree(folder / name, ignore_errors=True)
    for figure in content.figures.values():
        source = paths.figures_folder(figure.notebook)
        for name in figure.files:
            paths.write_file(folder / "figures" / name, pack_file(name, source))
    _write_notebooks(content, templates, folder / "notebooks")
    for name, text in render_pages(content, templates).items():
        paths.write_file(folder / name, text)
    paths.write_file(folder / "search_index.js", search.write_index(content))
    for name in SCRIPTS:
        paths.write_file(folder / name, (HERE / name).read_bytes())
    css = (HERE / "style.css").read_text(encoding="utf-8") + _write_highlighting()
    paths.write_file(folder / "style.css", css)
    faults = check_links(folder)
    if faults:
        raise SettingsError(f"site: {faults[0]}")
    return folder / "index.html"


def make_templates(content: Content) -> jinja2.Environment:
    """Return the templates, with what several of them use."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    templates.filters |= {"ticks": mark_code, "seen": count_seen}
    templates.globals |= {
        "works": list_works(content),
        "notebooks": {page.notebook: page for page in content.pages},
        "figures": content.figures,
        "list_figures": content.list_figures,
        "number_of": describe_number,
        "measured": describe_measurement,
        "summary": summarise_claims(content.records),
        "method": METHOD,
    }
    return templates


def mark_code(text: str) -> Markup:
    """Return a text with its parts between backticks as code.

    >>> mark_code("rows of `gpu`: a < b")
    Markup('rows of <code>gpu</code>: a &lt; b')
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def render_pages(content: Content, templates: jinja2.Environment) -> dict[str, str]:
    """Return the pages that are no notebooks, by their paths."""
    groups: dict[str, list[Page]] = defaultdict(list)
    for page in content.pages:
        groups[page.group].append(page)
    settings = {
        "index": {
            "story": content.story,
            "chapters": list_chapters(content),
            "groups": groups,
            "citations": [
                works.cite_project(),
                *(work["citation"] for work in works.read_works().values()),
            ],
        },
        "figures": {"pages": [page for page in content.pages if content.list_figures(page)]},
        "ledger": {
            "records": content.records,
            "papers": [*dict.fromkeys(record["paper"] for record in content.records)],
            "answers": [*SEEN],
        },
        "live": {"models": [live.export_model(row) for row in live.ROWS]},
    }
    rendered = {
        f"{name}.html": templates.get_template(f"{name}.html").render(root="", here=name, **values)
        for name, values in settings.items()
    }
    for work in templates.globals["works"]:
        rendered[f"works/{work['key']}.html"] = templates.get_template("work.html").render(
            root="../", here=work["key"], work=work, pages=groups.get(work["key"], [])
        )
    return rendered


def _write_notebooks(content: Content, templates: jinja2.Environment, folder: Path) -> None:
    """Write the pages of notebooks, each with links to those before and after it."""
    macros = templates.get_template("macros.html").module
    template, names = templates.get_template("notebook.html"), {page.name for page in content.pages}
    neighbours = zip([None, *content.pages], [*content.pages[1:], None], strict=False)
    for page, (before, after) in zip(content.pages, neighbours, strict=True):
        figures = {one.name: one for one in content.list_figures(page) if one.files}
        body = pages.render_notebook(page, names, figures, macros)
        settings = {"page": page, "body": body, "before": before, "after": after}
        text = template.render(**settings, root="../", here=page.group)
        paths.write_file(folder / f"{page.name}.html", text)


def _write_highlighting() -> str:
    """Return the CSS of highlighted code, light and dark."""
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="native").get_style_defs(".highlight")
    return f"\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
