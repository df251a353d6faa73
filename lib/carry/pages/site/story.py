"""The story of the first page, and what the site says of each work: texts of `story.yaml`.

Numbers in texts come from the pipeline. Between braces stand their names:

    {number addition_relative, 1000 digits}          a row and a column of numbers.json
    {number addition_coupled_30, 200 digits, all}    the same from another start of ids
    {claim relative_1000_digits}                     what the ledger measured
    {certificate addition_relative, contexts}        a certified row; also trained, parameters

A sentence whose number is not in the results of a profile is left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from carry.claims import describe_number
from carry.claims.claim_settings import STARTS
from carry.config import profiles
from carry.config.settings import Settings, SettingsError, describe, suggest_name
from carry.pages import readme

FILE = Path(__file__).parent / "story.yaml"
PLACE = re.compile(r"\{(\w+) ([^{},]+)(?:, ([^{},]+))?(?:, ([^{},]+))?\}")
CERTIFIED = ("trained", "parameters", "contexts", "seeds")
TABLES = ("footing", "headlines", "certificates")


class Chapter(Settings):
    """A figure of the first page, with what it shows.

    Fields:
        question: the heading.
        figure: its name.
        text: sentences.
        claims: names of claims in the ledger.
        table: the numbers that can be opened below it, if any: one of `TABLES`.
    """

    question: str
    figure: str
    text: list[str]
    claims: list[str]
    table: str = ""


class About(Settings):
    """What the site says of a work.

    Fields:
        label: a word or two, for links to its page.
        about: a few sentences.
        title: of its page, for what is not in CITATION.cff.
    """

    label: str
    about: str
    title: str = ""


class Story(Settings):
    """The first page: a title, sentences below it, and chapters; and the works."""

    title: str
    lead: list[str]
    chapters: list[Chapter]
    works: dict[str, About]


def load_story(
    figures: Collection[str], claims: Collection[str], works: Collection[str], path: Path = FILE
) -> Story:
    """Return the story, checked.

    Args:
        figures: the names of known figures.
        claims: the names of known claims.
        works: the works that have a page.
        path: the YAML file.

    Raises:
        SettingsError: for an unknown key, figure, claim, table or name of a number, and for works
            that are not those that have a page.
    """
    story = Story.parse(profiles.read_yaml(path), "story")
    if [*story.works] != [*works]:
        raise SettingsError(
            f"story.works: {describe([*story.works])} does not fit; expected {', '.join(works)}"
        )
    for number, chapter in enumerate(story.chapters):
        place = f"story.chapters.{number}"
        _check_name(chapter.figure, figures, f"{place}.figure: unknown figure")
        for name in chapter.claims:
            _check_name(name, claims, f"{place}.claims: unknown claim")
        if chapter.table:
            _check_name(chapter.table, TABLES, f"{place}.table: unknown table")
    texts = [story.lead, *(chapter.text for chapter in story.chapters)]
    for text in (sentence for sentences in texts for sentence in sentences):
        rest = PLACE.sub("", text)
        if "{" in rest or "}" in rest:
            raise SettingsError(f"story: {describe(text)} is not valid; expected {{kind name}}")
        for kind, *names in PLACE.findall(text):
            _check_number(kind, names, claims)
    return story


def _check_name(name: str, names: Collection[str], problem: str) -> None:
    if name not in names:
        raise SettingsError(f"{problem} {describe(name)}, {suggest_name(name, names)}")


def _check_number(kind: str, names: list[str], claims: Collection[str]) -> None:
    """Refuse a name of a number that no profile could have."""
    first, second, third = names
    _check_name(kind, ("number", "claim", "certificate"), "story: unknown kind of number")
    if kind == "claim":
        _check_name(first, claims, "story: unknown claim")
        return
    _check_name(first, profiles.load_params()["runs"], "story: unknown row")
    columns = ("trained", *readme_numbers.COLUMNS) if kind == "number" else CERTIFIED
    _check_name(second, columns, f"story: unknown {kind} of {first}")
    _check_name(third or "1", STARTS, "story: unknown start")


def fill_numbers(
    sentences: Iterable[str], numbers: Mapping[str, Any], records: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return sentences with their numbers; those with an unknown number are left out.

    Args:
        sentences: texts of a story.
        numbers: the content of numbers.json.
        records: those of the ledger, by the name of their claim.
    """
    filled = []
    for text in sentences:
        values = [
            _find_number(kind, names, numbers, records) for kind, *names in PLACE.findall(text)
        ]
        if None not in values:
            numerals = iter(values)
            filled.append(PLACE.sub(lambda _: next(numerals), text))  # noqa: B023, used at once
    return filled


def _find_number(
    kind: str,
    names: list[str],
    numbers: Mapping[str, Any],
    records: Mapping[str, Mapping[str, Any]],
) -> str | None:
    """Return a number as text, or None if there is none."""
    first, second, third = names
    if kind == "claim":
        record = records[first]
        return None if record["measured"] is None else describe_number(record)
    if kind == "certificate":
        value = numbers["certificates"].get(first, {}).get(second)
        return None if value is None else f"{value:,}"
    row = numbers["rows"].get(first, {})
    row = row if third in ("", row.get("start")) else row.get("starts", {}).get(third, {})
    value = row.get(second)
    return readme_numbers.format_number(value) if isinstance(value, dict) else value and str(value)
