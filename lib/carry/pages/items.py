"""What the works number (figures, tables, theorems, experiments), and what answers it here.

`claims/items.yaml` has a list of items for each work. Our figures say themselves which items they
answer (`carry.plots.index`), and so do claims (`items`). Together they are the index that leads
from a number of a work, such as "Fig. 5", to our figures, notebooks and claims.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import Field

from carry.claims.claim_settings import ITEMS, read_items
from carry.claims.ledger_page import count_seen, describe_number, format_table
from carry.config import paths
from carry.config.settings import Settings, SettingsError, check_known, suggest_name
from carry.plots import index

# What was seen of a claim whose contrast can be seen.
VISIBLE = ("same", "consistent", "counted", "no effect", "opposite")
COLUMNS = ["work", "item", "section", "title", "stated", "figures", "notebooks", "reason", "scale"]
Text = Annotated[str, Field(min_length=1)]


class Item(Settings):
    """A numbered item of a work ("Fig. 2"), the section that discusses it, and what it shows.

    `stated` is what the text states there, mainly numbers. `notebook` prints it as a table,
    `reason` says what is missing here, and `scale` the sizes of our models against the work's.
    """

    item: Text
    section: Text
    title: Text
    stated: str = ""
    notebook: str = ""
    reason: str = ""
    scale: str = ""


def load_items(path: Path = ITEMS, root: Path | None = None) -> pd.DataFrame:
    """Return the checked items of all works, in the works' order, as a table.

    Its columns are the fields of `Item`, with the `figures` of the project at `root` (default: this
    one) that answer it, and the `notebooks` that show these figures, or print it.

    Raises:
        SettingsError: for an unknown work, key or notebook, an item that occurs twice, one without
            figures, notebook and reason, and for a figure that answers an unknown item.

    >>> items = load_items().set_index(["work", "item"])
    >>> items.loc[("mcleish2024", "Fig. 7"), "figures"]
    ['loops_without_abacus']
    """
    items: dict[tuple[str, str], Item] = {}
    notebooks, rows = index.find_figure_notebooks(root), []
    works = {name.partition("/")[0] for name in notebooks if "/" in name}
    for work, listed in read_items(path).items():
        check_known(work, works, "items")
        for number, values in enumerate(listed):
            item = Item.parse(values, f"items.{work}.{values.get('item', number)}")
            if (work, item.item) in items:
                raise SettingsError(f"items.{work}: {item.item!r} occurs twice; expected once")
            items[work, item.item] = item
    answers: dict[tuple[str, str], list[index.FigureEntry]] = {key: [] for key in items}
    for figure in index.list_figures(root).values():
        for answer in figure.answers:
            if answer not in items:
                name, known = " ".join(answer), map(" ".join, items)
                raise SettingsError(
                    f"notebooks/{figure.notebook}: {figure.name}.answers: unknown item {name!r}, "
                    f"{suggest_name(name, known)}"
                )
            answers[answer].append(figure)
    for (work, name), item in items.items():
        figures, place = answers[work, name], f"items.{work}.{name}"
        if not (figures or item.notebook or item.reason):
            raise SettingsError(
                f"{place}: no figure answers it; expected a figure, notebook or reason"
            )
        if item.notebook and item.notebook not in notebooks:
            hint = suggest_name(item.notebook, notebooks)
            raise SettingsError(f"{place}.notebook: unknown notebook {item.notebook!r}, {hint}")
        homes = dict.fromkeys([figure.notebook for figure in figures] + [item.notebook])
        places = {"notebooks": [*filter(None, homes)], "figures": [one.name for one in figures]}
        rows.append({**dict(item), "work": work, **places})
    return pd.DataFrame(rows, columns=COLUMNS)


def add_claims(items: pd.DataFrame, records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return items with the ledger's records of their claims as the column `claims`.

    >>> record = {"id": "a", "paper": "cho2025", "items": ["Fig. 6"], "seen": "same"}
    >>> added = add_claims(load_items(), [record])
    >>> added.loc[added["claims"].map(len) > 0, "item"].tolist()
    ['Fig. 6']
    """
    claims: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        for item in record["items"]:
            claims[record["paper"], item].append(record)
    return items.assign(claims=[claims[one.work, one.item] for one in items.itertuples()])


