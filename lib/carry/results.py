"""Result tables: read them, select rows of them, and score them by seed.

Tables are tidy: a line for each row, seed and size of problem. `score_regions`, `score_lengths` and
`score_pairs` return what most figures draw.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from carry.certificates.files import read_certificate
from carry.config import paths
from carry.config.settings import check_known, list_modules
from carry.data.tables import read_parquet
from carry.evaluation.intervals import pool_cells, seed_interval, share_interval
from carry.evaluation.regions import (
    REGIONS,
    add_region,
    add_unseen_regions,
    score_worst_trained_size,
)
from carry.experiments import load_rows
from carry.experiments.run import Run
from carry.labels import describe_row, find_run
from carry.models.identity import list_settings, restore_run

# Packages whose modules declare the columns of their result tables (COLUMNS, by table).
PACKAGES = (
    "carry.training",
    "carry.evaluation",
    "carry.certificates",
    "carry.interpretability",
    "carry.analyses",
    "carry.runs",
)

# The row under which a notebook adds the results of a constructed model to a table.
CONSTRUCTION = "construction"

CERTIFICATE_COLUMNS = [
    "row", "seed", "trained", "parameters", "verdict", "contexts", "wrong", "open",
    "least_lead", "largest_error", "least_slack", "coq",
]  # fmt: skip
# Of a row with results at several scales, figures show those of the first of these.
SCALES = ("laptop", "long", "gpu", "paper")


class ResultTables(dict[str, pd.DataFrame]):
    """Result tables by name; each is read when it is first used, and empty if no row wrote it.

    >>> tables = ResultTables(create_empty_table, cells=pd.DataFrame({"row": ["a", "b"]}))
    >>> len(tables["cells"]), len(tables["lens"])
    (2, 0)
    """

    def __init__(self, read: Callable[[str], pd.DataFrame], **tables: pd.DataFrame) -> None:
        """Take the function that returns the table of a name, and other tables in place of its."""
        super().__init__(tables)
        self._read = read

    def __missing__(self, name: str) -> pd.DataFrame:
        return self.setdefault(name, self._read(name))


def open_results(scale: str = SCALES[0]) -> ResultTables:
    """Return the result tables of all rows."""
    return ResultTables(lambda name: read_table(name, scale))


@cache
def find_declared_columns() -> dict[str, list[str]]:
    """Return the columns of each table that a module declares, by table.

    >>> find_declared_columns()["cascades"][:2]
    ['cascade', 'n']
    """
    declared = {}
    for package in PACKAGES:
        names = [package, *(f"{package}.{name}" for name in list_modules(package))]
        for module in map(importlib.import_module, names):
            for table, columns in getattr(module, "COLUMNS", {}).items():
                declared[table] = list(columns)
    return declared


def create_empty_table(name: str) -> pd.DataFrame:
    """Return a table without rows, with the columns that a module declares for it."""
    declared = find_declared_columns()
    check_known(name, declared, "results")
    return pd.DataFrame(columns=declared[name])


def read_table(name: str, scale: str = SCALES[0]) -> pd.DataFrame:
    """Return one table, such as `cells`, of all rows that have it, in the order of experiments.

    A row has the results of one scale: the given one if it has them, else the first of `SCALES`. A
    damaged file, and a name that no module declares, are refused.
    """
    parts = [
        read_parquet(path, f"results.{path.parent.name}", "it as git has it")
        for folder in (paths.results_folder(""), paths.analyses_folder(""))
        for path in sorted(folder.glob(f"*/{name}.parquet"))
    ]
    parts = [part for part in parts if not part.empty] or parts[:1]
    if not parts:
        return create_empty_table(name)
    table = choose_scales(pd.concat(parts, ignore_index=True), [scale, *SCALES])
    order = [*load_rows(), *table["row"].unique()]
    return select_rows(table, list(dict.fromkeys(order))).reset_index(drop=True)


def choose_scales(table: pd.DataFrame, scales: Sequence[str]) -> pd.DataFrame:
    """Return the results of each row at the first of the scales at which it has any.

    >>> table = pd.DataFrame({"row": ["a", "a", "b"], "scale": ["gpu", "laptop", "long"]})
    >>> choose_scales(table, ["laptop", "long", "gpu"])["scale"].tolist()
    ['laptop', 'long']
    """
    # From the last to the first: a scale that occurs twice has the rank of its first place.
    ranks = table["scale"].map({scale: rank for rank, scale in enumerate(scales[::-1])})
    return table[ranks == ranks.groupby(table["row"]).transform("max")]


@cache
def read_runs() -> dict[tuple[str, str], Run]:
    """Return the settings of all results, by row and scale: those of their last seed.

    >>> read_runs()["addition_relative", "laptop"].training.digits
    10
    """
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted(paths.results_folder("").glob("*/runs.parquet")):
        table = read_parquet(path, f"results.{path.parent.name}", "it as git has it")
        for line in table.to_dict("records"):
            lines[line["row"], line["scale"]] = line
    return {place: restore_run(line) for place, line in lines.items()}


def find_runs(table: pd.DataFrame) -> dict[str, Run]:
    """Return the settings with which the results of each row of a table were made.

    Rows of constructed models have none.
    """
    if "scale" not in table:
        return {}
    pairs = table[["row", "scale"]].drop_duplicates().itertuples(index=False, name=None)
    return {row: read_runs()[row, scale] for row, scale in pairs if (row, scale) in read_runs()}


def choose_run(row: str) -> Run | None:
    """Return the settings with which a row's results were made; else those of the experiments.

    >>> choose_run("addition_relative").training.digits, choose_run("mine")
    (10, None)
    """
    runs = read_runs()
    scale = next((scale for scale in SCALES if (row, scale) in runs), None)
    return runs[row, scale] if scale else find_run(row)


def add_settings(table: pd.DataFrame, **places: str) -> pd.DataFrame:
    """Return a table with columns for settings with which the results of its rows were made.

    `places` has the place of a setting by the name of its column. A setting that a row does not
    have is missing, and one that it does not state has its default.

    >>> table = pd.DataFrame({"row": ["addition_relative"], "scale": "laptop"})
    >>> add_settings(table, ids="positions.0.ids", often="model.recurrences").values.tolist()
    [['addition_relative', 'laptop', 'abacus', 1]]
    """
    settings = {
        (row, place): value
        for row, run in find_runs(table).items()
        for place, value, _ in list_settings(run)
    }
    for name, place in places.items():
        table = table.assign(**{name: [settings.get((row, place)) for row in table["row"]]})
    return table


def read_certificates() -> pd.DataFrame:
    """Return the certificates, a line for each seed; `coq` says whether Coq has checked a proof."""
    files = filter(Path.exists, map(paths.certificate_file, load_rows()))
    found = [{**of, **seed} for of in map(read_certificate, files) for seed in of["seeds"]]
    proved = {model["weights"] for model in read_proofs()["models"]}
    found = [{**seed, "coq": seed["weights"] in proved} for seed in found]
    return pd.DataFrame(found).reindex(columns=CERTIFICATE_COLUMNS)


def read_proofs() -> dict[str, Any]:
    """Return what Coq has checked by `make prove-all`: `models`, and `theorems` of each file."""
    if not paths.PROOFS.exists():
        return {"models": [], "theorems": {}}
    return json.loads(paths.PROOFS.read_text(encoding="utf-8"))


def select_rows(table: pd.DataFrame, rows: list[str]) -> pd.DataFrame:
    """Return some rows of a table, in the order given; a table without a column `row` as it is.

    >>> select_rows(pd.DataFrame({"row": ["a", "b", "c"]}), ["c", "a"])["row"].tolist()
    ['c', 'a']
    """
    if "row" not in table:
        return table
    selected = table[table["row"].isin(rows)]
    ranks = pd.Categorical(selected["row"], categories=rows).codes  # faster than sorting text
    return selected.iloc[ranks.argsort(kind="stable")]


def list_rows(table: pd.DataFrame) -> list[str]:
    """Return the rows of a table in their order."""
    return list(table["row"].unique())


def average_seeds(table: pd.DataFrame, keys: list[str], hits: str = "exact") -> pd.DataFrame:
    """Return the mean accuracy of the seeds with its t interval (95%), within [0, 1].

    The ends of a single seed are missing. `n` and `hits` are sums over the `seeds`.

    >>> three = pd.DataFrame({"i": [1, 1, 2], "seed": [0, 1, 0], "n": 40, "exact": [37, 38, 20]})
    >>> average_seeds(three, ["i"]).round(2).values.tolist()
    [[1.0, 0.94, 80.0, 75.0, 2.0, 0.78, 1.0], [2.0, 0.5, 40.0, 20.0, 1.0, nan, nan]]
    """
    groups = pool_cells(table, [*keys, "seed"], hits).groupby(keys, sort=False)
    counts = {name: (name, "sum") for name in ("n", hits)}
    averaged = groups.agg(accuracy=("n", "size"), **counts, seeds=("seed", "nunique")).reset_index()
    means = [_average(*accuracies.dropna()) for _, accuracies in groups["accuracy"]]
    averaged[["accuracy", "low", "high"]] = np.reshape(means, (-1, 3))
    return averaged


@cache
def _average(*accuracies: float) -> np.ndarray:
    """Return the mean and both ends of its interval; many cells have the same accuracies."""
    mean = np.mean(accuracies) if accuracies else np.nan
    ends = share_interval(accuracies) if len(accuracies) > 1 else (np.nan, np.nan)
    return np.array([mean, *ends])


def find_unlearned(cells: pd.DataFrame) -> set[str]:
    """Return the rows of which half of the seeds, or more, have not learned their trained lengths.

    The papers' start of ids counts, and rows without trained lengths are left out.

    >>> cells = pd.DataFrame({"row": list("aab"), "start": "1", "seed": [0, 1, 0], "set": "grid",
    ...                       "i": 5, "j": 5, "trained": [5, 5, 4], "n": 99, "exact": [99, 80, 9]})
    >>> find_unlearned(cells)
    {'a'}
    """
    cells = add_region(cells[cells["start"] == "1"])
    cells = add_unseen_regions(cells, find_trained_lengths(cells))
    shares = score_worst_trained_size(cells).groupby("row")["learned"].mean()
    return {*shares[shares <= 0.5].index}


def find_training_lengths(table: pd.DataFrame) -> dict[str, int]:
    """Return the longest length in training of each row of a table."""
    return table.groupby("row", sort=False)["trained"].first().to_dict()


def find_trained_lengths(table: pd.DataFrame) -> dict[str, list[int]]:
    """Return the trained lengths of rows whose data set has some lengths only (ibrahimli2024).

    >>> rows = ["addition_equal_learned_gap", "addition_abacus"]
    >>> find_trained_lengths(pd.DataFrame({"row": rows, "scale": "laptop"}))
    {'addition_equal_learned_gap': [1, 2, 3, 4, 7]}
    """
    runs = find_runs(table)
    return {row: run.trained_lengths() for row, run in runs.items() if run.data_set is not None}


def add_length_regions(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of equal lengths with the column `region` of each number of `digits`.

    A region is in or out of distribution; of `find_trained_lengths`, "interpolation" between the
    trained lengths, and "extrapolation" beyond them.

    >>> table = pd.DataFrame({"row": "addition_equal_learned_gap", "scale": "laptop", "trained": 7,
    ...                       "digits": [4, 5, 8]})
    >>> add_length_regions(table)["region"].tolist()
    ['in distribution', 'interpolation', 'extrapolation']
    """
    sizes = table.assign(set="equal", i=table["digits"], j=table["digits"])
    regions = add_unseen_regions(add_region(sizes), find_trained_lengths(table))["region"]
    return table.assign(region=regions)


