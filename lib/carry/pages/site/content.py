"""What the pages of the site show: figures, items, claims and numbers, as templates read them."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from carry import fingerprint
from carry.claims.claim_settings import OWN_CLAIMS
from carry.claims.ledger_page import count_seen
from carry.config import paths
from carry.config.templates import fill_template
from carry.config.yaml_files import read_yaml
from carry.pages import headlines, readme
from carry.pages.items import add_claims, load_items
from carry.pages.site import pages, works
from carry.pages.site.figures import Figure, read_figure
from carry.pages.site.pages import Page
from carry.plots import index

STORY = Path(__file__).parent / "story.yaml"
TABLES = {  # of numbers.json
    "footing": readme.tabulate_accuracy,
    "headlines": headlines.tabulate_headlines,
    "certificates": readme.tabulate_certificates,
}


class Content(NamedTuple):
    """What the pages show."""

    pages: list[Page]  # notebooks, in order
    figures: dict[str, Figure]  # by name, in the order of the notebooks
    items: pd.DataFrame  # what the works number, with the records of their claims
    records: list[dict[str, Any]]  # of the ledger
    numbers: dict[str, Any]  # the content of numbers.json
    story: dict[str, Any]  # the first page, as in story.yaml

    def list_figures(self, page: Page) -> list[Figure]:
        """Return the figures of a notebook."""
        return [one for one in self.figures.values() if one.notebook == page.notebook]


def read_content() -> Content:
    """Return what the pages show, from the files of the pipeline."""
    records, numbers = (
        json.loads((paths.REPORTS / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("claims", "numbers")
    )
    items = add_claims(load_items(), records)
    keys = (*works.read_works(), works.OWN)
    listed, entries, figures = pages.list_pages(items), index.list_figures(), {}
    commits = fingerprint.find_last_commits(paths.REPORTS / "figures")
    for page in listed:
        top = f"works/{page.group}.html" if page.group in keys else "figures.html"
        for name, entry in entries.items():
            if entry.notebook == page.notebook:
                figures[name] = read_figure(entry, f"{top}#figure-{name}", commits)
    return Content(listed, figures, items, records, numbers, read_yaml(STORY))


def list_works(content: Content) -> list[dict[str, Any]]:
    """Return what pages say of each work, our own last: texts, what was `seen` and `items`."""
    described, listed = works.read_works(), []
    for key, texts in content.story["works"].items():
        paper = OWN_CLAIMS if key == works.OWN else key
        records = [record for record in content.records if record["paper"] == paper]
        seen = f"{len(records)} claims: {count_seen(records)}"
        items = content.items[content.items["work"] == key].to_dict("records")
        for item in items:
            item |= {"anchor": name_anchor(item["item"]), "page": ""}
        items += _group_others(content, records)
        about = {"key": key, "seen": seen, "items": items}
        listed.append({**described.get(key, {}), **texts, **about})
    return listed


def name_anchor(item: str) -> str:
    """Return the anchor of an item on the page of its work.

    >>> name_anchor("Fig. 4.1"), name_anchor("Experiments 7 to 9")
    ('fig-4.1', 'experiments-7-to-9')
    """
    return item.lower().replace(". ", "-").replace(" ", "-")


def _group_others(content: Content, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the claims of a work that are about none of its items, as items without a number.

    Those whose section names a notebook stand together.
    """
    listed = {record["id"] for claims in content.items["claims"] for record in claims}
    titles = {page.name: page.title for page in content.pages if page.notebook}
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        if record["id"] not in listed:
            groups[record["section"] if record["section"] in titles else ""].append(record)
    return [
        {
            **dict.fromkeys(("item", "stated", "notebooks", "figures", "reason", "scale"), ""),
            "title": titles.get(page, "Other claims"),
            "page": page,
            "anchor": f"claims-{page or 'other'}",
            "claims": groups[page],
        }
        for page in sorted(groups, key=lambda name: not name)
    ]


def list_chapters(content: Content) -> list[dict[str, Any]]:
    """Return the chapters of the first page, with their figures, claims and numbers."""
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
            "table": make_table(chapter["table"], content) if "table" in chapter else None,
        }
        chapters.append({**chapter, **parts})
    return chapters


def make_table(name: str, content: Content) -> dict[str, Any]:
    """Return a table of numbers.json for a page, with what the story says of it."""
    columns, rows = TABLES[name](content.numbers)
    return {**content.story["tables"][name], "columns": columns, "rows": rows}
