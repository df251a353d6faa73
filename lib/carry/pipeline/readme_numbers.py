"""The numbers that prose quotes: written by the pipeline, and filled into README.md from there.

Text between two markers is ours to replace; everything else in the file stays as it is:

    <!-- numbers:accuracy -->...<!-- /numbers -->                          the overview's rows
    <!-- numbers:addition_relative.100 digits -->...<!-- /numbers -->      one number of any row
    <!-- numbers:claims -->...<!-- /numbers -->                            how many claims hold
    <!-- numbers:certificates -->...<!-- /numbers -->                      what is proved
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from carry import claims
from carry.config import paths
from carry.config.settings import SettingsError, suggest_name
from carry.evaluation.intervals import wilson_interval
from carry.evaluation.regions import add_region
from carry.plots import gallery, load, style
from carry.plots.certificates import named

TIMES = {2: "twice as long", 3: "three times as long"}  # as in training
LENGTHS = (100, 1000)
COLUMNS = ["in distribution", *TIMES.values(), *(f"{length} digits" for length in LENGTHS)]
MARKED = re.compile(r"(<!-- numbers:(.+?) -->)(.*?)(<!-- /numbers -->)", re.DOTALL)


def of_rows(cells: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return accuracy by row, in distribution and at a few equal lengths beyond.

    Each number is a median over `seeds`, with the lowest and the highest of them as its `range`,
    and Wilson's `interval` (95%) of all `n` problems together; `start` says where ids started.
    """
    starts = load.starts(cells)
    cells = add_region(load.at_start(cells, starts))
    inside = (cells["set"] == "grid") & (cells["region"] == "in distribution")
    equal = (cells["set"] != "grid") & (cells["i"] == cells["j"])
    column = cells["i"].map("{} digits".format).where(equal & cells["i"].isin(LENGTHS))
    times = (cells["i"] / cells["trained"]).map(TIMES)
    column = column.mask(equal & times.notna(), times).mask(inside, COLUMNS[0])
    seeds = cells.assign(column=column).groupby(["row", "column", "seed"])[["exact", "n"]].sum()
    found: dict[str, dict[str, Any]] = {}
    for row in load.rows(cells):
        found[row] = {
            "start": starts[row],
            "trained": int(cells[cells["row"] == row].trained.max()),
        }
        for name in COLUMNS:
            if (row, name) in seeds.index.droplevel("seed"):
                found[row][name] = _number(seeds.loc[(row, name)])
    return found


def _number(seeds: pd.DataFrame) -> dict[str, Any]:
    accuracy = seeds["exact"] / seeds["n"]
    low, high = (
        float(end[0]) for end in wilson_interval([seeds["exact"].sum()], [seeds["n"].sum()])
    )
    return {
        "value": round(float(accuracy.median()), 6),
        "range": [round(float(accuracy.min()), 6), round(float(accuracy.max()), 6)],
        "interval": [round(low, 6), round(high, 6)],
        "n": int(seeds["n"].sum()),
        "seeds": len(seeds),
    }


def write(profile: str, folder: Path | None = None) -> dict[str, Any]:
    """Write numbers.json beside the ledger, from results and claims of a profile, and return it."""
    folder = folder or paths.reports_path(profile)
    ledger = folder / "claims.json"
    if not ledger.exists():
        raise SettingsError(f"numbers: {ledger.name} is not there; expected claims.write before")
    numbers = {
        "profile": profile,
        "claims": claims.summary(json.loads(ledger.read_text(encoding="utf-8"))),
        "rows": of_rows(load.read(profile, "cells")),
        "certificates": of_certificates(load.certified(profile)),
    }
    with paths.write_atomically(folder / "numbers.json") as draft:
        draft.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    return numbers


def of_certificates(seeds: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return by row what its certificates say: of so many `seeds` how many are `exact`."""
    found = {}
    for row, of in seeds.groupby("row", sort=False):
        counted = {name: int(of[name].max()) for name in ("trained", "parameters", "contexts")}
        found[row] = {**counted, "exact": int((of["verdict"] == "exact").sum()), "seeds": len(of)}
    return found


def proved(certificates: dict[str, dict[str, Any]]) -> str:
    """Return as Markdown which rows are right at every length, and in how many seeds."""
    names = ["right at every length", "trained to", "parameters", "contexts", "proved"]
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    for row, of in certificates.items():
        counts = [f"{of[name]:,}" for name in ("trained", "parameters", "contexts")]
        cells = [named(row), *counts, f"{of['exact']} of {of['seeds']} seeds"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return the accuracy of the overview as Markdown: the median of seeds, and their range."""
    names = ["scheme", "trained to", *COLUMNS]
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    rows = {row: rows[row] for row in gallery.overview(rows)}
    for row, of in rows.items():
        cells = [shown(of[name]) if name in of else "" for name in COLUMNS]
        first = [style.look(row).label, f"{of['trained']} digits"]
        lines.append(f"| {' | '.join([*first, *cells])} |")
    counts = {of[name]["seeds"] for of in rows.values() for name in COLUMNS if name in of}
    seeds = " or ".join(map(str, sorted(counts)))
    lines += [
        "",
        f"Sums wholly right: the median of {seeds} seeds, and the range where they differ.",
    ]
    return "\n".join(lines)


def shown(number: dict[str, Any]) -> str:
    """Return one number as it is quoted; only what has no error is written as 100%.

    >>> shown({"value": 0.985, "range": [0.97, 1.0]}), shown({"value": 1.0, "range": [1.0, 1.0]})
    ('98.5% (97.0 to 100)', '100%')
    >>> shown({"value": 0.99999, "range": [0.99999, 0.99999]})
    '>99.9%'
    """
    low, high = number["range"]
    value = _percent(number["value"]) + "%"
    return value if low == high else f"{value} ({_percent(low)} to {_percent(high)})"


def _percent(share: float) -> str:
    if share in (0.0, 1.0):
        return f"{100 * share:.0f}"
    return ">99.9" if share >= 0.9995 else "<0.1" if share < 0.0005 else f"{100 * share:.1f}"


def fill(text: str, numbers: dict[str, Any]) -> str:
    """Return a text with what stands between its markers renewed.

    Raises:
        SettingsError: for a marker of a name that there is no number for.
    """
    known = {
        "accuracy": f"\n{table(numbers['rows'])}\n",
        "claims": numbers["claims"],
        "certificates": f"\n{proved(numbers['certificates'])}\n",
    }
    for row, of in numbers["rows"].items():
        known |= {f"{row}.{name}": shown(of[name]) for name in COLUMNS if name in of}

    def renewed(found: re.Match) -> str:
        if found[2] not in known:
            raise SettingsError(
                f"numbers: {found[2]!r} is not there, {suggest_name(found[2], known)}"
            )
        return f"{found[1]}{known[found[2]]}{found[4]}"

    return MARKED.sub(renewed, text)


def fill_readme(readme: Path = paths.ROOT / "README.md", profile: str = "cpu") -> Path:
    """Renew the numbers of README.md from numbers.json."""
    numbers = json.loads(paths.reports_path(profile, "numbers.json").read_text(encoding="utf-8"))
    text = fill(readme.read_text(encoding="utf-8"), numbers)
    with paths.write_atomically(readme) as draft:
        draft.write_text(text, encoding="utf-8")
    return readme


if __name__ == "__main__":
    fill_readme()
