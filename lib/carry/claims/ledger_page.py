"""The ledger as a Markdown page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from carry import results
from carry.claims.claim_settings import OWN_CLAIMS
from carry.claims.verdicts import METHOD, VERDICTS
from carry.departures import compare_lengths, tabulate_departures
from carry.experiments.run import Run

# How a number of claims with a verdict reads.
WORDS = {
    "holds": "hold",
    "fails": "fail",
    "too few seeds": "with too few seeds",
}


def render_ledger(records: list[dict[str, Any]]) -> str:
    """Return the ledger as Markdown, with a table for each work, and what is not tested and why."""
    parts = ["# Claims", f"{summarise_verdicts(records)}. {METHOD}"]
    for paper in dict.fromkeys(record["paper"] for record in records):
        rows = [record for record in records if record["paper"] == paper]
        parts += [f"## {paper}", f"{_count_verdicts(rows)}.", _render_table(rows)]
        parts += [_render_departures(paper, rows)]
    untested = list_untested(records)
    parts += ["## Not tested, and why", untested] if untested else []
    return "\n\n".join(filter(None, parts)) + "\n"


def format_table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown.

    >>> print(format_table(["n", "k"], [["1", "2"]]))
    | n | k |
    |---|---|
    | 1 | 2 |
    """
    rows = [f"| {' | '.join(cells)} |" for cells in (columns, *lines)]
    return "\n".join([rows[0], f"|{'---|' * len(columns)}", *rows[1:]])


def summarise_verdicts(records: list[dict[str, Any]]) -> str:
    """Return the number of claims with each verdict: those of the papers, then our own.

    >>> claims = [("cho2025", "holds"), ("cho2025", "not tested"), ("carry", "holds")]
    >>> summarise_verdicts([{"paper": paper, "verdict": verdict} for paper, verdict in claims])
    'Claims of the papers, 2: 1 hold, 1 not tested; our own, 1: 1 hold'
    """
    ours = [record for record in records if record["paper"] == OWN_CLAIMS]
    theirs = [record for record in records if record["paper"] != OWN_CLAIMS]
    parts = {"claims of the papers": theirs, "our own": ours}
    counts = [f"{name}, {_count_verdicts(part)}" for name, part in parts.items() if part]
    return "; ".join(counts).replace("claims", "Claims", 1)


def _count_verdicts(records: list[dict[str, Any]]) -> str:
    count = Counter(record["verdict"] for record in records)
    counts = [f"{count[name]} {WORDS.get(name, name)}" for name in VERDICTS if count[name]]
    return f"{len(records)}: {', '.join(counts)}"


def list_untested(records: list[dict[str, Any]]) -> str:
    """Return the claims of the papers without a test, by reason, as a Markdown list.

    >>> record = {"paper": "cho2025", "verdict": "not tested", "reason": "needs a GPU"}
    >>> missing = {**record, "id": "c", "reason": "needs row parity_nope of scale gpu"}
    >>> print(list_untested([{**record, "id": "a"}, {**record, "id": "b"}, missing]))
    * needs a GPU: `a`, `b`
    * needs a row of scale gpu: `c`
    """
    reasons: dict[str, list[str]] = {}
    for record in records:
        if record["verdict"] == "not tested" and record["paper"] != OWN_CLAIMS:
            reason = re.sub(r"\brow \w+_\w+", "a row", record["reason"])
            reason = re.sub(r"no result for .*", "no result for the sizes of the claim", reason)
            reasons.setdefault(reason, []).append(f"`{record['id']}`")
    return "\n".join(f"* {reason}: {', '.join(names)}" for reason, names in reasons.items())


def _render_table(records: list[dict[str, Any]]) -> str:
    columns = ["verdict", "claim", "section", "its value"]
    columns += ["at the paper's lengths (scale `paper`)", "measured here"]
    lines = []
    for record in records:
        statement = f"`{record['id']}` {record['statement']}"
        cells = [f"**{record['verdict']}**", statement, record["section"], record["paper_value"]]
        lengths = "" if record["paper"] == OWN_CLAIMS else compare_lengths(_find_runs(record))
        lines.append([*cells, lengths, describe_measurement(record)])
    return format_table(columns, lines)


