"""What every page of the site fulfils: no load from a network, and no broken link."""

from __future__ import annotations

import re
from pathlib import Path

from bs4 import BeautifulSoup

REFERENCES = ("src", "href", "data", "poster", "srcset")


def check_links(folder: Path) -> list[str]:
    """Return the faults of the pages in a folder: network loads and broken links."""
    faults = []
    pages = {
        path.resolve(): BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        for path in sorted(folder.rglob("*.html"))
    }
    anchors = {path: {tag["id"] for tag in page.find_all(id=True)} for path, page in pages.items()}
    for path, page in pages.items():
        name = path.relative_to(folder.resolve()).as_posix()
        references = [(tag.name, tag.get(key)) for tag in page.find_all() for key in REFERENCES]
        for tag, reference in filter(all, references):
            target, _, anchor = reference.partition("#")
            if re.match(r"(?:[a-z]+:)?//", reference):
                faults += [f"{name} would load {reference} from a network"] * (tag != "a")
            elif re.match(r"data:|mailto:", reference):
                continue
            elif not (place := (path.parent / target).resolve() if target else path).exists():
                faults.append(f"{name} links to {target}, which does not exist")
            elif anchor and place in pages and anchor not in anchors[place]:
                faults.append(f"{name} links to {reference}, where no such place is")
    return faults