def format_lengths(lengths: Iterable[int]) -> str:
    """Return lengths in words.

    >>> format_lengths([1, 2, 3]), format_lengths([1, 2, 3, 4, 6]), format_lengths([1, 3])
    ('1 to 3', '1 to 4 and 6', '1 and 3')
    """
    spans: list[list[int]] = []
    for length in sorted(lengths):
        if spans and length == spans[-1][-1] + 1:
            spans[-1].append(length)
        else:
            spans.append([length])
    words = [
        f"{span[0]} to {span[-1]}" if len(span) > 2 else ", ".join(map(str, span)) for span in spans
    ]
    return " and ".join(", ".join(words).rsplit(", ", 1))


def find_grid_sizes(cells: pd.DataFrame) -> dict[str, int]:
    """Return the largest size in the grid of each row."""
    grid = cells[cells["set"] == "grid"]
    return grid.groupby("row", sort=False)["i"].max().to_dict()


def add_labels(
    table: pd.DataFrame, cells: pd.DataFrame, names: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return a table with the columns `label`, `trained` and `learned` of each row.

    Rows that have not learned their trained lengths (`find_unlearned`) say so in their label. Where
    trained lengths differ, the label has them; `names` has labels of rows, if other than their
    usual ones. A table with a column `learned` of its own, the learned accuracy of heads, keeps it.

    >>> cells = pd.DataFrame({"row": ["addition_nope", "addition_fire"], "start": "1", "seed": 0,
    ...                       "set": "grid", "i": 5, "j": 5, "trained": 5, "n": 9, "exact": [9, 0]})
    >>> add_labels(cells[["row"]], cells)["label"].tolist()
    ['NoPE', 'FIRE, not learned']
    """
    rows, runs = list_rows(table), find_runs(cells)
    cells = select_rows(cells, rows)
    trained, unlearned = find_training_lengths(cells), find_unlearned(cells)
    lengths = {row: f"to {longest}" for row, longest in trained.items()}
    lengths |= {row: format_lengths(part) for row, part in find_trained_lengths(cells).items()}
    differ = len({lengths[row] for row in rows if row in lengths}) > 1
    labels = {
        row: ((names or {}).get(row) or describe_row(row, runs.get(row)))
        + (f" ({lengths[row]})" if differ and row in lengths else "")
        + (", not learned" if row in unlearned else "")
        for row in rows
    }
    row = table["row"]
    return table.assign(
        label=row.map(labels).astype(str),  # of an empty table too
        trained=pd.to_numeric(row.map(trained)),
        learned=table.get("learned", ~row.isin(unlearned)),  # heads have their learned accuracy
    )


def score_regions(cells: pd.DataFrame, hits: str = "exact", start: str = "1") -> pd.DataFrame:
    """Return the accuracy of each seed by region: in and out of distribution, and far lengths.

    The first two regions are parts of the grid. Equal lengths beyond it are split at the longest
    length of each row, so that a row has a region completely or not at all; each far cell is a
    region. Regions are in order. `hits` counts correct answers, from the papers' start of ids
    unless another is given.
    """
    cells = cells[(cells["start"] == start) & cells[hits].notna()]
    cells = add_region(cells.astype({hits: int}))
    end = pd.to_numeric(cells["row"].map(find_grid_sizes(cells)))
    cells = cells[(cells["set"] != "equal") | (cells["i"] > end)]
    order = (cells["region"] != REGIONS[0]).astype(int)
    in_grid, equal = cells["set"] == "grid", cells["set"] == "equal"
    names, places = _name_far_cells(cells), cells["i"] * 10**6 + cells["j"]
    first = 0
    for last in sorted(cells[equal].groupby("row")["i"].max().unique()):
        part = equal & (cells["i"] > first) & (cells["i"] <= last)
        first = last
        shortest = cells.loc[part, "i"].min()
        names = names.mask(part, f"{shortest} to {last} digits")
        places = places.mask(part, shortest * 10**6)
    cells = cells.assign(
        order=order.where(in_grid, places), region=cells["region"].where(in_grid, names)
    )
    scores = pool_cells(cells, [*_find_keys(cells), "order", "region"], hits)
    return scores.sort_values("order", kind="stable").drop(columns="order").reset_index(drop=True)


def score_lengths(
    cells: pd.DataFrame, far: bool = False, starts: Collection[str] = ("1",)
) -> pd.DataFrame:
    """Return the accuracy of each seed on operands of equal length, in the column `digits`.

    The column `region` is that of `add_length_regions`. Lengths beyond the grid are included if
    `far`; `starts` of ids are "1", as in the papers, or "all".
    """
    equal = cells["set"].isin(["equal", "far"] if far else ["equal"]) & (cells["i"] == cells["j"])
    scores = cells[equal & cells["start"].isin(starts)].rename(columns={"i": "digits"})
    columns = [*_find_keys(cells), "digits", "n", "exact", "accuracy", "low", "high", "region"]
    return add_length_regions(scores)[columns].reset_index(drop=True)


def score_pairs(cells: pd.DataFrame, start: str = "1") -> pd.DataFrame:
    """Return accuracy for every pair of sizes `i` and `j` of the grid, by row.

    It has the `accuracy` as mean over seeds with its t interval, and `median`, `lowest`, `highest`
    and `spread` of the seeds.

    >>> two = pd.DataFrame({"row": "a", "start": "1", "trained": 5, "i": 1, "j": 2, "set": "grid",
    ...                     "n": 10, "seed": range(3), "exact": [4, 9, 8]})
    >>> score_pairs(two)[["accuracy", "median", "lowest"]].round(2).values.tolist()
    [[0.7, 0.8, 0.4]]
    """
    grid = cells[(cells["set"] == "grid") & (cells["start"] == start)]
    keys = [key for key in _find_keys(cells) if key != "seed"] + ["i", "j"]
    seeds = pool_cells(grid, [*keys, "seed"]).groupby(keys)["accuracy"]
    ranges = seeds.agg(median="median", lowest="min", highest="max").reset_index()
    ranges["spread"] = ranges["highest"] - ranges["lowest"]
    return average_seeds(grid, keys).merge(ranges, on=keys, validate="one_to_one")


def _find_keys(cells: pd.DataFrame) -> list[str]:
    """Return the columns that tell the models of a table of cells apart."""
    keys = ["row", "label", "trained", "learned", "start", "seed"]
    return [key for key in keys if key in cells]


def summarise_seeds(
    table: pd.DataFrame, by: Sequence[str], value: str = "accuracy", digits: int = 3
) -> pd.DataFrame:
    """Return median, mean and t interval (95%) of the seeds, and how many there are.

    The mean over problems of each seed comes first; groups differ in the columns `by`. `n` is the
    number of problems of all seeds, where the table has it.

    >>> three = pd.DataFrame({"label": "a", "seed": range(3), "accuracy": [0.9, 0.95, 1], "n": 50})
    >>> summarise_seeds(three, ["label"]).loc["a"].tolist()
    [0.95, 0.95, 0.826, 1.0, 3.0, 150.0]
    """
    by, lines = list(by), []
    for group, part in table.groupby(by, sort=False, observed=True):
        seeds = part.groupby("seed")[value].mean().dropna()
        interval = share_interval if value == "accuracy" else seed_interval
        low, high = interval(seeds) if len(seeds) > 1 else (np.nan, np.nan)
        counts = {"n": part["n"].sum()} if "n" in part else {}
        line = {"median": seeds.median(), "mean": seeds.mean(), "low": low, "high": high}
        lines.append({**dict(zip(by, group, strict=True)), **line, "seeds": len(seeds), **counts})
    return pd.DataFrame(lines).set_index(by).round(digits) if lines else pd.DataFrame(columns=by)


def _name_far_cells(cells: pd.DataFrame) -> pd.Series:
    """Return the size of each far cell in words."""
    i, j = (cells[size].map("{:,}".format).astype(object) for size in "ij")
    if {run.task["name"] for run in find_runs(cells).values()} == {"sorting"}:
        return i + " numbers\nof " + j + " digits"
    return (i + " digits").where(i == j, i + " x " + j + " digits")
