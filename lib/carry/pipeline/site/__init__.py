"""The site: figures, claims and executed notebooks as pages that open from disk, offline.

    reports/site/index.html            numbers, figures, claims, and a list of the notebooks
                 live.html             two certified models that run in the browser, see `live`
                 style.css             light and dark, by the reader's system setting
                 figures/NAME.svg      copies of the figures, each with its csv
                 notebooks/NAME.html   executed notebooks, rendered with nbconvert

nbconvert's full template would load scripts for formulas and widgets from the network. Its `basic`
template is the notebook alone; `notebook.html` wraps it into a page.
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
from carry.pipeline import readme_numbers
from carry.pipeline.site import live
from carry.pipeline.stages import STAGES, find_executed
from carry.plots import gallery, style

HERE = Path(__file__).parent
LOADS = re.compile(r"//\w+\.|\b(fetch|import|XMLHttpRequest|WebSocket|EventSource)\b")  # scripts
LINK = re.compile(r'<a href="(?![a-z]+:|#)([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)


class Page(NamedTuple):
    """An executed notebook: its source, its name on the site, and the group it is listed in."""

    source: Path
    name: str
    title: str
    group: str


def write_site(profile: str, folder: Path | None = None) -> Path:
    """Write the site of a profile from what the pipeline has written, and return its first page.

    Raises:
        SettingsError: for a missing result, figure or notebook, and for a page that would load
            something from the network or has a broken link.
    """
    folder = folder or paths.reports_path(profile, "site")
    pages = list_pages(profile)
    for name in ("figures", "notebooks"):  # pages of removed rows would stay
        shutil.rmtree(folder / name, ignore_errors=True)
    drawn = _list_drawn(profile)
    for notebook in drawn.values():
        for name in notebook.entries:
            for file in (f"{name}.svg", f"{name}.csv"):
                source = paths.figures_folder(profile, notebook.source) / file
                _write_file(folder / "figures" / file, _read_file(source))
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    names = {page.name for page in pages}
    for page in pages:
        body = render_notebook(page.source, names)
        text = templates.get_template("notebook.html").render(page=page, body=body)
        _write_file(folder / "notebooks" / f"{page.name}.html", text)
    records = json.loads(_read_file(paths.reports_path(profile, "claims.json")).decode())
    numbers = json.loads(_read_file(paths.reports_path(profile, "numbers.json")).decode())
    text = templates.get_template("index.html").render(
        profile=profile,
        columns=readme_numbers.COLUMNS,
        rows=[
            (style.choose_style(row), *line)
            for row, *line in readme_numbers.list_lines(numbers["rows"])
        ],
        figures=drawn,
        known=profiles.find_sources(profile),
        records=records,
        papers=list(dict.fromkeys(record["paper"] for record in records)),
        works=profiles.read_yaml(profiles.ROOT / "CITATION.cff")["references"],
        pages=pages,
        groups=list(dict.fromkeys(page.group for page in pages)),
        shown=readme_numbers.format_number,
        measured=claims.describe_measurement,
        summary=claims.summarise_verdicts(records),
        method=claims.METHOD,
    )
    _write_file(folder / "index.html", text)
    models = [live.export_model(row) for row in live.ROWS]
    text = templates.get_template("live.html").render(models=models)
    _write_file(folder / "live.html", text)
    for name in ("live.js", "live_page.js"):
        _write_file(folder / name, (HERE / name).read_bytes())
    _write_file(
        folder / "style.css", (HERE / "style.css").read_text(encoding="utf-8") + _highlighting()
    )
    faults = check_links(folder)
    if faults:
        raise SettingsError(f"site: {faults[0]}")
    return folder / "index.html"


def _list_drawn(profile: str) -> dict[str, gallery.Notebook]:
    """Return the notebooks of the works whose figures a profile draws."""
    works = profiles.load_profile(profile)["figures"]
    return {
        name: notebook
        for name, notebook in gallery.NOTEBOOKS.items()
        if notebook.source.partition("/")[0] in works
    }


def list_pages(profile: str) -> list[Page]:
    """Return the executed notebooks of a profile, the tour first if it exists.

    Those of stages are left out if they have not run, so that a fresh clone has a site. Studies
    come from the profile, since a removed one may have left its notebook in the folder.
    """
    tour = paths.ROOT / "notebooks" / "tour.ipynb"  # committed with its outputs
    pages = [Page(tour, "tour", "tour", "begin here")] if tour.exists() else []
    for notebook in _list_drawn(profile).values():
        path = find_executed(notebook.source, profile)
        pages.append(Page(path, path.stem, notebook.question, notebook.paper or "all rows"))
    for stage in STAGES.values():
        for item in stage.items(profile) if stage.parameter else [""]:
            name = f"{stage.name}_{item}" if item else stage.name
            title = f"{stage.name}: {item}" if item else stage.name
            group = stage.name if item else "all rows"
            path = stage.executed(profile, item)
            pages += [Page(path, name, title, group)] if path.exists() else []
    return pages


def render_notebook(source: Path, names: set[str]) -> str:
    """Return a notebook as HTML without a surrounding page.

    Links to other notebooks lead to their pages; other links into the project become plain text.
    """
    exporter = HTMLExporter(template_name="basic", exclude_anchor_links=True)
    notebook = nbformat.reads(_read_file(source).decode(), as_version=4)
    body, _ = exporter.from_notebook_node(notebook)
    body = body.replace("No description has been provided for this image", "drawn by this cell")

    def replace(match: re.Match) -> str:
        name = Path(match[1]).stem
        return f'<a href="{name}.html">{match[2]}</a>' if name in names else match[2]

    return LINK.sub(replace, body)


def check_links(folder: Path) -> list[str]:
    """Return the faults of the pages in a folder: network loads and broken links."""
    faults = []
    for path in sorted(folder.rglob("*.html")):
        parser = _ReferenceParser()
        parser.feed(path.read_text(encoding="utf-8"))
        name = path.relative_to(folder).as_posix()
        for loaded, target in parser.references:
            if re.match(r"(?:[a-z]+:)?//", target):
                faults += [f"{name} would load {target} from a network"] * loaded
            elif re.match(r"#|data:|mailto:", target):
                continue
            elif not (path.parent / target.partition("#")[0]).exists():
                faults.append(f"{name} links to {target}, which does not exist")
    for path in sorted(folder.rglob("*.css")):
        if re.search(r"@import|url\((?!['\"]?data:)", path.read_text(encoding="utf-8")):
            faults.append(f"{path.name} would load another file")
    for path in sorted(folder.rglob("*.js")):
        if LOADS.search(path.read_text(encoding="utf-8")):
            faults.append(f"{path.name} would load another file")
    return faults


class _ReferenceParser(HTMLParser):
    """Collects the references of a page as pairs: (loaded with the page, target)."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[tuple[bool, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record every source and link of a tag."""
        for name, value in attrs:
            if value and name in ("src", "href", "data", "poster", "srcset"):
                self.references.append((tag != "a", value))


def _highlighting() -> str:
    """Return the CSS of highlighted code, light and dark."""
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="native").get_style_defs(".highlight")
    return f"\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def _read_file(path: Path) -> bytes:
    if not path.exists():
        raise SettingsError(
            f"site: {paths.display_path(path)} is not there; expected the stages before"
        )
    return path.read_bytes()


def _write_file(path: Path, content: str | bytes) -> None:
    with paths.write_atomically(path) as draft:
        draft.write_bytes(content if isinstance(content, bytes) else content.encode())
