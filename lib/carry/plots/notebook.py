"""What the cells of a figure notebook share: its result tables, and how it shows a figure."""

from __future__ import annotations

import io
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython import get_ipython
from IPython.display import Markdown, display
from matplotlib.figure import Figure
from seaborn.axisgrid import Grid

from carry import departures, results
from carry.claims.ledger_page import tabulate_claims
from carry.config import paths
from carry.experiments import load_rows
from carry.experiments.run import Run
from carry.plots import index, style

UNKNOWN = "no experiment has it"


class Notebook:
    """The results that a notebook draws, and the folder in which it saves its figures."""

    def __init__(self, name: str) -> None:
        """Take the name of a notebook, with its folder."""
        self.name = name
        self.tables = results.open_results()
        self.folder = paths.writable(paths.figures_folder(name))
        self.runs: dict[str, Run] = {}  # of the results that were read so far, by row
        self.shown: list[str] = []  # the names of figures, in order
        self.answers: set[str] = set()  # the items of its work that these answer

    def read(
        self,
        table: str,
        *rows: str,
        names: Mapping[str, str] | None = None,
        scale: str = "laptop",
    ) -> pd.DataFrame:
        """Return some rows of a table, or all, in the order given, with their labels.

        Printed lines name rows without results, and rows with results of earlier settings. `names`
        has labels of rows, if other than their usual ones. Of rows with results at several scales,
        those of `scale` are read; the next figures, and the departures, are then about these.
        """
        tables = self.tables if scale == "laptop" else results.open_results(scale)
        selected = tables[table]
        rows = rows or tuple(results.list_rows(selected))
        selected = results.select_rows(selected, list(rows)).reset_index(drop=True)
        missing = [row for row in rows if row not in set(selected["row"])]
        if missing:
            print(_describe_missing(missing))
        runs = results.find_runs(selected)
        if changed := departures.list_changed(runs):
            print(f"Results of earlier settings: {', '.join(changed)}.")
        self.runs.update(runs)
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
        """Show a figure with its caption and origin, and save it, if `carry figures` runs this.

        It then writes NAME.svg, NAME.parquet with the figure's numbers, and NAME.json, which
        `carry.plots.index` lists. Without a figure, it writes NAME.json alone: rows without results
        have a figure that is not drawn. In JupyterLab, and in a copy of a notebook, it saves
        nothing, so that a trial does not replace a figure of the project.

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
        drawn = results.list_rows(table) if "row" in table else []
        scales = {row: self.runs[row].scale for row in drawn if row in self.runs}
        caption = " ".join(caption.split()) + _describe_scales(scales)
        self.shown = list(dict.fromkeys([*self.shown, name]))
        self.answers.update(answers)
        entry = {"notebook": self.name, "number": self.shown.index(name) + 1, "name": name}
        entry |= {"title": " ".join(title.split()), "caption": caption, "answers": list(answers)}
        is_saved = os.environ.get("CARRY_NOTEBOOK") == self.name  # see `carry.runs.notebooks`
        if is_saved:
            text = json.dumps(entry, indent=2, ensure_ascii=False)
            paths.write_file(self.folder / f"{name}.json", text + "\n")
        if figure is None:
            return
        figure = figure.figure if isinstance(figure, Grid) else figure
        if is_saved:
            style.save_figure(figure, name, table, self.folder)
        else:  # laid out alike, so that the picture below has the same bytes
            figure.savefig(io.BytesIO(), format="svg", bbox_inches="tight")
        # Not the commit itself, or the outputs of a notebook would change with each.
        svg = paths.figures_folder(self.name).relative_to(paths.REPORTS.parent) / f"{name}.svg"
        command = index.name_command(self.name)
        origin = f"`{command}` draws it; `git log -1 {svg.as_posix()}` has its commit."
        display(figure, Markdown(f"{caption}\n\n{origin}"), metadata={"figure": name})
        plt.close(figure)

    def tabulate_claims(self) -> Markdown:
        """Return what was seen of the claims that the notebook is about, as a table.

        These are the claims of its work about the items that its figures answer, and our own that
        name the notebook as their section. `reports/claims.md` has their tests.
        """
        work, _, question = self.name.partition("/")
        records = json.loads((paths.REPORTS / "claims.json").read_text(encoding="utf-8"))
        ours = [
            record
            for record in records
            if (record["paper"] == work and {*record["items"]} & self.answers)
            or record["section"] == question
        ]
        return Markdown(tabulate_claims(ours))

    def tabulate_departures(self) -> pd.DataFrame:
        """Return how the rows that were read depart from the paper (`carry.departures`)."""
        return departures.tabulate_departures(self.runs)


def open_notebook(name: str) -> Notebook:
    """Set the style of figures, and return what the cells of a figure notebook share.

    A cell shows no figure by itself, but by `Notebook.show` or `plt.show`. Neither a matplotlibrc
    nor a backend of the user's (MPLBACKEND) counts: pictures are part of the notebook.

    Args:
        name: the name of the notebook, with its folder: "mcleish2024/how_far".
    """
    if shell := get_ipython():
        shell.run_line_magic("matplotlib", "inline")
    style.set_style()
    plt.switch_backend(matplotlib.get_backend())  # else its first figure makes it interactive
    plt.ioff()
    pd.set_option("display.width", 130, "display.max_columns", 20, "display.max_colwidth", None)
    np.random.seed(0)  # from which seaborn draws the jitter of dots: the same files always
    return Notebook(name)


def _describe_missing(rows: Iterable[str]) -> str:
    """Return a line that names rows without results, and the scale at which each can be trained."""
    known, groups = load_rows(), defaultdict(list)
    for row in rows:
        groups[f"scale {next(iter(known[row].scales))}" if row in known else UNKNOWN].append(row)
    parts = [f"{', '.join(names)} ({remedy})" for remedy, names in groups.items()]
    return f"Without results: {'; '.join(parts)}."


def _describe_scales(scales: Mapping[str, str]) -> str:
    """Return what a caption adds for rows whose results have another scale than `laptop`."""
    texts = []
    for scale in dict.fromkeys(of for of in scales.values() if of != "laptop"):
        rows = ", ".join(row for row, of in scales.items() if of == scale)
        texts.append(f" Results of the scale `{scale}`: {rows}.")
    return "".join(texts)
