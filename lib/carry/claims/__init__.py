"""What each work claims, and what our tables say about it: claims.yaml becomes a ledger.

    - id: abacus_in_distribution
      paper: mcleish2024
      section: A.4.2
      statement: Abacus adds numbers of the training lengths without error, or nearly so.
      paper_value: 100% or very close to it
      measure: {rows: [addition_abacus], where: {region: in distribution}, statistic: worst_seed}
      holds_if: ">= 0.99"

`measure` picks cells of the result tables and sums them up. With `compare`, the same is done for
another row (or start, or place), and the claim is about the difference: of rows that were trained
to the same length, or it is not tested. What cannot be measured here has `not_tested` instead, with
the reason; `parameters` are millions of them, counted in rows of the profile `paper`; a
`construction` is the model of a proof, put to the test; of a row that is `certified` the seeds are
counted that are proved right at every length; and rows that a claim names as `learnt`
must have learnt what they were trained on, or it is not tested. A claim holds only if all of its
interval does:

    statistic               the number                  its interval
    median_over_seeds       the median of the seeds     from the lowest seed to the highest, widened
                                                        to Wilson's for all of them together
    pooled                  all seeds counted together  Wilson's, 95%
    worst_seed, best_seed   that seed's accuracy        Wilson's, 95%, of that seed
    worst_cell              the median of the seeds,    the same, of that cell's problems
                            in the cell where it is
                            least
    errors                  wrong answers, all seeds    that count itself: the claim is about these
                                                        problems, not about others
    seeds_certified         the share of seeds with     that share itself: a proof is no sample
                            a certificate
    seeds_above             the share of seeds that     Wilson's, 95%, of that many seeds (of a
                            reach an accuracy           difference: Newcombe's, 95%)
    a difference            of two other numbers        every seed of one against every seed of the
                                                        other, widened to Newcombe's, 95%, of all

The range of three seeds holds the median of all seeds three times in four, no more. If two rows
were alike, all three seeds of one would lead all three of the other once in twenty.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from carry.claims.judged import METHOD, VERDICTS, judge
from carry.claims.page import metrics, page, shown, summary
from carry.claims.stated import FILE, Claim, load
from carry.config import paths
from carry.plots import load as results

__all__ = [
    "FILE",
    "METHOD",
    "VERDICTS",
    "Claim",
    "judge",
    "load",
    "metrics",
    "page",
    "shown",
    "summary",
    "write",
]


def write(profile: str, folder: Path | None = None) -> list[dict[str, Any]]:
    """Test all claims on the results of a profile; write claims.json, claims.md and metrics.json.

    Returns:
        the records, as claims.json has them.
    """
    folder = folder or paths.reports_path(profile)
    cells, places, curves = (results.read(profile, of) for of in ("cells", "places", "curves"))
    claims = load()
    tables = {claim.look.table for claim in claims if claim.look}
    looked = {table: results.read(profile, table) for table in sorted(tables)}
    proved = results.certified(profile)
    records = judge(claims, cells, profile, places, curves, looked, proved)
    for name, text in {
        "claims.json": _json(records),
        "claims.md": page(records),
        "metrics.json": _json(metrics(records, cells)),
    }.items():
        with paths.write_atomically(folder / name) as draft:
            draft.write_text(text, encoding="utf-8")
    return records


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
