"""The site: the story, works, claims, figures and executed notebooks, as pages that open offline.

    reports/site/index.html            the story in six figures, the works, how to cite
                 works/WORK.html       what a work states, what we measured; its notebooks' figures
                 figures.html          the index of what the works number, and all figures
                 ledger.html           all claims, to filter and sort
                 live.html             two certified models that run in the browser, see `live`
                 notebooks/NAME.html   executed notebooks, see `pages`
                 figures/NAME.svg      copies of the figures, each with its csv
                 style.css             light and dark, by the reader's system setting
                 site.js, ledger.js    search, filters; pages are complete without them

The texts of the story are in `story.yaml`. Nothing is loaded from a network.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd
from markupsafe import Markup, escape
from pygments.formatters import HtmlFormatter

from carry import claims
from carry.claims.claim_settings import OWN_CLAIMS
from carry.claims.items import add_verdicts, load_items, summarise_claims
from carry.config import paths
from carry.config.settings import SettingsError
from carry.pipeline import readme_numbers
from carry.pipeline.site import live, pages, search, story, works
from carry.pipeline.site.figures import FILES, Figure, describe_entry, read_figure, read_file
from carry.pipeline.site.links import check_links
from carry.plots import index, style

__all__ = ["HERE", "check_links", "write_site"]

HERE = Path(__file__).parent
SCRIPTS = ("site.js", "ledger.js", "live.js", "live_page.js")
MOST_BYTES = 12_000_000


class Content(NamedTuple):
    """What the pages show.

    Fields:
        pages: notebooks, in order.
        figures: by name, in order of the notebooks.
        items: what the works number, with the records of their claims.
        records: those of the ledger.
        numbers: the content of numbers.json.
        story: the first page.
    """

    pages: list[pages.Page]
    figures: dict[str, Figure]
    items: pd.DataFrame
    records: list[dict[str, Any]]
    numbers: dict[str, Any]
    story: story.Story


def write_site(profile: str, folder: Path | None = None) -> Path:
    """Write the site of a profile from what the pipeline has written, and return its first page.

    Raises:
        SettingsError: for a missing result, figure or notebook, for a story with unknown names, and
            for a page that would load something from the network or has a broken link.
    """
    folder = folder or paths.reports_path(profile, "site")
    for name in ("figures", "notebooks", "works"):  # pages of removed rows would stay
        shutil.rmtree(folder / name, ignore_errors=True)
    content = read_content(profile)
    templates = make_templates(content)
    for page in content.pages:
        for figure in _list_figures(content, page):
            for ending in FILES if figure.drawn else ():
                source = paths.figures_folder(profile, page.notebook) / f"{figure.name}.{ending}"
                _write_file(folder / "figures" / source.name, source.read_bytes())
    _write_notebooks(content, templates, folder / "notebooks")
    for name, text in _render_pages(content, templates, profile).items():
        _write_file(folder / name, text)
    script = search.write_index(
        content.pages, content.figures.values(), content.items, content.records
    )
    _write_file(folder / "search_index.js", script)
    for name in SCRIPTS:
        _write_file(folder / name, (HERE / name).read_bytes())
    css = (HERE / "style.css").read_text(encoding="utf-8") + _write_highlighting()
    _write_file(folder / "style.css", css)
    faults = check_links(folder)
    if faults:
        raise SettingsError(f"site: {faults[0]}")
    return folder / "index.html"


def read_content(profile: str) -> Content:
    """Return what the pages of a profile show.

    Raises:
        SettingsError: as `write_site`.
    """
    reports = {
        name: json.loads(read_file(paths.reports_path(profile, f"{name}.json")))
        for name in ("claims", "numbers")
    }
    items = add_verdicts(load_items(), reports["claims"])
    listed = pages.list_pages(profile, items)
    entries, figures = index.list_figures(), {}
    for page in listed:
        mine = {name: entry for name, entry in entries.items() if entry.notebook == page.notebook}
        drawn = pages.list_drawn(page, mine) if mine else set()
        for name, entry in mine.items():
            has_page = page.group in (*works.read_works(), works.OWN)
            place = f"works/{page.group}.html" if has_page else "figures.html"
            url = f"{place}#figure-{name}"
            source = paths.figures_folder(profile, page.notebook)
            found = read_figure(entry, url, source) if name in drawn else None
            figures[name] = found or describe_entry(entry, url)
    names = [record["id"] for record in reports["claims"]]
    known = (*works.read_works(), works.OWN)
    told = story.load_story(entries, names, known)
    return Content(listed, figures, items, reports["claims"], reports["numbers"], told)


def make_templates(content: Content) -> jinja2.Environment:
    """Return the templates, with what all of them use."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    templates.filters["ticks"] = _mark_code
    templates.globals |= {
        "works": list_works(content),
        "number_of": claims.describe_number,
        "measured": claims.describe_measurement,
        "summary": claims.summarise_verdicts(content.records),
        "method": claims.METHOD,
    }
    return templates