def _render_departures(paper: str, records: list[dict[str, Any]]) -> str:
    """Return the departures of a work's rows from it as a list."""
    runs = {row: run for record in records for row, run in _find_runs(record).items()}
    table = tabulate_departures({} if paper == OWN_CLAIMS else runs)
    title = "Departures of rows from the paper (all sizes: `carry show ROW --against paper`):"
    lines = [
        f"* `{rows.replace(', ', '`, `')}`: {'; '.join(filter(None, texts)) or 'none'}"
        for rows, *texts in table.itertuples()
    ]
    return "\n".join([title, "", *lines]) if lines else ""


def _find_runs(record: dict[str, Any]) -> dict[str, Run]:
    """Return the settings of the results of a record, by row."""
    return {row: results.read_runs()[row, scale] for row, scale in record["scales"].items()}


def describe_number(record: dict[str, Any]) -> str:
    """Return the number that a record measured, with its interval if it has one.

    >>> share = {"measured": 0.5, "interval": [0.4, 0.612], "statistic": "worst_seed"}
    >>> describe_number(share)
    '50.0% (40.0% to 61.2%)'
    >>> describe_number({**share, "statistic": "mean_over_seeds, difference"})
    '+50.0 points (+40.0 to +61.2)'
    """
    low, high = record["interval"]
    if record["statistic"] == "errors":
        return f"{record['measured']:.0f} errors"
    if record["statistic"] == "seeds_certified":
        return f"{record['measured'] * record['seeds']:.0f} of {record['seeds']} seeds certified"
    if record["statistic"].startswith("loss_over_pairs"):
        number = [f"{value:+.2f}" for value in (record["measured"], low, high)]
        return f"loss lower by {number[0]} powers of ten ({number[1]} to {number[2]})"
    if "difference" in record["statistic"]:
        number = [f"{100 * value:+.1f}" for value in (record["measured"], low, high)]
        return f"{number[0]} points ({number[1]} to {number[2]})"
    return f"{record['measured']:.1%} ({low:.1%} to {high:.1%})"


def describe_measurement(record: dict[str, Any]) -> str:
    """Return the measurement of a record with its basis, or the reason why it is missing."""
    if record["measured"] is None:
        return record["reason"]
    parts = [describe_number(record), f"wanted {record['holds_if']}"]
    if record["p"] is not None:
        parts.append(_describe_test(record))
    parts.append(_describe_basis(record))
    if len(record["starts"]) > 1:
        verdicts = [f"{start}: {verdict}" for start, verdict in record["starts"].items()]
        parts.append(f"by start {', '.join(verdicts)}")
    if record["reason"]:
        parts.append(record["reason"])
    scale = f". {record['scale']}" if record["scale"] else ""
    return "; ".join(parts) + scale


def _describe_test(record: dict[str, Any]) -> str:
    text = f"p {record['p']:.2g}, of the contrary {record['p_contrary']:.2g}"
    if record["tests"]:
        corrected = [f"{record[p]:.2g}" for p in ("p_corrected", "p_contrary_corrected")]
        text += f" (corrected for {record['tests']} tests: {corrected[0]} and {corrected[1]})"
    if "pairs" in record:
        counts = [f"{number} {name}" for name, number in record["pairs"].items()]
        text += f"; pairs: {', '.join(counts)}, sign test p {record['p_sign']:.2g}"
    return text


def _describe_basis(record: dict[str, Any]) -> str:
    basis = record["row"]
    if record["compared_with"]:
        other = record["compared_with"]
        basis += f" against {other if other != basis else 'itself elsewhere'}"
    basis += f", {record['statistic'].removesuffix(', difference').replace('_', ' ')}"
    if record["start"] and record["start"] != "1":
        basis += f", start {record['start']}"
    seeds = " and ".join(map(str, record["sides"])) + " seeds"
    if "pairs" in record:
        seeds = f"{record['seeds']} pairs"
    basis += f", n = {record['n']:,}, {seeds}"
    if record["learned"]:
        counts = [f"{learned} of {of}" for learned, of in record["learned"].values()]
        basis += f", learned {' and '.join(counts)}"
    if record["steps"]:
        basis += f", {' and '.join(f'{steps:,}' for steps in record['steps'].values())} steps"
    for name, values in record["unlike"].items():
        basis += f", {name} {' and '.join(map(str, values))}"
    scales = dict.fromkeys(record["scales"].values())
    return f"{basis}, scale {' and '.join(scales)}" if scales else basis
