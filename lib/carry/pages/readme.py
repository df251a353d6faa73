"""The numbers that prose quotes: written to numbers.json, and filled into FILES from there.

The text between two markers is replaced; everything else in the file stays as it is:

    <!-- numbers:footing -->...<!-- /numbers -->

A marker has an expression of jinja2, as the braces in the story of the site (`story.yaml`). Both
know these names:

    footing, headlines, certificates                 tables: six schemes on one footing, ...
    claims, errata                                   claims by what was seen, and what is wrong
                                                     in the works
    works.cho2025                                    a work's counts
    measured.hou2024_twice                           what a claim of our own measured
    number("addition_relative", "100 digits")        a number of a row, from its first start of ids
    basis("addition_relative", "100 digits")         its n and seeds
    trained("addition_relative")                     digits
    certificate("addition_relative", "contexts")     a number of the certificate of a row
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from carry import results
from carry.claims.claim_settings import OWN_CLAIMS
from carry.claims.errata import render_errata
from carry.claims.ledger_page import (
    count_seen,
    describe_number,
    format_table,
    summarise_claims,
)
from carry.claims.verdicts import summarise_seen
from carry.config import paths
from carry.config.templates import fill_template
from carry.evaluation.intervals import format_percent, pool_cells
from carry.evaluation.regions import add_region
from carry.labels import describe_row, name_certified_row
from carry.pages.headlines import summarise_headlines, tabulate_headlines
from carry.pages.items import add_claims, classify_items, load_items

# Six schemes on one footing.
FOOTING_ROWS = (
    "addition_nope", "addition_learned", "addition_rope", "addition_fire",
    "addition_abacus_short", "addition_coupled_short",
)  # fmt: skip

OWN_ROW = "addition_relative"
FILES = ("README.md", "RELATED_WORK.md")

TIMES = {1.6: "1.6 times as long", 2: "twice as long", 3: "three times as long"}  # as in training
LENGTHS = (100, 200, 1000)
FEW_CONTEXTS = 10_000  # of a certified row
METRICS = ("same", "opposite", "unclear", "not run")  # few, so that `dvc metrics` has few columns
COLUMNS = ["in distribution", *TIMES.values(), *(f"{length} digits" for length in LENGTHS)]
MARKER = re.compile(r"(<!-- numbers:(.+?) -->).*?(<!-- /numbers -->)", re.DOTALL)

Table = tuple[list[str], list[list[str]]]  # the names of its columns, and its lines


# ---- numbers.json --------------------------------------------------------------------------------


def write_numbers(folder: Path = paths.REPORTS) -> dict[str, Any]:
    """Write numbers.json next to the ledger of claims in a folder, and return its content.

    What was seen of the works' claims becomes a metric of DVC, in seen.json.
    """
    records = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    cells = results.read_table("cells")
    numbers = {
        "claims": summarise_claims(records),
        "works": describe_works(records),
        "measured": describe_own_claims(records),
        "rows": summarise_rows(cells),
        "headlines": summarise_headlines(cells, results.read_table("runs")),
        "certificates": summarise_certificates(results.read_certificates()),
    }
    seen = summarise_seen(record for record in records if record["paper"] != OWN_CLAIMS)
    metrics = {name: seen.get(name, 0) for name in METRICS}
    for name, content in {"numbers": numbers, "seen": metrics}.items():
        _write_json(folder / f"{name}.json", content)
    return numbers


def write_metrics(folder: Path = paths.REPORTS / "metrics") -> None:
    """Write the accuracy of the README's rows as metrics of DVC.

    There is a small file for each row, since `dvc metrics show` prints one line for each file.
    """
    for name, content in select_metrics(summarise_rows(results.read_table("cells"))).items():
        _write_json(folder / f"{name}.json", content)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    paths.write_file(path, json.dumps(content, indent=2) + "\n")


def summarise_rows(cells: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return accuracy by row, in distribution and at a few equal lengths beyond.

    Each number has the median over `seeds` as its `value`, the lowest and the highest seed as its
    `range`, and the number of problems `n`. They are from the row's first `start` of ids, 1 as in
    the papers; `starts` has the same numbers from each other start.
    """
    keys = ["row", "start", "column"]
    named = cells.assign(column=name_columns(cells)).dropna(subset="column")
    seeds = pool_cells(named, [*keys, "seed"]).groupby(keys)
    numbers = seeds["accuracy"].agg(["median", "min", "max", "size"]).round(6)
    found = {
        place: {"value": median, "range": [low, high], "n": n, "seeds": int(size)}
        for (place, median, low, high, size), n in zip(
            numbers.itertuples(name=None), seeds["n"].sum().tolist(), strict=True
        )
    }
    summaries = {}
    for row, part in cells.groupby("row", sort=False):
        starts = {}
        for start in part["start"].unique():
            known = [name for name in COLUMNS if (row, start, name) in found]
            starts[start] = {name: found[row, start, name] for name in known}
        first = next(iter(starts))
        of_first = starts.pop(first)
        trained = int(part["trained"].max())
        summaries[row] = {"start": first, "trained": trained, "starts": starts, **of_first}
    return summaries