def list_works(content: Content) -> list[dict[str, Any]]:
    """Return what pages say of each work, our own last: texts, items and verdicts."""
    described = works.read_works()
    own = {"title": content.story.works[works.OWN].title, "year": "", "url": "", "source": ""}
    described[works.OWN] = {**own, "authors": ""}
    listed = []
    for key, about in content.story.works.items():
        paper = OWN_CLAIMS if key == works.OWN else key
        records = [record for record in content.records if record["paper"] == paper]
        verdicts = f"{len(records)} claims: {summarise_claims(records)}" if records else ""
        texts = {"key": key, "label": about.label, "about": about.about, "verdicts": verdicts}
        items = [*_list_items(content, key), *_group_others(content, key, records)]
        listed.append({**described[key], **texts, "items": items})
    return listed


def _list_items(content: Content, work: str) -> list[dict[str, Any]]:
    """Return the items of a work, with the pages and figures that answer them."""
    return [
        {
            **item._asdict(),
            "anchor": search.name_anchor(item.item),
            "verdicts": summarise_claims(item.claims),
            "pages": _list_answers(content, item.notebooks, item.figures),
        }
        for item in content.items[content.items["work"] == work].itertuples(index=False)
    ]


def _list_answers(
    content: Content, notebooks: Sequence[str], figures: Sequence[str]
) -> list[dict[str, Any]]:
    """Return notebooks with the figures that they show, of some; none that has no page."""
    return [
        {
            "name": page.name,
            "title": page.title,
            "shown": [one for one in _list_figures(content, page) if one.name in figures],
        }
        for name in notebooks
        for page in content.pages
        if page.notebook == name
    ]


