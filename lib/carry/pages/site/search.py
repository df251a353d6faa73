"""The index of the site's search: a script that names a list of questions, figures and claims."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from carry.pages.site.figures import Figure
from carry.pages.site.pages import Page


def write_index(
    pages: Iterable[Page],
    figures: Iterable[Figure],
    items: pd.DataFrame,
    records: Iterable[Mapping[str, Any]],
) -> str:
    """Return a script with an entry for each notebook, figure, item and claim.

    An entry has a `kind`, a `title`, a `text`, of which both are searched, and a `url` from the top
    of the site.
    """
    entries = [
        ("Notebook", page.title, page.group, f"notebooks/{page.name}.html") for page in pages
    ]
    for item in items.itertuples():
        text = "; ".join(filter(None, [item.title, item.stated]))
        place = f"works/{item.work}.html#{name_anchor(item.item)}"
        entries.append(("Item", name_item(item.work, item.item), text, place))
    for figure in figures:
        answers = [name_item(*answer) for answer in figure.answers]
        text = f"Answers {', '.join(answers)}. {figure.caption}" if answers else figure.caption
        entries.append(("Figure", figure.title, text, figure.url))
    for record in records:
        text = f"{record['verdict']}; {record['paper']}, {record['section']}, {record['id']}"
        place = f"ledger.html#claim-{record['id']}"
        entries.append(("Claim", record["statement"], text, place))
    names = ("kind", "title", "text", "url")
    lines = [
        json.dumps(dict(zip(names, entry, strict=True)), ensure_ascii=False) for entry in entries
    ]
    return "const searchIndex = [\n" + ",\n".join(lines) + "\n];\n"


def name_item(work: str, item: str) -> str:
    """Return the name of an item as a reader may write it.

    >>> name_item("mcleish2024", "Fig. 5")
    'Figure 5 of mcleish2024'
    """
    return f"{item.replace('Fig.', 'Figure')} of {work}"


def name_anchor(item: str) -> str:
    """Return the anchor of an item on the page of its work.

    >>> name_anchor("Fig. 4.1"), name_anchor("Experiments 7 to 9")
    ('fig-4.1', 'experiments-7-to-9')
    """
    return item.lower().replace(". ", "-").replace(" ", "-")