def _is_drawn(notebook: str, figure: str) -> bool:
    return (paths.figures_folder(notebook) / f"{figure}.svg").exists()


def classify_items(items: pd.DataFrame) -> list[str]:
    """Return for each item how it is answered here; items have the column `claims`.

    `covered`: its contrast was measured where it can be seen, or it states none and is shown.
    `reduced`: it is shown, but its contrast cannot be seen at our sizes. `not shown`: neither.

    >>> items = add_claims(load_items(), []).set_index("item")
    >>> classify_items(items[items["work"] == "mcleish2024"].loc[["Fig. 1", "Table 5"]])
    ['covered', 'not shown']
    """
    figures, classes = index.list_figures(), []
    for item in items.itertuples():
        homes = {name: figures[name].notebook for name in item.figures}
        is_drawn = any(_is_drawn(notebook, name) for name, notebook in homes.items())
        is_shown = is_drawn or not {*item.notebooks} <= {*homes.values()}
        is_seen = any(of["seen"] in VISIBLE and not of["edge"] for of in item.claims)
        if is_seen or (is_shown and not item.claims):
            classes.append("covered")
        else:
            classes.append("reduced" if is_shown else "not shown")
    return classes


def _describe_first(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the first number of claims with its basis; without any, why the first has none."""
    for record in records:
        if record["measured"] is not None:
            n, seeds = record["n"], record["seeds"]
            basis = [f"n = {n:,}"] * bool(n)
            basis += [f"{seeds} seed" if seeds == 1 else f"{seeds} seeds"] * bool(seeds)
            return f"{', '.join([describe_number(record), *basis])}: `{record['id']}`"
    return f"{records[0]['reason']}: `{records[0]['id']}`" if records else ""


def _fold_items(names: Sequence[str], titles: Sequence[str]) -> tuple[str, str]:
    """Return the name and the title of consecutive items that share a line: "Tables 5 to 7"."""
    if len(names) == 1:
        return names[0], titles[0]
    kind, _, number = names[0].partition(" ")
    kind += "" if kind.endswith(".") else "s"
    joint, start = ("and", "") if len(names) == 2 else ("to", "from ")
    name = f"{kind} {number} {joint} {names[-1].rpartition(' ')[2]}"
    return name, f'{start}"{titles[0]}" {joint} "{titles[-1]}"'


def render_index(items: pd.DataFrame) -> str:
    """Return items of one work as a Markdown table for `notebooks/index.ipynb`, with links.

    Consecutive items of one kind share a line if they differ in their titles alone. They have the
    column `claims` of `add_claims`.
    """
    columns = ["item", "stated there", "ours, of the first claim", "notebooks, figures", "claims"]
    lines = []
    for (_, *cells), group in groupby(items.itertuples(), key=_list_cells):
        names, titles = zip(*((item.item, item.title) for item in group), strict=True)
        name, title = _fold_items(names, titles)
        lines.append([cell.replace("|", r"\|") for cell in (f"**{name}** {title}", *cells)])
    return format_table([*columns, "scale; what is missing"], lines)


def _list_cells(item: Any) -> tuple[str, ...]:
    """Return the kind of an item, and the cells of its line without its name and title."""
    return (
        item.item.partition(" ")[0],
        item.stated,
        _describe_first(item.claims),
        _link_answers(item.notebooks, item.figures),
        count_seen(item.claims) if item.claims else "",
        "; ".join(filter(None, [item.scale, item.reason])),
    )


def _link_answers(names: Sequence[str], shown: Sequence[str]) -> str:
    """Return links to notebooks by their questions, each with those to its pictures."""
    notebooks, figures = index.find_figure_notebooks(), index.list_figures()
    links = []
    for name in names:
        drawn = [
            f"[`{figure}`](../reports/figures/{name}/{figure}.svg)"
            if _is_drawn(name, figure)
            else f"`{figure}` (not drawn)"
            for figure in shown
            if figures[figure].notebook == name
        ]
        question = index.read_question(notebooks[name])
        links.append(f"[{question}]({name}.ipynb) {', '.join(drawn)}".strip())
    return "<br>".join(links)
