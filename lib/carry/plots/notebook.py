"""What the cells of a figure notebook share: its result tables, and how it shows a figure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import Markdown, display
from matplotlib.figure import Figure
from seaborn.axisgrid import Grid

from carry import departures, results
from carry.config import paths, profiles
from carry.plots import style

# Profiles in the order in which a reader would run them.
TRAINED_BY = ("cpu", "full", "baselines", "long", "gpu", "paper", "tuning")


class Notebook:
    """The results that a notebook draws, and the folder in which it saves its figures.

    Fields:
        profile: the profile that draws.
        tables: the result tables of the profile and of those that stand in for it.
        folder: where figures are saved.
        sources: the rows that were read so far, and the profile whose results each has.
        more: those of which another profile has further seeds, and that profile.
    """

    def __init__(self, name: str, profile: str) -> None:
        """Take the name of a notebook, with its folder, and the profile that draws."""
        self.profile = "full" if profile == "notebook" else profile
        self.tables = results.open_results(self.profile)
        self.folder = paths.figures_folder(profile, name)
        self.sources: dict[str, str] = {}
        self.more: dict[str, str] = {}

    def read(
        self,
        table: str,
        *rows: str,
        names: Mapping[str, str] | None = None,
        profile: str | None = None,
    ) -> pd.DataFrame:
        """Return some rows of a table, in the order given, with their labels.

        Rows without results are left out; a printed line names them. All rows are read if none is
        given.

        Args:
            table: the name of a result table, such as `cells`.
            rows: the names of rows in params.yaml.
            names: labels of rows, if other than their usual ones.
            profile: whose results are read (default: the profile that draws, and its `others`). The
                next figures, and the departures, are then about these.
        """
        tables = results.open_results(profile) if profile else self.tables
        selected = tables[table]
        rows = rows or tuple(results.list_rows(selected))
        selected = results.select_rows(selected, list(rows)).reset_index(drop=True)
        missing = [row for row in rows if row not in set(selected["row"])]
        if missing:
            print(describe_missing(missing))
        if "profile" in selected:
            origins = selected.drop_duplicates(["row", "profile"])
            again = origins["row"].duplicated()
            self.sources.update(origins[~again].set_index("row")["profile"])
            self.more.update(origins[again].set_index("row")["profile"])
        return results.add_labels(selected, tables["cells"], names)

    def show(
        self,
        figure: Figure | Grid | None,
        name: str,
        table: pd.DataFrame,
        title: str,
        caption: str,
        answers: Sequence[str] = (),
    ) -> None:
        """Show a figure with its caption, and save both with the figure's numbers.

        It writes NAME.svg, NAME.csv and NAME.json. Without a figure, it does nothing.

        Args:
            figure: a figure of matplotlib, or a grid of seaborn.
            name: of the files, without an ending.
            table: the numbers that are drawn; all rows of a heatmap, say.
            title: a few words.
            caption: all that a reader needs to understand the figure, in whole sentences, on one
                line or more.
            answers: the numbers of figures, tables and theorems of the paper that it answers, as in
                claims/items.yaml: "Fig. 2".
        """
        if figure is None:
            return
        drawn = results.list_rows(table) if "row" in table else []
        sources = {row: self.sources[row] for row in drawn if row in self.sources}
        more = {row: self.more[row] for row in drawn if row in self.more}
        caption = " ".join(caption.split()) + describe_origins(sources, self.profile, more)
        figure = figure.figure if isinstance(figure, Grid) else figure
        style.save_figure(figure, name, table, self.folder)
        record = {"title": title, "caption": caption, "answers": list(answers), "rows": sources}
        _write_json(self.folder / f"{name}.json", record)
        display(figure, Markdown(caption))
        plt.close(figure)

    def tabulate_departures(self) -> pd.DataFrame:
        """Return how the rows that were read depart from the paper (`carry.departures`)."""
        return departures.tabulate_departures(self.sources)


def open_notebook(name: str, profile: str) -> Notebook:
    """Set the style of figures, and return what the cells of a figure notebook share.

    Args:
        name: the name of the notebook, with its folder: "mcleish2024/how_far".
        profile: the profile that draws; "notebook" draws the committed results of `full`.

    Raises:
        SettingsError: for an unknown profile, and for one without results.
    """
    style.use_style()
    pd.set_option("display.width", 130, "display.max_columns", 20, "display.max_colwidth", None)
    np.random.seed(0)  # from which seaborn draws the jitter of dots: the same files always
    return Notebook(name, profile)


def describe_missing(rows: Iterable[str]) -> str:
    """Return a line that names rows without results, and the commands that train them.

    >>> describe_missing(["addition_abacus_injected", "mine"])
    'Without results: addition_abacus_injected (make repro PROFILE=gpu); mine (no profile has it).'
    """
    groups: dict[str, list[str]] = {}
    for row in rows:
        has_row = (name for name in TRAINED_BY if row in profiles.load_profile(name)["rows"])
        profile = next(has_row, "")
        remedy = f"make repro PROFILE={profile}" if profile else "no profile has it"
        groups.setdefault(remedy, []).append(row)
    parts = [f"{', '.join(names)} ({remedy})" for remedy, names in groups.items()]
    return f"Without results: {'; '.join(parts)}."


def describe_origins(
    sources: Mapping[str, str], profile: str, more: Mapping[str, str] | None = None
) -> str:
    """Return what a caption adds for rows, and `more` seeds, that the profile does not train.

    >>> describe_origins({"a": "full", "b": "cpu"}, "cpu", {"b": "long"})
    ' From the committed results of `full`: a; of `long`: further seeds of b.'
    >>> describe_origins({"a": "cpu"}, "cpu")
    ''
    """
    groups: dict[str, list[str]] = {}
    for row, source in sources.items():
        if source != profile:
            groups.setdefault(source, []).append(row)
    for row, source in (more or {}).items():
        groups.setdefault(source, []).append(f"further seeds of {row}")
    parts = [f"of `{source}`: {', '.join(rows)}" for source, rows in groups.items()]
    return f" From the committed results {'; '.join(parts)}." if parts else ""


def _write_json(path: Path, content: Any) -> None:
    with paths.write_atomically(path) as draft:
        draft.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
