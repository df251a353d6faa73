"""What the pages of the site show: figures, items, claims and numbers, as templates read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from carry.claims.claim_settings import OWN_CLAIMS
from carry.claims.items import add_verdicts, load_items, summarise_claims
from carry.config import paths
from carry.labels import name_certified_row
from carry.pages import headlines, readme_numbers
from carry.pages.site import pages, search, works
from carry.pages.site.figures import Figure, describe_entry, read_figure, read_file
from carry.pages.site.pages import Page
from carry.pages.site.story import Story, fill_numbers, load_story
from carry.plots import index, style

HEADLINES_NOTE = (
    "Exact match of whole answers, in one pass with ids from 1: the mean over seeds, and the "
    "lowest and the highest seed."
)
STARTS_NOTE = (
    "Exact match of sums: the median of the seeds, and their range where they differ. Ids start at "
    "1, as in the papers; or next-token probabilities are averaged over all starts."
)
CERTIFICATES_NOTE = "Each context of a row is checked, with a bound on the errors of float32."


class Content(NamedTuple):
    """What the pages show.

    Fields:
        pages: notebooks, in order.
        figures: by name, in the order of the notebooks.
        items: what the works number, with the records of their claims.
        records: those of the ledger.
        numbers: the content of numbers.json.
        story: the first page.
    """

    pages: list[Page]
    figures: dict[str, Figure]
    items: pd.DataFrame
    records: list[dict[str, Any]]
    numbers: dict[str, Any]
    story: Story

    def list_figures(self, page: Page) -> list[Figure]:
        """Return the figures of a notebook."""
        return [one for one in self.figures.values() if one.notebook == page.notebook]


def read_content(profile: str) -> Content:
    """Return what the pages of a profile show.

    Raises:
        SettingsError: for a missing result, figure or notebook, for one that has changed since it
            was run, and for a story with unknown names.
    """
    records, numbers = (
        json.loads(read_file(paths.reports_path(profile, f"{name}.json")))
        for name in ("claims", "numbers")
    )
    items = add_verdicts(load_items(), records)
    keys = (*works.read_works(), works.OWN)
    entries, figures = index.list_figures(), {}
    listed = pages.list_pages(profile, items)
    for page in listed:
        page_entries = {
            name: entry for name, entry in entries.items() if entry.notebook == page.notebook
        }
        drawn = pages.list_drawn(page, page_entries) if page_entries else set()
        top = f"works/{page.group}.html" if page.group in keys else "figures.html"
        folder = paths.figures_folder(profile, page.notebook)
        for name, entry in page_entries.items():
            url = f"{top}#figure-{name}"
            has_files = name in drawn
            figures[name] = (
                read_figure(entry, url, folder) if has_files else describe_entry(entry, url)
            )
    story = load_story(entries, [record["id"] for record in records], keys)
    return Content(listed, figures, items, records, numbers, story)


def list_works(content: Content) -> list[dict[str, Any]]:
    """Return what pages say of each work, our own last: texts, `verdicts` and `items`."""
    described, listed = works.read_works(), []
    for key, about in content.story.works.items():
        paper = OWN_CLAIMS if key == works.OWN else key
        records = [record for record in content.records if record["paper"] == paper]
        texts = {"title": about.title, "label": about.label, "about": about.about}
        texts["verdicts"] = f"{len(records)} claims: {summarise_claims(records)}"
        items = _list_items(content, key) + _group_others(content, records)
        listed.append({"key": key, **texts, **described.get(key, {}), "items": items})
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
    """Return the chapters of the first page, with their figures, claims and numbers."""
    records = {record["id"]: record for record in content.records}
    notebooks = {page.notebook: page for page in content.pages}
    chapters = []
    for chapter in content.story.chapters:
        entry = index.list_figures()[chapter.figure]  # a profile may leave out its notebook
        parts = {
            "figure": content.figures.get(entry.name) or describe_entry(entry, ""),
            "page": notebooks.get(entry.notebook),
            "text": fill_numbers(chapter.text, content.numbers, records),
            "claims": [records[name] for name in chapter.claims],
            "table": make_table(chapter.table, content.numbers),
        }
        chapters.append({**dict(chapter), **parts})
    return chapters


def make_table(name: str, numbers: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a table of numbers.json for a page: columns, of which the first are `texts`, and rows.

    A row has its colour, if it has one, and its cells. Without a name there is none.
    """
    if not name:
        return None
    if name == "certificates":
        sizes = ("trained", "parameters", "contexts")
        rows = [
            ["", name_certified_row(row), *(f"{values[key]:,}" for key in sizes)]
            + [f"{values['exact']} of {values['seeds']} seeds"]
            for row, values in numbers["certificates"].items()
        ]
        columns = ["exact at every length", "trained to", "parameters", "contexts", "certified"]
        texts = {"title": "Certificates", "note": CERTIFICATES_NOTE}
        return {**texts, "columns": columns, "texts": 1, "rows": rows}
    if name == "headlines":
        columns, lines = headlines.tabulate_headlines(numbers.get("headlines", []))
        texts = {"title": "The papers' headlines in one pass", "note": HEADLINES_NOTE}
        return {**texts, "columns": columns, "texts": 3, "rows": [["", *line] for line in lines]}
    lines = [
        line
        for line in readme_numbers.list_lines(numbers["rows"])
        if line[0] in readme_numbers.FOOTING_ROWS
    ]
    columns = [key for key in readme_numbers.COLUMNS if any(key in line[3] for line in lines)]
    rows = []
    for row, trained, start, values in lines:
        cells = [
            readme_numbers.format_number(values[key]) if key in values else "" for key in columns
        ]
        row_style = style.choose_style(row)
        rows.append([row_style.color, row_style.label, trained, start, *cells])
    columns = ["scheme", "trained to", "start", *columns]
    texts = {"title": "Numbers on one footing", "note": STARTS_NOTE, "texts": 3}
    return {**texts, "columns": columns, "rows": rows}
