"""Two answers for each claim: what was seen, and how comparable it is with the work.

An order of two rows is tested over seeds. All tests of one figure, or of one question, are a
family, and a false discovery rate corrects them. A level is reached if all of its interval is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pandas as pd
from scipy import stats

from carry.claims.claim_settings import NOT_SHARES, OWN_CLAIMS, Claim
from carry.claims.evidence import find_evidence, prepare_tables, round_p
from carry.claims.measurements import SIGNS
from carry.departures import compare_lengths, find_counterpart
from carry.evaluation.differences import ALPHA
from carry.experiments.run import Run
from carry.results import ResultTables
from carry.training.cost import count_training_operations

MIN_SEEDS = 5  # of each side
NO_EFFECT = 0.1  # ours: a difference whose interval is within ten points is no effect
# A comparison can be seen if a side is between these, or the sides differ by more than `NO_EFFECT`.
FLOOR, CEILING = 0.1, 0.9

# What was seen, and how a number of such claims reads.
SEEN = {
    "same": "reproduced by models trained here",
    "consistent": "consistent but negative",
    "counted": "proofs, counts and data of the works",
    "no effect": "no effect within ten points",
    "opposite": "opposite",
    "unclear": "unclear",
    "not reached": "not reached at this scale",
    "not learned": "not learned",
    "not run": "not run",
}
# Of several rows of a claim, the record has the one with the first of these.
WORST_FIRST = (
    "not run", "opposite", "not reached", "not learned", "unclear",
    "no effect", "consistent", "same", "counted",
)  # fmt: skip
COUNTED = ("errors", "seeds_certified", "mean_over_pairs", "loss_over_pairs")
AS_IN_THE_WORK = "as in the work"
OTHER_UNITS = (*NOT_SHARES, "loss_over_pairs")  # of which `NO_EFFECT` and `FLOOR` say nothing

# The fields of a claim that its record has.
STATED = {"id", "paper", "section", "items", "statement", "paper_value", "scale", "protocol"}

METHOD = (
    "Seen: `same`, if the statement was seen: an order or no difference by a test, a level by an "
    "interval; `consistent`, if a model fails that is said to fail, as one that has learned too "
    "little does, too; `counted`, if a proof, a count or data of the work show it; `no effect`, "
    "if the interval of a stated difference is within ten points (our threshold), and values can "
    "differ; `opposite`; `not reached`, if models smaller than the work's do not have a number; "
    "`not learned`, if half of the models or more have not learned a trained size, and the "
    "statement was not seen; `unclear`; `not run`. Comparable: as in the work, reduced (lengths, "
    "and the ratio of computation of training), or another protocol. The unit is the seed; all "
    "seeds count, and at least 5 a side are needed, except to show that a number is not reached. "
    "Where some have not learned their worst trained size (95%), the value of those that have "
    "stands next to that of all. An order of two rows is tested by a one-sided exact permutation "
    "test over seeds, no difference by two one-sided tests against a margin. The tests of one "
    "figure, or of one section, are corrected together by a false discovery rate of 5% (Benjamini "
    "and Hochberg). A level has been reached if all of its interval has: t over seeds, or "
    "Wilson's where the claim is about one model."
)


def judge_claims(
    claims: list[Claim], tables: ResultTables, certificates: pd.DataFrame
) -> list[dict[str, Any]]:
    """Return a record for each claim, from result tables.

    Args:
        tables: `cells` by lengths; `places`, for claims that count the last digit; `curves`, which
            show the models that have too many heads left; and those of analyses.
        certificates: one row for each certified seed.
    """
    prepared = prepare_tables(tables)
    found = [find_evidence(claim, prepared, certificates) for claim in claims]
    families: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for claim, parts in zip(claims, found, strict=True):
        families[claim.family()] += [part for part in parts if part.get("p") is not None]
    for tested in families.values():
        _correct(tested)
    records = []
    for claim, parts in zip(claims, found, strict=True):
        seen = [{**part, **_judge(claim, part)} for part in parts]
        sign = -1 if claim.holds_if.startswith("<") else 1
        worst = min(
            seen,
            key=lambda part, sign=sign: (
                WORST_FIRST.index(part["seen"]), sign * (part.get("measured") or 0.0)
            ),
        )  # fmt: skip
        record = {**create_record(claim), **worst}
        comparable = _compare_with_work(claim, record, prepared.runs)
        if comparable == AS_IN_THE_WORK and record["seen"] == "not reached":
            record["seen"] = "opposite"  # no smaller model is the reason
        records.append(record | {"comparable": comparable})
    return records


def _correct(tested: list[dict[str, Any]]) -> None:
    """Write the corrected p values of a family into its tests."""
    for name in ("p", "p_contrary"):
        values = [fields[name] for fields in tested]
        for fields, q in zip(tested, stats.false_discovery_control(values), strict=True):
            fields[name.replace("p", "q", 1)] = round_p(q)
    for fields in tested:
        fields["tests"] = len(tested)


def _judge(claim: Claim, part: dict[str, Any]) -> dict[str, Any]:
    """Return what was seen, by the evidence of one row, and the reason if it has one."""
    if part.get("measured") is None:
        return {"seen": "not run", "reason": part.get("reason") or claim.not_tested}
    tested, edge = part.get("p") is not None, _find_edge(claim, part)
    seen = _judge_test(claim, part, edge) if tested else _judge_level(claim, part)
    reason = None
    if (
        min(part["sides"]) < MIN_SEEDS
        and claim.statistic() not in COUNTED
        and seen != "not reached"
    ):
        sides = " and ".join(map(str, part["sides"]))
        seen, reason = "unclear", f"seeds: {sides}; expected {MIN_SEEDS} or more"
    unlearned = [row for row, (k, n) in part.get("learned", {}).items() if n and 2 * k <= n]
    if unlearned and claim.is_beyond_training() and seen not in ("same", "counted", "opposite"):
        seen, reason = "not learned", f"most seeds of {' and '.join(unlearned)}"
    return {"seen": seen, "edge": edge, "reason": reason}


def _judge_test(claim: Claim, part: dict[str, Any], edge: str | None) -> str:
    """Return whether a test shows a claim or its contrary; at an edge, rows that are alike do not.

    There models differ little for another reason.
    """
    if part["q"] <= ALPHA and not (claim.margin is not None and edge):
        return "counted" if claim.statistic() in COUNTED else "same"
    if part["q_contrary"] <= ALPHA:
        return "opposite"
    is_small = max(map(abs, part["interval"])) <= NO_EFFECT
    is_small &= claim.statistic() not in OTHER_UNITS
    return "no effect" if claim.margin is None and is_small and not edge else "unclear"


def _judge_level(claim: Claim, part: dict[str, Any]) -> str:
    """Return whether all of the interval fulfils the condition, or none of it, or a part."""
    sign, threshold = claim.condition()
    ends = {SIGNS[sign](end, threshold) for end in part["interval"]}
    if claim.statistic() in COUNTED:
        return "counted" if ends == {True} else "opposite"
    if len(ends) == 2:
        return "unclear"
    if claim.is_negative():
        return "consistent" if ends == {True} else "opposite"
    return "same" if ends == {True} else "not reached"


def _find_edge(claim: Claim, part: dict[str, Any]) -> str | None:
    """Return "floor" or "ceiling" if both sides of a difference are there, else None."""
    if len(part["values"]) < 2 or claim.statistic() in OTHER_UNITS:
        return None
    if max(part["values"]) < FLOOR:
        return "floor"
    return "ceiling" if min(part["values"]) > CEILING else None


def _compare_with_work(claim: Claim, record: dict[str, Any], runs: dict[str, Run]) -> str:
    """Return how comparable a measurement is with the work, in words; nothing for our own claims.

    The computation is that of training one seed, of the row that has the least of its work's.
    """
    if claim.paper == OWN_CLAIMS or record["seen"] == "not run":
        return ""
    if claim.protocol:
        return f"another protocol: {claim.protocol}"
    rows = [row for row in record["scales"] if find_counterpart(row)]
    lengths = compare_lengths({row: runs[row] for row in rows})
    parts = [lengths] if lengths not in ("", "yes") else []
    if rows:
        count = count_training_operations
        times = max(count(find_counterpart(row)) / count(runs[row]) for row in rows)
        if times >= 2:
            parts.append(f"1 / {times:,.0f} of the computation")
    elif record["scales"]:
        return "reduced: no row has the settings of the work"
    return f"reduced: {'; '.join(parts)}" if parts else AS_IN_THE_WORK


def summarise_seen(records: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return the number of claims by what was seen, in the order of `SEEN`.

    >>> summarise_seen([{"seen": "opposite"}, {"seen": "same"}, {"seen": "same"}])
    {'same': 2, 'opposite': 1}
    """
    found = [record["seen"] for record in records]
    return {name: found.count(name) for name in SEEN if name in found}


def create_record(claim: Claim) -> dict[str, Any]:
    """Return the record of a claim that is not measured."""
    condition = claim.holds_if or (f"within {claim.margin:g}" if claim.margin is not None else None)
    statistic = claim.statistic()
    if statistic and (claim.compare or claim.thesis_runs):
        statistic += ", difference"
    return {
        **claim.model_dump(include=STATED),
        **dict.fromkeys(("row", "compared_with")),
        "holds_if": condition,
        "margin": claim.margin,
        "statistic": statistic,
        "start": claim.measure.where.start if claim.measure else None,
        **dict.fromkeys(("measured", "interval")),
        "values": [],
        **dict.fromkeys(("n", "seeds", "first_seed"), 0),
        "sides": [],
        **{name: {} for name in ("learned", "scales", "unlike")},
        "changed": [],
        **dict.fromkeys(("p", "q", "p_contrary", "q_contrary")),
        "tests": 0,
        "seen": "not run",
        "edge": None,
        "reason": claim.not_tested or None,
    }
