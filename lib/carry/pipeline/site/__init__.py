"""The results as pages that open from disk, without a network: figures, claims, notebooks.

    reports/site/index.html            numbers, figures, claims, and a list of the notebooks
                 style.css             light and dark, as the reader's system asks
                 figures/NAME.svg      copies, with the csv behind each
                 notebooks/NAME.html   executed notebooks, rendered with nbconvert

nbconvert's own page would load scripts for formulas and widgets from the network. Its `basic`
template is the notebook alone, which `notebook.html` here wraps into a page.
"""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import jinja2
import nbformat
from nbconvert import HTMLExporter
from pygments.formatters import HtmlFormatter

from carry import claims
from carry.config import paths, profiles
from carry.config.settings import SettingsError
from carry.pipeline import readme_numbers as quoted
from carry.plots import gallery, style

HERE = Path(__file__).parent
LINK = re.compile(r'<a href="(?![a-z]+:|#)([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)


class Page(NamedTuple):
    """An executed notebook: its source, its name on the site, and the group it is listed in."""

    source: Path
    name: str
    title: str
    group: str


def write(profile: str, folder: Path | None = None) -> Path:
    """Write the site of a profile from what the pipeline has written, and return its first page.

    Raises:
        SettingsError: for a result, figure or notebook that is not there, and for a page that would
            load something from the network or link to nothing.
    """
    folder = folder or paths.reports_path(profile, "site")
    pages = notebooks(profile)
    for name in ("figures", "notebooks"):  # nothing stays behind of a row that is gone
        shutil.rmtree(folder / name, ignore_errors=True)
    for place, drawn in gallery.NOTEBOOKS.items():
        for name in drawn.entries:
            for file in (f"{name}.svg", f"{name}.csv"):
                _put(
                    folder / "figures" / file,
                    _there(paths.reports_path(profile, "figures", place, file)),
                )
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    names = {page.name for page in pages}
    for page in pages:
        body = render(page.source, names)
        text = templates.get_template("notebook.html").render(page=page, body=body)
        _put(folder / "notebooks" / f"{page.name}.html", text)
    records = json.loads(_there(paths.reports_path(profile, "claims.json")).decode())
    numbers = json.loads(_there(paths.reports_path(profile, "numbers.json")).decode())
    text = templates.get_template("index.html").render(
        profile=profile,
        columns=quoted.COLUMNS,
        rows=[(style.look(row), numbers["rows"][row]) for row in gallery.overview(numbers["rows"])],
        figures=gallery.NOTEBOOKS,
        known=list(profiles.load_profile(profile)["rows"]),
        records=records,
        papers=list(dict.fromkeys(record["paper"] for record in records)),
        pages=pages,
        groups=list(dict.fromkeys(page.group for page in pages)),
        shown=quoted.shown,
        measured=claims.shown,
        summary=claims.summary(records),
        method=claims.METHOD,
    )
    _put(folder / "index.html", text)
    _put(folder / "style.css", (HERE / "style.css").read_text(encoding="utf-8") + _highlighting())
    faults = check(folder)
    if faults:
        raise SettingsError(f"site: {faults[0]}")
    return folder / "index.html"


def notebooks(profile: str) -> list[Page]:
    """Return the executed notebooks of a profile, the tour first if there is one.

    The rows come from the profile, since a row that is gone may have left its notebook behind.
    """
    settings, done = profiles.load_profile(profile), paths.data_path(profile, "executed")
    tour = paths.ROOT / "notebooks" / "tour.ipynb"  # kept with its outputs where it stands
    pages = [Page(tour, "tour", "tour", "begin here")] if tour.exists() else []
    for drawn in gallery.NOTEBOOKS.values():
        path = done / f"{drawn.source}.ipynb"
        pages.append(Page(path, path.stem, drawn.question, drawn.paper or "all rows"))
    pages.append(Page(done / "pipeline" / "claims.ipynb", "claims", "claims", "all rows"))
    stages = {"problems": "problems", "train": "rows", "evaluate": "rows", "analyse": "analyses",
              "variants": "variant_sets", "certify": "certificates"}  # fmt: skip
    for stage, of in stages.items():
        for row in settings[of]:
            path = done / "pipeline" / stage / f"{row}.ipynb"
            pages.append(Page(path, f"{stage}_{row}", f"{stage}: {row}", stage))
    return pages


def render(source: Path, names: set[str]) -> str:
    """Return a notebook as HTML without a page around it.

    Links to other notebooks lead to their pages; any other link into the project loses its target.
    """
    exporter = HTMLExporter(template_name="basic", exclude_anchor_links=True)
    notebook = nbformat.reads(_there(source).decode(), as_version=4)
    body, _ = exporter.from_notebook_node(notebook)
    body = body.replace("No description has been provided for this image", "drawn by this cell")

    def relinked(found: re.Match) -> str:
        name = Path(found[1]).stem
        return f'<a href="{name}.html">{found[2]}</a>' if name in names else found[2]

    return LINK.sub(relinked, body)


def check(folder: Path) -> list[str]:
    """Return what is wrong with the pages of a folder: loads from a network, links to nothing."""
    faults = []
    for path in sorted(folder.rglob("*.html")):
        seen = _References()
        seen.feed(path.read_text(encoding="utf-8"))
        name = path.relative_to(folder).as_posix()
        for loads, target in seen.found:
            if re.match(r"(?:[a-z]+:)?//", target):
                faults += [f"{name} would load {target} from a network"] * loads
            elif re.match(r"#|data:|mailto:", target):
                continue
            elif not (path.parent / target.partition("#")[0]).exists():
                faults.append(f"{name} leads to {target}, which is not there")
    for path in sorted(folder.rglob("*.css")):
        if re.search(r"@import|url\((?!['\"]?data:)", path.read_text(encoding="utf-8")):
            faults.append(f"{path.name} would load another file")
    return faults


class _References(HTMLParser):
    """What a page refers to: (whether it is loaded at once, where it is)."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[bool, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note every source and link."""
        for name, value in attrs:
            if value and name in ("src", "href", "data", "poster", "srcset"):
                self.found.append((tag != "a", value))


def _highlighting() -> str:
    """Return colours for code, light and dark."""
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="native").get_style_defs(".highlight")
    return f"\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def _there(path: Path) -> bytes:
    if not path.exists():
        raise SettingsError(
            f"site: {paths.display_path(path)} is not there; expected the stages before"
        )
    return path.read_bytes()


def _put(path: Path, content: str | bytes) -> None:
    with paths.write_atomically(path) as draft:
        draft.write_bytes(content if isinstance(content, bytes) else content.encode())
