"""The works as CITATION.cff lists them, with our own, and how to cite them."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from carry.config.paths import ROOT
from carry.config.yaml_files import read_yaml

OWN = "every_length"  # the folder of notebooks of what is in none of the works


def read_works() -> dict[str, dict[str, Any]]:
    """Return what CITATION.cff says of each work, by its key such as "mcleish2024".

    >>> work = read_works()["mcleish2024"]
    >>> work["source"], work["authors"][:30], work["year"]
    ('arXiv:2405.17399', 'Sean McLeish, Arpit Bansal, Al', 2024)
    """
    works = map(_describe_work, read_yaml(ROOT / "CITATION.cff")["references"])
    return {work["key"]: work for work in works}


def cite_project() -> str:
    """Return the citation of the project itself."""
    citation = read_yaml(ROOT / "CITATION.cff")
    authors = ", ".join(author["name"] for author in citation["authors"])
    return f"{authors}. {citation['title']}. Software, version {citation['version']}."


def _describe_work(reference: dict[str, Any]) -> dict[str, Any]:
    title, year, link = reference["title"], reference["year"], reference.get("url", "")
    authors = [f"{one['given-names']} {one['family-names']}" for one in reference["authors"]]
    name = unicodedata.normalize("NFD", reference["authors"][0]["family-names"])
    key = re.sub(r"[^a-z]", "", name.lower()) + str(year)  # without accents
    numbers = [identifier["value"] for identifier in reference.get("identifiers", [])]
    school = reference.get("institution", {}).get("name", "")
    book, thesis = reference.get("collection-title", ""), reference.get("thesis-type", "")
    thesis = ", ".join(filter(None, [thesis, school]))
    names, places = ", ".join(authors), filter(None, [book, thesis, *numbers])
    return {
        "key": key,
        "title": title,
        "authors": names,
        "year": year,
        "url": link,
        "source": numbers[0] if numbers else thesis,
        "citation": f"{names} ({year}). {title}. {'. '.join(places)}.",
    }
