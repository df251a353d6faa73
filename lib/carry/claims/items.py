"""What the works number (figures, tables, theorems, experiments), and which figures answer it.

`claims/items.yaml` has a list of items for each work. It is the index that leads from a number of a
work, such as "Fig. 5", to our figures and notebooks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import Field, field_validator, model_validator

from carry.claims.claim_settings import FOLDER, ITEMS, PAPERS
from carry.config import profiles
from carry.config.settings import Settings, SettingsError, describe, shorten, suggest_name
from carry.plots import gallery

FILE = FOLDER / f"{ITEMS}.yaml"
FIGURES = {  # the notebook of each figure
    name: notebook.source for notebook in gallery.NOTEBOOKS.values() for name in notebook.entries
}
COLUMNS = (
    "work", "item", "section", "title", "stated", "figures", "notebooks", "reason", "scale",
)  # fmt: skip
NUMBER = re.compile(
    r"(Fig\.|Table|Theorem|Corollary|Experiments?|Section|Appendix)"
    r" ((?:[A-Z]|\d+)(?:\.\d+)*)(?: to \d+)?"
)

Text = Annotated[str, Field(min_length=1)]


class Item(Settings):
    """A numbered item of a work, and what answers it here.

    Fields:
        item: its kind and number.
        section: the section that discusses it.
        title: what it shows.
        stated: what the text states there, mainly numbers.
        figures: the figures that answer it.
        notebook: a notebook that prints it as a table.
        reason: what is missing here, and why.
        scale: the sizes of our models, against those of the work.
    """

    item: str
    section: Text
    title: Text
    stated: str = ""
    figures: list[str] = []
    notebook: str = ""
    reason: str = ""
    scale: str = ""

    @field_validator("item")
    @classmethod
    def _has_kind_and_number(cls, text: str) -> str:
        if not NUMBER.fullmatch(text):
            raise ValueError(f"{describe(text)} is not a kind and a number, expected 'Fig. 2'")
        return text

    @model_validator(mode="after")
    def _is_answered(self) -> Item:
        if not (self.figures or self.notebook or self.reason):
            raise ValueError("figures [] without a reason; expected figures, notebook or reason")
        return self


def load_items(path: Path = FILE, figures: Mapping[str, str] = FIGURES) -> pd.DataFrame:
    """Return the checked items of all works, in the works' order, as a table.

    Args:
        path: a YAML file with a list of items for each work.
        figures: the notebook of each known figure.

    Returns:
        A row for each item, with the columns `COLUMNS`: the fields of `Item`, where `notebooks` has
        the notebooks of its figures and the one that prints it.

    Raises:
        SettingsError: for an unknown work, key, figure or notebook, an item that occurs twice, and
            one without figures, notebook and reason.

    >>> items = load_items().set_index(["work", "item"])
    >>> items.loc[("mcleish2024", "Table 2"), "figures"]
    ['sorting_architectures', 'sorting_minimum']
    >>> items.loc[("cho2025", "Table 26"), "notebooks"]
    ['cho2025/is_it_possible_at_all']
    """
    rows = []
    for work, settings in profiles.read_yaml(path).items():
        place = f"items.{shorten(work)}"
        if work not in PAPERS:
            raise SettingsError(f"{place}: unknown work, {suggest_name(work, PAPERS)}")
        if not isinstance(settings, list):
            raise SettingsError(f"{place}: {describe(settings)} is not valid; expected a list")
        seen: set[str] = set()
        for index, values in enumerate(settings):
            item = _parse_item(values, f"{place}.{index}", figures)
            if item.item in seen:
                raise SettingsError(
                    f"{place}.{index}.item: {item.item!r} occurs twice; expected once"
                )
            seen.add(item.item)
            notebooks = dict.fromkeys([*(figures[name] for name in item.figures), item.notebook])
            rows.append({"work": work, **dict(item), "notebooks": [*filter(None, notebooks)]})
    return pd.DataFrame(rows, columns=COLUMNS)


def _parse_item(values: Any, place: str, figures: Mapping[str, str]) -> Item:
    """Return an item whose figures and notebook are known; errors name the item, if it has one."""
    if isinstance(values, dict) and isinstance(values.get("item"), str):
        place = f"{place.rpartition('.')[0]}.{shorten(values['item'])}"
    item = Item.parse(values, place)
    for name in item.figures:
        if name not in figures:
            raise SettingsError(
                f"{place}.figures: unknown figure {describe(name)}, {suggest_name(name, figures)}"
            )
    notebooks = {*figures.values()}
    if item.notebook and item.notebook not in notebooks:
        raise SettingsError(
            f"{place}.notebook: unknown notebook {describe(item.notebook)}, "
            f"{suggest_name(item.notebook, notebooks)}"
        )
    return item
