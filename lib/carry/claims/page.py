"""The ledger as people read it: a page in Markdown, and the numbers that DVC shows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd

from carry.claims.judged import METHOD, VERDICTS
from carry.evaluation.regions import add_region
from carry.plots import load as results


def metrics(records: list[dict[str, Any]], cells: pd.DataFrame) -> dict[str, Any]:
    """Return what `dvc metrics show` shows: the verdicts, and accuracy by row and region."""
    count = Counter(record["verdict"] for record in records)
    found = {"claims": {verdict.replace(" ", "_"): count[verdict] for verdict in VERDICTS}}
    cells = add_region(results.at_start(cells, results.starts(cells)))
    cells = cells[cells["set"] != "equal"]
    summed = cells.groupby(["row", "region"], sort=False)[["exact", "n"]].sum()
    for (row, region), of in summed.iterrows():
        share = round(float(of["exact"] / of["n"]), 4)
        found.setdefault(row, {})[region.replace(" ", "_")] = share
    return found


def page(records: list[dict[str, Any]]) -> str:
    """Return the ledger as Markdown: a table for each work."""
    lines = ["# Claims", "", f"{summary(records)}. {METHOD}", ""]
    for paper in dict.fromkeys(record["paper"] for record in records):
        lines += [f"## {paper}", "", *_table([r for r in records if r["paper"] == paper]), ""]
    return "\n".join(lines)


def summary(records: list[dict[str, Any]]) -> str:
    """Return how many claims have each verdict.

    >>> summary([{"verdict": "holds"}, {"verdict": "not tested"}, {"verdict": "holds"}])
    '3 claims: 2 hold, 0 fail, 0 undecided, 1 not tested'
    """
    count = Counter(record["verdict"] for record in records)
    words = {"holds": "hold", "fails": "fail", "undecided": "undecided", "not tested": "not tested"}
    parts = [f"{count[verdict]} {word}" for verdict, word in words.items()]
    return f"{len(records)} claims: {', '.join(parts)}"


def _table(records: list[dict[str, Any]]) -> list[str]:
    lines = ["| verdict | claim | section | its value | measured here |", "|---|---|---|---|---|"]
    for record in records:
        statement = f"`{record['id']}` {record['statement']}"
        cells = [f"**{record['verdict']}**", statement, record["section"], record["paper_value"]]
        lines.append(f"| {' | '.join([*cells, shown(record)])} |")
    return lines


def shown(record: dict[str, Any]) -> str:
    """Return what was measured, with all it rests on, or why nothing was."""
    if record["verdict"] == "not tested":
        return record["reason"]
    low, high = record["interval"]
    if record["statistic"] == "errors":
        text = f"{record['measured']:.0f} errors"
    elif "difference" in record["statistic"]:
        number = [f"{100 * value:+.1f}" for value in (record["measured"], low, high)]
        text = f"{number[0]} points ({number[1]} to {number[2]})"
    else:
        text = f"{record['measured']:.1%} ({low:.1%} to {high:.1%})"
    rests = record["row"]
    if record["compared_with"]:
        other = record["compared_with"]
        rests += f" against {other if other != rests else 'itself elsewhere'}"
    rests += f", {record['statistic'].removesuffix(', difference').replace('_', ' ')}"
    rests += f", n = {record['n']:,}, {record['seeds']} seeds"
    scale = f". {record['scale']}" if record["scale"] else ""
    return f"{text}; wanted {record['holds_if']}; {rests}{scale}"
