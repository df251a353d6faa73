"""What the works number (figures, tables, theorems, experiments), and what answers it here.

`claims/items.yaml` has a list of items for each work. Our figures say themselves which items they
answer (`carry.plots.index`), and so do claims (`items`). Together they are the index that leads
from a number of a work, such as "Fig. 5", to our figures, notebooks and verdicts.
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
from carry.claims.ledger_page import describe_number
from carry.claims.verdicts import VERDICTS
from carry.config import paths
from carry.config.settings import Settings, SettingsError, describe, suggest_name
from carry.config.yaml_files import read_yaml
from carry.plots import index

FILE = FOLDER / f"{ITEMS}.yaml"
COLUMNS = (
    "work", "item", "section", "title", "stated", "figures", "notebooks", "reason", "scale",
)  # fmt: skip
NUMBER = re.compile(
    r"(Fig\.|Table|Theorem|Corollary|Experiments?|Section|Appendix)"
    r" ((?:[A-Z]|\d+)(?:\.\d+)*)(?: to \d+)?"
)

Text = Annotated[str, Field(min_length=1)]


class Item(Settings):
    """A numbered item of a work, and what we say of it.

    Fields:
        item: its kind and number.
        section: the section that discusses it.
        title: what it shows.
        stated: what the text states there, mainly numbers.
        notebook: a notebook that prints it as a table.
        reason: what is missing here, and why.
        scale: the sizes of our models, against those of the work.
    """

    item: str
    section: Text
    title: Text
    stated: str = ""
    notebook: str = ""
    reason: str = ""
    scale: str = ""

    @field_validator("item")
    @classmethod
    def _has_kind_and_number(cls, text: str) -> str:
        if not NUMBER.fullmatch(text):
            raise ValueError(f"{describe(text)} is not a kind and a number, expected 'Fig. 2'")
        return text


def load_items(path: Path = FILE, root: Path | None = None) -> pd.DataFrame:
    """Return the checked items of all works, in the works' order, as a table.

    Args:
        path: a YAML file with a list of items for each work.
        root: the folder of the project whose figures answer them (default: this one).

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
    figures, notebooks = index.list_figures(root), index.find_figure_notebooks(root)
    items: dict[tuple[str, str], Item] = {}
    for work, settings in read_yaml(path).items():
        place = f"items.{work}"
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
        place = f"{place.rpartition('.')[0]}.{values['item']}"
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


