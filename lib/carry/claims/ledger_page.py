"""The ledger as a Markdown page."""

from __future__ import annotations

from collections import Counter
from typing import Any

from carry.claims.verdicts import METHOD


def render_ledger(records: list[dict[str, Any]]) -> str:
    """Return the ledger as Markdown, with a table for each work."""
    lines = ["# Claims", "", f"{summarise_verdicts(records)}. {METHOD}", ""]
    for paper in dict.fromkeys(record["paper"] for record in records):
        rows = [record for record in records if record["paper"] == paper]
        lines += [f"## {paper}", "", *_render_table(rows), ""]
    return "\n".join(lines)


def summarise_verdicts(records: list[dict[str, Any]]) -> str:
    """Return the number of claims with each verdict.

    >>> summarise_verdicts([{"verdict": "holds"}, {"verdict": "not tested"}, {"verdict": "holds"}])
    '3 claims: 2 hold, 0 fail, 0 undecided, 1 not tested'
    """
    count = Counter(record["verdict"] for record in records)
    words = {"holds": "hold", "fails": "fail", "undecided": "undecided", "not tested": "not tested"}
    parts = [f"{count[verdict]} {word}" for verdict, word in words.items()]
    return f"{len(records)} claims: {', '.join(parts)}"


def _render_table(records: list[dict[str, Any]]) -> list[str]:
    lines = ["| verdict | claim | section | its value | measured here |", "|---|---|---|---|---|"]
    for record in records:
        statement = f"`{record['id']}` {record['statement']}"
        cells = [f"**{record['verdict']}**", statement, record["section"], record["paper_value"]]
        lines.append(f"| {' | '.join([*cells, describe_measurement(record)])} |")
    return lines


def describe_measurement(record: dict[str, Any]) -> str:
    """Return the measurement of a record with its basis, or the reason why it is missing."""
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
    basis = record["row"]
    if record["compared_with"]:
        other = record["compared_with"]
        basis += f" against {other if other != basis else 'itself elsewhere'}"
    basis += f", {record['statistic'].removesuffix(', difference').replace('_', ' ')}"
    basis += f", n = {record['n']:,}, {record['seeds']} seeds"
    basis += f", profile {record['profile']}"
    scale = f". {record['scale']}" if record["scale"] else ""
    return f"{text}; wanted {record['holds_if']}; {basis}{scale}"
