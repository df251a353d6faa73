"""The works as CITATION.cff lists them, with our own, and how to cite them."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from carry.config.paths import ROOT
from carry.config.yaml_files import read_yaml

OWN = "every_length"  # the folder of notebooks of what is in none of the works
KINDS = {"article": "article", "conference-paper": "inproceedings", "thesis": "mastersthesis"}


def read_works() -> dict[str, dict[str, Any]]:
    """Return what CITATION.cff says of each work, by its key such as "mcleish2024".

    >>> work = read_works()["mcleish2024"]
    >>> work["source"], work["authors"][:30], work["year"]
    ('arXiv:2405.17399', 'Sean McLeish, Arpit Bansal, Al', 2024)
    """
    references = read_yaml(ROOT / "CITATION.cff")["references"]
    return {_make_key(reference): _describe_work(reference) for reference in references}


def describe_project() -> dict[str, Any]:
    """Return the citation of the project itself."""
    citation = read_yaml(ROOT / "CITATION.cff")
    authors = ", ".join(author["name"] for author in citation["authors"])
    version = f"version {citation['version']}"
    fields = {
        "title": citation["title"],
        "author": f"{{{authors}}}",
        "note": f"Software, {version}",
    }
    text = f"{authors}. {citation['title']}. Software, {version}."
    return {"citation": text, "bibtex": _format_bibtex("software", "carry", fields)}


def _make_key(reference: dict[str, Any]) -> str:
    """Return the key of a work: its first author's name without accents, and its year."""
    name = unicodedata.normalize("NFD", reference["authors"][0]["family-names"])
    return re.sub(r"[^a-z]", "", name.lower()) + str(reference["year"])


def _describe_work(reference: dict[str, Any]) -> dict[str, Any]:
    authors = [f"{one['given-names']} {one['family-names']}" for one in reference["authors"]]
    numbers = [identifier["value"] for identifier in reference.get("identifiers", [])]
    school = reference.get("institution", {}).get("name", "")
    thesis = ", ".join(filter(None, [reference.get("thesis-type"), school]))
    place = ". ".join(filter(None, [reference.get("collection-title"), thesis]))
    link = reference.get("url", "")
    fields = {
        "title": f"{{{reference['title']}}}",
        "author": " and ".join(authors),
        "year": str(reference["year"]),
        "booktitle": reference.get("collection-title", ""),
        "school": school,
        "journal": f"arXiv preprint {numbers[0]}" if numbers and not place else "",
        "url": link,
    }
    text = f"{', '.join(authors)} ({reference['year']}). {reference['title']}. "
    text += ". ".join(filter(None, [place, *numbers])) + "."
    kind = KINDS.get(reference["type"], "misc")
    return {
        "title": reference["title"],
        "authors": ", ".join(authors),
        "year": reference["year"],
        "url": link,
        "source": numbers[0] if numbers else thesis,
        "citation": text,
        "bibtex": _format_bibtex(kind, _make_key(reference), fields),
    }


def _format_bibtex(kind: str, key: str, fields: dict[str, str]) -> str:
    """Return an entry of BibTeX with the fields that are not empty.

    >>> print(_format_bibtex("misc", "a", {"title": "T", "url": ""}))
    @misc{a,
      title = {T},
    }
    """
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])
