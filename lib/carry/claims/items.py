"""What the works number (figures, tables, theorems, experiments), and what answers it here.

`claims/items.yaml` has a list of items for each work. Our figures say themselves which items they
answer (`carry.plots.index`), and claims name their items in `section`. Together they are the index
that leads from a number of a work, such as "Fig. 5", to our figures, notebooks and verdicts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import Field, field_validator

from carry.claims.claim_settings import FOLDER, ITEMS, PAPERS
from carry.claims.verdicts import VERDICTS
from carry.config import profiles
from carry.config.settings import Settings, SettingsError, describe, shorten, suggest_name
from carry.plots import index

FILE = FOLDER / f"{ITEMS}.yaml"
COLUMNS = (
    "work", "item", "section", "title", "stated", "figures", "notebooks", "reason", "scale",
    "claims",
)  # fmt: skip
NUMBER = re.compile(
    r"(Fig\.|Table|Theorem|Corollary|Experiments?|Section|Appendix)"
    r" ((?:[A-Z]|\d+)(?:\.\d+)*)(?: to \d+)?"
)
SECTION = re.compile(r"(?:[A-Z]|\d+)(?:\.\d+)*")

Text = Annotated[str, Field(min_length=1)]


class Item(Settings):
    """A numbered item of a work, and what we say of it.

    Fields:
        item: its kind and number.
        section: the section that discusses it.
        title: what it shows.
        stated: what the text states there, mainly numbers.
        notebook: a notebook that prints it as a table.
        claims: claims about it whose section does not name it.
        reason: what is missing here, and why.
        scale: the sizes of our models, against those of the work.
    """

    item: str
    section: Text
    title: Text
    stated: str = ""
    notebook: str = ""
    claims: list[str] = []
    reason: str = ""
    scale: str = ""

    @field_validator("item")
    @classmethod
    def _has_kind_and_number(cls, text: str) -> str:
        if not NUMBER.fullmatch(text):
            raise ValueError(f"{describe(text)} is not a kind and a number, expected 'Fig. 2'")
        return text


def load_items(path: Path = FILE, folder: Path | None = None) -> pd.DataFrame:
    """Return the checked items of all works, in the works' order, as a table.

    Args:
        path: a YAML file with a list of items for each work.
        folder: that of the notebooks whose figures answer them (default: the project's).

    Returns:
        A row for each item, with the columns `COLUMNS`: the fields of `Item`. `figures` has the
        figures that answer it; `notebooks` those that show these figures, or print it.

    Raises:
        SettingsError: for an unknown work, key or notebook, an item that occurs twice, one without
            figures, notebook and reason, and for a figure that answers an unknown item.

    >>> items = load_items().set_index(["work", "item"])
    >>> items.loc[("mcleish2024", "Fig. 8"), "figures"]
    ['training_length_by_region']
    >>> items.loc[("cho2025", "Table 26"), "notebooks"]
    ['cho2025/is_it_possible_at_all']
    """
    figures, notebooks = index.list_figures(folder), index.find_figure_notebooks(folder)
    items: dict[tuple[str, str], Item] = {}
    for work, settings in profiles.read_yaml(path).items():
        place = f"items.{shorten(work)}"
        if work not in PAPERS:
            raise SettingsError(f"{place}: unknown work, {suggest_name(work, PAPERS)}")
        if not isinstance(settings, list):
            raise SettingsError(f"{place}: {describe(settings)} is not valid; expected a list")
        for number, values in enumerate(settings):
            item = _parse_item(values, f"{place}.{number}", notebooks)
            if (work, item.item) in items:
                raise SettingsError(
                    f"{place}.{number}.item: {item.item!r} occurs twice; expected once"
                )
            items[work, item.item] = item
    answers = _group_answers(figures, items)
    rows = []
    for (work, name), item in items.items():
        if not (answers[work, name] or item.notebook or item.reason):
            raise SettingsError(
                f"items.{work}.{name}: no figure answers it; expected a figure, notebook or reason"
            )
        drawing = dict.fromkeys(figures[figure].notebook for figure in answers[work, name])
        places = [*drawing, *([item.notebook] if item.notebook not in {"", *drawing} else [])]
        answer = {"work": work, "figures": answers[work, name], "notebooks": places}
        rows.append({**dict(item), **answer})
    return pd.DataFrame(rows, columns=COLUMNS)


def _parse_item(values: Any, place: str, notebooks: Iterable[str]) -> Item:
    """Return an item whose notebook is known; errors name the item, if it has a name."""
    if isinstance(values, dict) and isinstance(values.get("item"), str):
        place = f"{place.rpartition('.')[0]}.{shorten(values['item'])}"
    item = Item.parse(values, place)
    if item.notebook and item.notebook not in notebooks:
        raise SettingsError(
            f"{place}.notebook: unknown notebook {describe(item.notebook)}, "
            f"{suggest_name(item.notebook, notebooks)}"
        )
    return item


def _group_answers(
    figures: Mapping[str, index.FigureEntry], items: Mapping[tuple[str, str], Item]
) -> dict[tuple[str, str], list[str]]:
    """Return the figures that answer each item."""
    answers: dict[tuple[str, str], list[str]] = {key: [] for key in items}
    for figure in figures.values():
        for work, item in figure.answers:
            if (work, item) not in answers:
                names = [name for other, name in items if other == work] or PAPERS
                raise SettingsError(
                    f"notebooks/{figure.notebook}: {figure.name}.answers: unknown item {item!r} of "
                    f"{work!r}, {suggest_name(item, names)}"
                )
            answers[work, item].append(figure.name)
    return answers


def find_items(section: str) -> list[str]:
    """Return the items that the section of a claim names; a section is one if it stands alone.

    >>> find_items("4.3, Fig. 1"), find_items("A.6.3, Fig. 15 left"), find_items("A.2")
    (['Fig. 1'], ['Fig. 15'], ['Appendix A.2'])
    >>> find_items("4.5.1, experiment 27"), find_items("abstract, 3.1")
    (['Experiment 27'], [])
    """
    if SECTION.fullmatch(section):
        return [f"{'Appendix' if section[0].isalpha() else 'Section'} {section}"]
    parts = [part[:1].upper() + part[1:] for part in section.split(", ")]
    return [match[0] for match in map(NUMBER.match, parts) if match]


def add_verdicts(items: pd.DataFrame, records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return items with the ledger's records of their claims as the column `claims`.

    Args:
        items: as `load_items` returns them.
        records: those of the ledger, as in claims.json; it may be older than the items.

    >>> items = load_items()
    >>> record = {"id": "a", "paper": "cho2025", "section": "4.3, Fig. 6", "verdict": "holds"}
    >>> added = add_verdicts(items.assign(claims=[[]] * len(items)), [record])
    >>> added.loc[added["claims"].map(len) > 0, "item"].tolist()
    ['Fig. 6']
    """
    claims = [
        [
            record
            for record in records
            if record["paper"] == item.work
            and (record["id"] in item.claims or item.item in find_items(record["section"]))
        ]
        for item in items.itertuples()
    ]
    return items.assign(claims=claims)


def summarise_claims(records: Iterable[Mapping[str, Any]]) -> str:
    """Return the verdicts of the claims of an item, with their numbers where there are several.

    >>> summarise_claims([{"verdict": "holds"}]), summarise_claims([])
    ('holds', '')
    >>> summarise_claims([{"verdict": name} for name in ("fails", "holds", "fails")])
    'holds 1, fails 2'
    """
    count = Counter(record["verdict"] for record in records)
    if count.total() == 1:
        return next(iter(count))
    return ", ".join(f"{name} {count[name]}" for name in VERDICTS if count[name])


def render_index(items: pd.DataFrame, folder: str = "") -> str:
    """Return items of one work as a Markdown table that leads to the notebooks.

    Args:
        items: of one work, as `add_verdicts` returns them.
        folder: of the notebooks, as seen from the page.
    """
    lines = [
        "| item | stated there | here | claims | scale; what is missing |",
        "|---|" + "---|" * 4,
    ]
    notebooks, figures = index.find_figure_notebooks(), index.list_figures()
    for item in items.itertuples():
        here = []
        for name in item.notebooks:
            names = [f"`{figure}`" for figure in item.figures if figures[figure].notebook == name]
            question = index.read_question(notebooks[name])
            here.append(f"[{question}]({folder}{name}.ipynb) {', '.join(names)}".strip())
        missing = "; ".join(filter(None, [item.scale, item.reason]))
        cells = [f"**{item.item}** {item.title}", item.stated, "<br>".join(here)]
        cells += [summarise_claims(item.claims), missing]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)