def _group_others(
    content: Content, work: str, records: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return groups of the claims of a work that are about none of its items.

    Our own claims are grouped by the notebook that their section names.
    """
    listed = {record["id"] for claims in content.items["claims"] for record in claims}
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        if record["id"] not in listed:
            known = {page.name: page.notebook for page in content.pages if page.notebook}
            groups.setdefault(known.get(record["section"], ""), []).append(record)
    empty = {"item": "", "stated": "", "reason": "", "scale": "", "verdicts": ""}
    other = "Other claims" if len(groups) > 1 else "Claims" if work == works.OWN else "In the text"
    return [
        {
            **empty,
            "title": other if not name else "",
            "anchor": f"claims-{name.rpartition('/')[2] or 'others'}",
            "claims": claims,
            "pages": _list_answers(content, [name], []),
        }
        for name, claims in sorted(groups.items(), key=lambda group: not group[0])
    ]


def _list_figures(content: Content, page: pages.Page) -> list[Figure]:
    """Return the figures of a notebook."""
    names = [
        name for name, entry in index.list_figures().items() if entry.notebook == page.notebook
    ]
    return [content.figures[name] for name in names]


def _write_notebooks(content: Content, templates: jinja2.Environment, folder: Path) -> None:
    """Write the pages of notebooks, each with links to those before and after it."""
    names = {page.name for page in content.pages}
    macros = templates.get_template("macros.html").module
    for page, before, after in zip(
        content.pages,
        [None, *content.pages[:-1]],
        [*content.pages[1:], None],
        strict=True,
    ):
        figures = {one.name: one for one in _list_figures(content, page) if one.drawn}
        body = pages.render_notebook(
            page,
            names,
            figures,
            lambda figure: (
                f'<figure id="figure-{figure.name}">{macros.image(figure, "../")}'
                f"{macros.caption(figure, '../')}</figure>"
            ),
            lambda name, picture: _write_file(folder / name, picture),
        )
        settings = {"page": page, "body": body, "before": before, "after": after}
        text = templates.get_template("notebook.html").render(
            **settings, root="../", here=page.group
        )
        _write_file(folder / f"{page.name}.html", text)


def _render_pages(
    content: Content, templates: jinja2.Environment, profile: str
) -> dict[str, str]:
    """Return the pages that are no notebooks, by their paths."""
    records = {record["id"]: record for record in content.records}
    shown = [
        {**page._asdict(), "figures": _list_figures(content, page)}
        for page in content.pages
        if page.notebook and page.name != "tour"
    ]
    chapters = [
        {
            **dict(chapter),
            "figure": content.figures[chapter.figure],
            "page": next(
                page for page in content.pages if content.figures[chapter.figure] in
                _list_figures(content, page)
            ),
            "text": story.fill_numbers(chapter.text, content.numbers, records),
            "claims": [records[name] for name in chapter.claims],
            "table": _make_table(chapter.table, content.numbers),
        }
        for chapter in content.story.chapters
    ]
    labels = {work["key"]: work["label"] for work in templates.globals["works"]}
    groups = [
        {
            "label": labels.get(name, name),
            "pages": [page for page in content.pages if page.group == name],
        }
        for name in dict.fromkeys(page.group for page in content.pages)
    ]
    lead = story.fill_numbers(content.story.lead, content.numbers, records)
    cited = [*works.read_works().values()]
    rendered = {
        "index.html": templates.get_template("index.html").render(
            root="",
            here="index",
            profile=profile,
            story={"title": content.story.title, "lead": lead, "chapters": chapters},
            groups=groups,
            citations=[works.describe_project(), *cited],
        ),
        "figures.html": templates.get_template("figures.html").render(
            root="", here="figures", pages=[page for page in shown if page["figures"]]
        ),
        "ledger.html": templates.get_template("ledger.html").render(
            root="",
            here="ledger",
            records=content.records,
            papers=[*dict.fromkeys(record["paper"] for record in content.records)],
            verdicts=claims.VERDICTS,
        ),
        "live.html": templates.get_template("live.html").render(
            models=[live.export_model(row) for row in live.ROWS]
        ),
    }
    for work in templates.globals["works"]:
        mine = [page for page in shown if page["group"] == work["key"]]
        rendered[f"works/{work['key']}.html"] = templates.get_template("work.html").render(
            root="../", here=work["key"], work=work, items=work["items"], pages=mine
        )
    return rendered


def _make_table(name: str, numbers: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the numbers of some rows as a table: columns, of which the first are texts, and rows.

    A row has its colour, if it has one, and its cells.
    """
    if name == "certificates":
        columns = ["exact at every length", "trained to", "parameters", "contexts", "certified"]
        rows = [
            ["", readme_numbers.name_certified_row(row)]
            + [f"{summary[key]:,}" for key in ("trained", "parameters", "contexts")]
            + [f"{summary['exact']} of {summary['seeds']} seeds"]
            for row, summary in numbers["certificates"].items()
        ]
        note = "Each context of a row is checked, with a bound on the errors of float32."
        return {"title": "Certificates", "columns": columns, "texts": 1, "rows": rows, "note": note}
    lines = [
        line
        for line in readme_numbers.list_lines(numbers["rows"])
        if (line[0] in readme_numbers.FOOTING_ROWS) == (name == "footing")
    ]
    columns = [key for key in readme_numbers.COLUMNS if any(key in line[3] for line in lines)]
    rows = [
        [style.choose_style(row).color, style.choose_style(row).label, trained, start]
        + [readme_numbers.format_number(found[key]) if key in found else "" for key in columns]
        for row, trained, start, found in lines
    ]
    title = "Numbers on one footing" if name == "footing" else "Numbers of the farthest rows"
    note = (
        "Exact match of sums: the median of the seeds, and their range where they differ. Ids start "
        "at 1, as in the papers; at the best single id, chosen on trained lengths; or next-token "
        "probabilities are averaged over all starts."
    )
    heads = ["scheme", "trained to", "start", *columns]
    return {"title": title, "columns": heads, "texts": 3, "rows": rows, "note": note} if name else None


def _mark_code(text: str) -> Markup:
    """Return a text with its parts between backticks as code.

    >>> _mark_code("rows of `full`: a < b")
    Markup('rows of <code>full</code>: a &lt; b')
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _write_highlighting() -> str:
    """Return the CSS of highlighted code, light and dark."""
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="native").get_style_defs(".highlight")
    return f"\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def _write_file(path: Path, content: str | bytes) -> None:
    with paths.write_atomically(path) as draft:
        draft.write_bytes(content if isinstance(content, bytes) else content.encode())
