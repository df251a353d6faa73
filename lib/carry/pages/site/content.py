"""What the pages of the site show: figures, items, claims and numbers, as templates read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from carry.claims.claim_settings import OWN_CLAIMS
from carry.claims.items import add_verdicts, load_items, summarise_claims
from carry.config import paths
from carry.config.templates import fill_template
from carry.config.yaml_files import read_yaml
from carry.pages import headlines, readme
from carry.pages.site import pages, search, works
from carry.pages.site.figures import Figure, read_figure
from carry.pages.site.pages import Page
from carry.plots import index, style

STORY = Path(__file__).parent / "story.yaml"
HEADLINES_NOTE = (
    "Exact match of whole answers, in one pass with ids from 1: the mean over seeds, and the "
    "lowest and the highest seed."
)
STARTS_NOTE = (
    "Exact match of sums: the median of the seeds, and their range where they differ. Ids start at "
    "1, as in the papers; or next-token probabilities are averaged over all starts."
)
CERTIFICATES_NOTE = "Each context of a row is checked, with a bound on the errors of float32."
# For each table of numbers.json: its function, how many columns are texts, its title and its note.
TABLES = {
    "footing": (readme.tabulate_accuracy, 3, "Numbers on one footing", STARTS_NOTE),
    "headlines": (
        headlines.tabulate_headlines, 3, "The papers' headlines in one pass", HEADLINES_NOTE,
    ),
    "certificates": (readme.tabulate_certificates, 1, "Certificates", CERTIFICATES_NOTE),
}  # fmt: skip


class Content(NamedTuple):
    """What the pages show.

    Fields:
        pages: notebooks, in order.
        figures: by name, in the order of the notebooks.
        items: what the works number, with the records of their claims.
        records: those of the ledger.
        numbers: the content of numbers.json.
        story: the first page, as in story.yaml.
    """

    pages: list[Page]
    figures: dict[str, Figure]
    items: pd.DataFrame
    records: list[dict[str, Any]]
    numbers: dict[str, Any]
    story: dict[str, Any]

    def list_figures(self, page: Page) -> list[Figure]:
        """Return the figures of a notebook."""
        return [one for one in self.figures.values() if one.notebook == page.notebook]


def read_content() -> Content:
    """Return what the pages show, from the files of the pipeline."""
    records, numbers = (
        json.loads((paths.REPORTS / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("claims", "numbers")
    )
    items = add_verdicts(load_items(), records)
    keys = (*works.read_works(), works.OWN)
    listed, entries, figures = pages.list_pages(items), index.list_figures(), {}
    for page in listed:
        top = f"works/{page.group}.html" if page.group in keys else "figures.html"
        for name, entry in entries.items():
            if entry.notebook == page.notebook:
                figures[name] = read_figure(entry, f"{top}#figure-{name}")
    return Content(listed, figures, items, records, numbers, read_yaml(STORY))


def list_works(content: Content) -> list[dict[str, Any]]:
    """Return what pages say of each work, our own last: texts, `verdicts` and `items`."""
    described, listed = works.read_works(), []
    for key, texts in content.story["works"].items():
        paper = OWN_CLAIMS if key == works.OWN else key
        records = [record for record in content.records if record["paper"] == paper]
        verdicts = f"{len(records)} claims: {summarise_claims(records)}"
        items = _list_items(content, key) + _group_others(content, records)
        about = {**described.get(key, {}), **texts, "verdicts": verdicts, "items": items}
        listed.append({"key": key, **about})
    return listed


def _list_items(content: Content, work: str) -> list[dict[str, Any]]:
    """Return the items of a work, with the pages and figures that answer them."""
    return [
        {
            **item._asdict(),
            "page": "",
            "anchor": search.name_anchor(item.item),
            "verdicts": summarise_claims(item.claims),
            "pages": _list_answers(content, item.notebooks, item.figures),
        }
        for item in content.items[content.items["work"] == work].itertuples(index=False)
    ]


def _list_answers(
    content: Content, notebooks: Sequence[str], figures: Sequence[str]
) -> list[dict[str, Any]]:
    """Return those of some notebooks that have a page, each with those of the figures it shows."""
    return [
        {
            "name": page.name,
            "title": page.title,
            "shown": [one for one in content.list_figures(page) if one.name in figures],
        }
        for name in notebooks
        for page in content.pages
        if page.notebook == name
    ]


def _group_others(content: Content, records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the claims of a work that are about none of its items, as items without a number.

    Those whose section names a notebook stand together.
    """
    listed = {record["id"] for claims in content.items["claims"] for record in claims}
    titles = {page.name: page.title for page in content.pages if page.notebook}
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        if record["id"] not in listed:
            groups.setdefault(record["section"] * (record["section"] in titles), []).append(record)
    return [
        {
            **dict.fromkeys(("item", "stated", "reason", "scale", "verdicts"), ""),
            "title": titles.get(page, "Other claims"),
            "page": page,
            "anchor": f"claims-{page or 'other'}",
            "claims": groups[page],
            "pages": [],
        }
        for page in sorted(groups, key=lambda name: not name)
    ]


def list_chapters(content: Content) -> list[dict[str, Any]]:
    """Return the chapters of the first page, with their figures, claims and numbers.

    Raises:
        SettingsError: for a text with an unknown name of a number.
    """
    records = {record["id"]: record for record in content.records}
    notebooks = {page.notebook: page for page in content.pages}
    values, chapters = readme.list_values(content.numbers), []
    for chapter in content.story["chapters"]:
        figure = content.figures[chapter["figure"]]
        parts = {
            "figure": figure,
            "page": notebooks[figure.notebook],
            "text": [fill_template(text, values) for text in chapter["text"]],
            "claims": [records[name] for name in chapter["claims"]],
            "table": make_table(chapter.get("table", ""), content.numbers),
        }
        chapters.append({**chapter, **parts})
    return chapters


def make_table(name: str, numbers: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a table of numbers.json for a page: columns, of which the first are `texts`, and rows.

    A row has its colour, if it has one, and its cells. Without a name there is none.
    """
    if not name:
        return None
    tabulate, texts, title, note = TABLES[name]
    columns, lines = tabulate(numbers)
    colors = [style.choose_color(row) for row, *_ in readme.list_lines(numbers["rows"])]
    colors = colors if name == "footing" else [""] * len(lines)
    rows = [[color, *line] for color, line in zip(colors, lines, strict=True)]
    return {"title": title, "note": note, "columns": columns, "texts": texts, "rows": rows}
