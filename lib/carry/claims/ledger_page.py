"""The ledger as Markdown pages: the claims of the works, and our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from carry.claims.claim_settings import OWN_CLAIMS
from carry.claims.errata import render_errata
from carry.claims.verdicts import METHOD, SEEN, summarise_seen
from carry.evaluation.intervals import format_percent

PLAIN_NUMBERS = {"half_length": (".1f", " digits"), "mean_value": (".2f", "")}  # no shares


def render_ledger(records: Sequence[dict[str, Any]]) -> str:
    """Return the claims of the works as Markdown, with a table for each work, and the errata."""
    theirs = [record for record in records if record["paper"] != OWN_CLAIMS]
    parts = ["# Claims", summarise_claims(records), METHOD]
    parts += ["`carry show ROW --against paper` lists how a row differs from the work."]
    for paper in dict.fromkeys(record["paper"] for record in theirs):
        rows = [record for record in theirs if record["paper"] == paper]
        parts += [f"## {paper}", f"{len(rows)}: {count_seen(rows)}.", _render_table(rows)]
    return "\n\n".join([*parts, "## Errata", render_errata()]) + "\n"


def render_own_claims(records: Sequence[dict[str, Any]]) -> str:
    """Return our own claims as Markdown."""
    ours = [record for record in records if record["paper"] == OWN_CLAIMS]
    parts = ["# Our own claims", f"{len(ours)}: {count_seen(ours)}.", METHOD, _render_table(ours)]
    return "\n\n".join(parts) + "\n"


def format_table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown.

    >>> print(format_table(["n", "k"], [["1", "2"]]))
    | n | k |
    |---|---|
    | 1 | 2 |
    """
    rows = [f"| {' | '.join(cells)} |" for cells in (columns, *lines)]
    return "\n".join([rows[0], f"|{'---|' * len(columns)}", *rows[1:]])


def summarise_claims(records: Sequence[Mapping[str, Any]]) -> str:
    """Return in a sentence how many claims of the works were seen, and of how many.

    >>> summarise_claims([{"paper": "cho2025", "seen": "same"}, {"paper": "carry", "seen": "same"}])
    "Of the works' 1 claims: 1 reproduced by models trained here."
    """
    theirs = [record for record in records if record["paper"] != OWN_CLAIMS]
    counts = [f"{count} {SEEN[name]}" for name, count in summarise_seen(theirs).items()]
    return f"Of the works' {len(theirs)} claims: {', '.join(counts)}."


def count_seen(records: Sequence[Mapping[str, Any]]) -> str:
    """Return what was seen of some claims, with numbers where there are several.

    >>> count_seen([{"seen": "same"}]), count_seen([{"seen": "same"}, {"seen": "unclear"}])
    ('same', 'same 1, unclear 1')
    """
    counts = summarise_seen(records)
    if len(records) == 1:
        return next(iter(counts))
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def tabulate_claims(records: Sequence[Mapping[str, Any]]) -> str:
    """Return a short table of what was seen of some claims, as Markdown.

    >>> record = {"id": "a", "statement": "It adds.", "paper_value": "99%", "seen": "not run"}
    >>> print(tabulate_claims([{**record, "measured": None, "reason": "later", "comparable": ""}]))
    | claim | stated | seen | ours | comparable |
    |---|---|---|---|---|
    | It adds. `a` | 99% | **not run** | later |  |
    """
    lines = []
    for record in records:
        ours = record["reason"]
        if record["measured"] is not None:
            sides = " and ".join(map(str, record["sides"]))
            parts = [describe_number(record), f"{sides} seeds" * any(record["sides"])]
            parts.append(_describe_changed(record))
            ours = "; ".join(filter(None, parts))
        claim, seen = f"{record['statement']} `{record['id']}`", f"**{record['seen']}**"
        lines.append([claim, record["paper_value"], seen, ours, record["comparable"]])
    return format_table(["claim", "stated", "seen", "ours", "comparable"], lines)


def _render_table(records: Sequence[dict[str, Any]]) -> str:
    columns = ["seen", "claim", "section", "its value", "measured here", "comparable"]
    lines = []
    for record in records:
        statement = f"`{record['id']}` {record['statement']}"
        cells = [f"**{record['seen']}**", statement, record["section"], record["paper_value"]]
        lines.append([*cells, describe_measurement(record), record["comparable"]])
    if not any(record["comparable"] for record in records):
        columns, lines = columns[:-1], [line[:-1] for line in lines]
    return format_table(columns, lines)


