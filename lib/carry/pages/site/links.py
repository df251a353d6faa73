"""What every page of the site fulfils: no load from a network, and no broken link."""

from __future__ import annotations

import html
import re
from pathlib import Path

VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s>"']+)"""
TAG = re.compile(rf"<(\w+)((?:\s+[\w:-]+(?:={VALUE})?)*)\s*/?>")
ATTRIBUTE = re.compile(rf"([\w:-]+)=({VALUE})")
REFERENCES = ("src", "href", "data", "poster", "srcset")


def check_links(folder: Path) -> list[str]:
    """Return the faults of the pages in a folder: network loads and broken links."""
    faults = []
    pages = {path.resolve(): _read_page(path) for path in sorted(folder.rglob("*.html"))}
    for path, (references, _) in pages.items():
        name = path.relative_to(folder.resolve()).as_posix()
        for tag, reference in references:
            target, _, anchor = reference.partition("#")
            if re.match(r"(?:[a-z]+:)?//", reference):
                faults += [f"{name} would load {reference} from a network"] * (tag != "a")
            elif re.match(r"data:|mailto:", reference):
                continue
            elif not (place := (path.parent / target).resolve() if target else path).exists():
                faults.append(f"{name} links to {target}, which does not exist")
            elif anchor and place in pages and anchor not in pages[place][1]:
                faults.append(f"{name} links to {reference}, where no such place is")
    return faults


def _read_page(path: Path) -> tuple[list[tuple[str, str]], set[str]]:
    """Return the references of a page with their tags, and its anchors."""
    references, anchors = [], set()
    for tag, inside in TAG.findall(path.read_text(encoding="utf-8")):
        for name, quoted in ATTRIBUTE.findall(inside):
            value = html.unescape(quoted.strip("\"'"))
            if name in REFERENCES and value:
                references.append((tag, value))
            elif name == "id":
                anchors.add(value)
    return references, anchors