def name_columns(cells: pd.DataFrame) -> pd.Series:
    """Return the column of each cell in the tables of accuracy; missing where it has none."""
    grid, equal = cells["set"] == "grid", cells["i"] == cells["j"]
    column = cells["i"].map("{} digits".format).where(cells["i"].isin(LENGTHS))
    times = (cells["i"] / cells["trained"]).map(TIMES)
    column = column.mask(times.notna(), times).where(equal & ~grid)
    inside = grid & (add_region(cells)["region"] == COLUMNS[0])
    return column.mask(inside, COLUMNS[0])


def summarise_certificates(certificates: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return for each certified row its sizes, its number of `seeds` and how many are `exact`.

    `coq` is the number of seeds of which Coq has checked a proof.
    """
    summaries = {}
    for row, seeds in certificates.groupby("row", sort=False):
        sizes = {name: int(seeds[name].max()) for name in ("trained", "parameters", "contexts")}
        exact = int((seeds["verdict"] == "exact").sum())
        proved = int(seeds["coq"].sum())
        summaries[row] = {**sizes, "exact": exact, "coq": proved, "seeds": len(seeds)}
    return summaries


def describe_works(records: list[dict[str, Any]]) -> dict[str, str]:
    """Return for each work how its numbered items are answered here, and what was seen.

    >>> record = {"paper": "carry", "seen": "same", "items": []}
    >>> describe_works([record, record])["carry"]
    'claims: same 2'
    """
    items, texts = add_claims(load_items(), records), {}
    for work in (*items["work"].unique(), OWN_CLAIMS):
        classes = classify_items(items[items["work"] == work])
        counts = {name: classes.count(name) for name in ("covered", "reduced", "not shown")}
        answered = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        seen = count_seen([record for record in records if record["paper"] == work])
        texts[work] = f"{answered}; claims: {seen}" if answered else f"claims: {seen}"
    return texts


def describe_own_claims(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return for each claim of our own what it measured, with its seeds, or why it did not."""
    return {
        record["id"]: record["reason"]
        if record["measured"] is None
        else f"{describe_number(record)}, {record['seeds']} seeds"
        for record in records
        if record["paper"] == OWN_CLAIMS
    }


def select_metrics(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the accuracy of the README's rows, for `dvc metrics`.

    Another start than a row's first has metrics of its own, with its name at the end.

    >>> starts = {"all": {"twice as long": {"value": 0.9}}}
    >>> row = {"start": "1", "trained": 10, "twice as long": {"value": 0.125}, "starts": starts}
    >>> select_metrics({"addition_relative": row})
    {'addition_relative': {'twice_as_long': 0.125}, 'addition_relative_all': {'twice_as_long': 0.9}}
    """
    metrics = {}
    for row, start, numbers in list_lines(rows, (*FOOTING_ROWS, OWN_ROW)):
        values = {name: numbers[name]["value"] for name in COLUMNS if name in numbers}
        key = row if start == rows[row]["start"] else f"{row}_{start}"
        metrics[key] = {name.replace(" ", "_"): value for name, value in values.items()}
    return metrics


def list_lines(
    rows: dict[str, dict[str, Any]], names: Collection[str] = FOOTING_ROWS
) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the row, the start and the numbers of each start of some rows, if it has any."""
    lines = []
    for row in filter(rows.get, names):
        starts = {rows[row]["start"]: rows[row], **rows[row]["starts"]}
        lines += [(row, start, numbers) for start, numbers in starts.items()
                  if not numbers.keys().isdisjoint(COLUMNS)]  # fmt: skip
    return lines


# ---- Tables and texts ----------------------------------------------------------------------------


def tabulate_accuracy(numbers: Mapping[str, Any]) -> Table:
    """Return the table of the six schemes: median over seeds and range."""
    lines = list_lines(numbers["rows"])
    columns = [name for name in COLUMNS if any(name in found for *_, found in lines)]
    cells = []
    for row, start, found in lines:
        trained = f"{numbers['rows'][row]['trained']} digits"
        label = describe_row(row, results.choose_run(row))
        label = label.removesuffix(f", {trained}")  # a column has it
        shares = [format_number(found[name]) if name in found else "" for name in columns]
        cells.append([label, trained, start, *shares])
    return ["scheme", "trained to", "start", *columns], cells


def tabulate_certificates(numbers: Mapping[str, Any], least: int = 0) -> Table:
    """Return the table of certified rows with at least some contexts."""
    lines = [
        [name_certified_row(row), *(f"{found[name]:,}" for name in
                                    ("trained", "parameters", "contexts")),
         _count_seeds(found), _count_seeds(found, "coq")]
        for row, found in numbers["certificates"].items() if found["contexts"] >= least
    ]  # fmt: skip
    sizes = ["trained to", "parameters", "contexts"]
    return ["exact at every length", *sizes, "two programs", "Coq"], lines


def _count_seeds(certificate: Mapping[str, Any], proved: str = "exact") -> str:
    return f"{certificate[proved]} of {certificate['seeds']} seeds"


def format_accuracy(numbers: Mapping[str, Any]) -> str:
    """Return the table of the six schemes as Markdown, with what its numbers are."""
    count = {found[name]["seeds"] for *_, found in list_lines(numbers["rows"])
             for name in COLUMNS if name in found}  # fmt: skip
    seeds = " or ".join(map(str, sorted(count)))
    note = f"Exact match: the median of {seeds} seeds, and the range where seeds differ."
    return f"{format_table(*tabulate_accuracy(numbers))}\n\n{note}"


def format_certificates(numbers: Mapping[str, Any]) -> str:
    """Return the table of certified rows as Markdown.

    Rows with fewer than `FEW_CONTEXTS` contexts share a sentence after it.
    """
    table = format_table(*tabulate_certificates(numbers, FEW_CONTEXTS))
    few = [f"{name_certified_row(row)} ({_count_seeds(found)}"
           f"{', in Coq too' if found['coq'] else ''})"
           for row, found in numbers["certificates"].items()
           if found["contexts"] < FEW_CONTEXTS]  # fmt: skip
    note = f"\n\nWith fewer than {FEW_CONTEXTS:,} contexts: {'; '.join(few)}."
    return table + (note if few else "")


def format_number(number: dict[str, Any]) -> str:
    """Return a number as text; only a share without any error is written as 100%.

    >>> format_number({"value": 0.985, "range": [0.97, 1.0]})
    '98.5% (97.0 to 100)'
    >>> format_number({"value": 1.0, "range": [1.0, 1.0]})
    '100%'
    """
    low, high = number["range"]
    value = format_percent(number["value"]) + "%"
    return value if low == high else f"{value} ({format_percent(low)} to {format_percent(high)})"


# ---- Filling -------------------------------------------------------------------------------------


def list_values(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return what README.md and the story may name, the texts and functions listed above."""
    rows, certificates = numbers["rows"], numbers["certificates"]
    return {
        "footing": f"\n{format_accuracy(numbers)}\n",
        "headlines": f"\n{format_table(*tabulate_headlines(numbers))}\n",
        "certificates": f"\n{format_certificates(numbers)}\n",
        "errata": f"\n{render_errata('notebooks/')}\n",
        "claims": numbers["claims"],
        "works": numbers["works"],
        "measured": numbers["measured"],
        "number": lambda row, name: format_number(rows[row][name]),
        "basis": lambda row, name: "n = {n:,}, {seeds} seeds".format_map(rows[row][name]),
        "trained": lambda row: rows[row]["trained"],
        "certificate": lambda row, name: f"{certificates[row][name]:,}",
    }


def fill_markers(text: str, values: Mapping[str, Any]) -> str:
    """Return a text with everything between its markers replaced by the values that they name.

    >>> fill_markers("All <!-- numbers:n -->2<!-- /numbers --> hold", {"n": 3})
    'All <!-- numbers:n -->3<!-- /numbers --> hold'
    """
    return MARKER.sub(
        lambda match: f"{match[1]}{fill_template(f'{{{{ {match[2]} }}}}', values)}{match[3]}", text
    )


def fill_readme(folder: Path = paths.ROOT) -> list[Path]:
    """Write numbers.json, fill the numbers into the texts of a folder, and return their paths."""
    values = list_values(write_numbers(folder / "reports"))
    files = [folder / name for name in FILES]
    for path in files:
        paths.write_file(path, fill_markers(path.read_text(encoding="utf-8"), values))
    return files