def add_verdicts(items: pd.DataFrame, records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return items with the ledger's records of their claims as the column `claims`.

    Args:
        items: as `load_items` returns them.
        records: those of the ledger, as in claims.json.

    >>> record = {"id": "a", "paper": "cho2025", "items": ["Fig. 6"], "verdict": "holds"}
    >>> added = add_verdicts(load_items(), [record])
    >>> added.loc[added["claims"].map(len) > 0, "item"].tolist()
    ['Fig. 6']
    """
    claims = [
        [
            record
            for record in records
            if record["paper"] == item.work and item.item in record["items"]
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


def is_drawn(notebook: str, figure: str) -> bool:
    """Return whether a figure of a notebook is among the committed ones.

    >>> is_drawn("overview", "accuracy"), is_drawn("overview", "no_such_figure")
    (True, False)
    """
    return (paths.figures_folder(notebook) / f"{figure}.svg").exists()


def name_answers(items: pd.DataFrame) -> list[str]:
    """Return for each item by what it is covered here: a figure, a printed table, or nothing yet.

    >>> items = load_items().set_index("item")
    >>> name_answers(items[items["work"] == "mcleish2024"].loc[["Fig. 3", "Table 5"]])
    ['figure', 'none']
    """
    figures, answers = index.list_figures(), []
    for item in items.itertuples():
        homes = {name: figures[name].notebook for name in item.figures}
        if any(is_drawn(notebook, name) for name, notebook in homes.items()):
            answers.append("figure")
        elif not {*item.notebooks} <= {*homes.values()}:
            answers.append("printed table")
        else:
            answers.append("figure not drawn" if homes else "none")
    return answers


def describe_first(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the first number of some claims with its basis; without any, why the first has none.

    >>> record = {"id": "a", "measured": 0.5, "interval": [0.4, 0.612], "n": 1000, "seeds": 3}
    >>> describe_first([{"measured": None}, {**record, "statistic": "worst_seed"}])
    '50.0% (40.0% to 61.2%), n = 1,000, 3 seeds: `a`'
    >>> describe_first([{"id": "b", "measured": None, "reason": "needs a GPU"}]), describe_first([])
    ('needs a GPU: `b`', '')
    """
    for record in records:
        if record["measured"] is not None:
            n, seeds = record["n"], record["seeds"]
            basis = [f"n = {n:,}"] * bool(n)
            basis += [f"{seeds} seed" if seeds == 1 else f"{seeds} seeds"] * bool(seeds)
            return f"{', '.join([describe_number(record), *basis])}: `{record['id']}`"
    return f"{records[0]['reason']}: `{records[0]['id']}`" if records else ""


def fold_items(names: Sequence[str], titles: Sequence[str]) -> tuple[str, str]:
    """Return the name and the title of consecutive items of one kind that share a line.

    >>> fold_items(["Table 5"], ["Queries"])
    ('Table 5', 'Queries')
    >>> fold_items(["Table 5", "Table 6", "Table 7"], ["Queries", "Keys", "Values"])
    ('Tables 5 to 7', 'from "Queries" to "Values"')
    >>> fold_items(["Fig. 2", "Fig. 3"], ["Sums", "Products"])
    ('Fig. 2 and 3', '"Sums" and "Products"')
    """
    if len(names) == 1:
        return names[0], titles[0]
    kind, _, number = names[0].partition(" ")
    kind += "" if kind.endswith(".") else "s"
    joint, start = ("and", "") if len(names) == 2 else ("to", "from ")
    name = f"{kind} {number} {joint} {names[-1].rpartition(' ')[2]}"
    return name, f'{start}"{titles[0]}" {joint} "{titles[-1]}"'


def render_index(
    items: pd.DataFrame, folder: str = "", pictures: str = "../reports/figures/"
) -> str:
    """Return items of one work as a Markdown table that leads to notebooks and pictures.

    Consecutive items of one kind share a line if they differ in their titles alone.

    Args:
        items: of one work, as `add_verdicts` returns them.
        folder: of the notebooks, as seen from the page.
        pictures: the folder of the drawn figures, as seen from the page.
    """
    names = ["item", "stated there", "ours, of the first claim", "notebooks, figures", "claims"]
    names += ["scale; what is missing"]
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    contents = pd.DataFrame(
        {
            "kind": item.item.partition(" ")[0],
            "stated": item.stated,
            "ours": describe_first(item.claims),
            "here": _link_answers(item.notebooks, item.figures, folder, pictures),
            "verdicts": summarise_claims(item.claims),
            "missing": "; ".join(filter(None, [item.scale, item.reason])),
        }
        for item in items.itertuples()
    )
    changes = (contents != contents.shift()).any(axis=1).cumsum()
    for _, group in items.reset_index(drop=True).groupby(changes):
        name, title = fold_items([*group["item"]], [*group["title"]])
        cells = [f"**{name}** {title}", *contents.loc[group.index[0]].drop("kind")]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def _link_answers(names: Sequence[str], shown: Sequence[str], folder: str, pictures: str) -> str:
    """Return links to notebooks by their questions, each with those to its pictures."""
    notebooks, figures = index.find_figure_notebooks(), index.list_figures()
    links = []
    for name in names:
        drawn = [
            f"[`{figure}`]({pictures}{name}/{figure}.svg)"
            if is_drawn(name, figure)
            else f"`{figure}` (not drawn)"
            for figure in shown
            if figures[figure].notebook == name
        ]
        question = index.read_question(notebooks[name])
        links.append(f"[{question}]({folder}{name}.ipynb) {', '.join(drawn)}".strip())
    return "<br>".join(links)