def describe_number(record: Mapping[str, Any]) -> str:
    """Return the number that a record measured, with its interval; of a comparison, both sides.

    >>> share = {"measured": 0.5, "interval": [0.4, 0.612], "statistic": "worst_seed"}
    >>> describe_number({**share, "values": [0.5]})
    '50.0% (40.0 to 61.2)'
    >>> describe_number({**share, "statistic": "mean_over_seeds, difference", "values": [0.6, 0.1]})
    '60.0% against 10.0%: +50.0 points (+40.0 to +61.2)'
    """
    low, high = record["interval"]
    statistic = record["statistic"].removesuffix(", difference")
    if statistic == "errors":
        return f"{record['measured']:.0f} errors"
    if statistic == "seeds_certified":
        return f"{record['measured'] * record['seeds']:.0f} of {record['seeds']} seeds certified"
    if statistic == "loss_over_pairs":
        number = [f"{value:+.2f}" for value in (record["measured"], low, high)]
        return f"loss lower by {number[0]} powers of ten ({number[1]} to {number[2]})"
    plain = PLAIN_NUMBERS.get(statistic)
    if len(record["values"]) == 2:
        digits, scale, unit = (plain[0], 1, plain[1]) if plain else (".1f", 100, " points")
        number = [f"{scale * value:+{digits}}" for value in (record["measured"], low, high)]
        difference = f"{number[0]}{unit} ({number[1]} to {number[2]})"
        sides = [f"{value:{digits}}" if plain else f"{format_percent(value)}%"
                 for value in record["values"]]  # fmt: skip
        return f"{' against '.join(sides)}: {difference}"
    number = [f"{value:{plain[0]}}" if plain else format_percent(value)
              for value in (record["measured"], low, high)]  # fmt: skip
    return f"{number[0]}{plain[1] if plain else '%'} ({number[1]} to {number[2]})"


def describe_measurement(record: Mapping[str, Any]) -> str:
    """Return the measurement of a record with its basis, or the reason why it is missing."""
    if record["measured"] is None:
        return record["reason"]
    parts = [describe_number(record), f"wanted {record['holds_if']}"]
    if record["p"] is not None:
        parts.append(_describe_test(record))
    parts += [_describe_basis(record), *filter(None, [record["edge"], record["reason"]])]
    scale = f". {record['scale']}" if record["scale"] else ""
    return "; ".join(parts) + scale


def _describe_test(record: Mapping[str, Any]) -> str:
    text = f"p {record['p']:.2g}, of the contrary {record['p_contrary']:.2g}"
    if record["tests"] > 1:
        text += f" (of {record['tests']} tests: {record['q']:.2g} and {record['q_contrary']:.2g})"
    if "pairs" in record:
        counts = [f"{number} {name}" for name, number in record["pairs"].items()]
        text += f"; pairs: {', '.join(counts)}, sign test p {record['p_sign']:.2g}"
    return text


def _describe_basis(record: Mapping[str, Any]) -> str:
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
    if record["first_seed"]:
        seeds += f" from seed {record['first_seed']}"
    basis += f", n = {record['n']:,}" + f", {seeds}" * any(record["sides"])
    if "of_learned" in record:
        counts = [f"{learned} of {of}" for learned, of in record["learned"].values()]
        basis += f", learned {' and '.join(counts)}"
        if record["of_learned"] is not None:
            basis += f" (of these {describe_learned(record)})"
    for name, values in record["unlike"].items():
        basis += f", {name} {' and '.join(map(str, values))}"
    if changed := _describe_changed(record):
        basis += f", {changed}"
    scales = [scale for scale in dict.fromkeys(record["scales"].values()) if scale != "laptop"]
    return f"{basis}, scale {' and '.join(scales)}" if scales else basis


def _describe_changed(record: Mapping[str, Any]) -> str:
    rows = " and ".join(record["changed"])
    return f"earlier settings of {rows}" if rows else ""


def describe_learned(record: Mapping[str, Any]) -> str:
    """Return the number of the seeds that have learned their trained sizes.

    >>> record = {"statistic": "half_length, difference", "values": [9.0, 8.5], "of_learned": 0.75}
    >>> describe_learned(record), describe_learned({**record, "statistic": "", "values": [0.5]})
    ('+0.8 digits', '75.0%')
    """
    value, sign = record["of_learned"], "+" if len(record["values"]) == 2 else ""
    if record["statistic"] == "errors":
        return f"{value:.0f} errors"
    if plain := PLAIN_NUMBERS.get(record["statistic"].removesuffix(", difference")):
        return f"{value:{sign}{plain[0]}}{plain[1]}"
    return f"{100 * value:+.1f} points" if sign else f"{format_percent(value)}%"
