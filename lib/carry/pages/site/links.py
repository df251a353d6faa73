"""What every page of the site fulfils: no load from a network, and no broken link."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

LOADS = re.compile(r"//\w+\.|\b(fetch|import|XMLHttpRequest|WebSocket|EventSource)\b")  # scripts
DATA = re.compile(r"const \w+ = (.*);\n", re.DOTALL)


def check_links(folder: Path) -> list[str]:
    """Return the faults of the pages in a folder: network loads and broken links."""
    faults = []
    pages = {path.resolve(): _read_page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(folder.resolve()).as_posix()
        for loaded, reference in page.references:
            target, _, anchor = reference.partition("#")
            if re.match(r"(?:[a-z]+:)?//", reference):
                faults += [f"{name} would load {reference} from a network"] * loaded
            elif re.match(r"data:|mailto:", reference):
                continue
            elif not (place := (path.parent / target).resolve() if target else path).exists():
                faults.append(f"{name} links to {target}, which does not exist")
            elif anchor and place in pages and anchor not in pages[place].anchors:
                faults.append(f"{name} links to {reference}, where no such place is")
    for path in sorted(folder.rglob("*.css")):
        if re.search(r"@import|url\((?!['\"]?data:)", path.read_text(encoding="utf-8")):
            faults.append(f"{path.name} would load another file")
    for path in sorted(folder.rglob("*.js")):
        text = path.read_text(encoding="utf-8")
        if not _is_data(text) and LOADS.search(text):
            faults.append(f"{path.name} would load another file")
    return faults


def _is_data(script: str) -> bool:
    """Return whether a script does nothing but name a value that is JSON.

    >>> _is_data('const a = ["import x"];\\n'), _is_data('const a = load("x");\\n')
    (True, False)
    """
    match = DATA.fullmatch(script)
    try:
        return bool(match) and json.loads(match[1]) is not None
    except ValueError:
        return False


def _read_page(path: Path) -> _PageParser:
    parser = _PageParser()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


class _PageParser(HTMLParser):
    """Collects the anchors of a page, and its references as pairs: (loaded with it, target)."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[tuple[bool, str]] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the anchor of a tag, and every source and link."""
        for name, value in attrs:
            if value and name in ("src", "href", "data", "poster", "srcset"):
                self.references.append((tag != "a", value))
            elif value and name == "id":
                self.anchors.add(value)
