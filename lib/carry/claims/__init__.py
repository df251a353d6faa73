"""Claims of each work, tested on the result tables: claims/*.yaml become a ledger.

One file for each work has a list of claims:

    - id: abacus_in_distribution
      section: A.4.2
      statement: Abacus adds numbers of the training lengths without error, or nearly so.
      paper_value: 100% or very close to it
      measure: {rows: [addition_abacus], where: {region: in distribution}, statistic: worst_seed}
      holds_if: ">= 0.99"

`measure` selects cells of the result tables and computes a statistic. `compare` does the same for
another row (or start, or place); the claim is then about the difference, and is tested only for
rows with the same training length. Other kinds of evidence: `analysis`, a count in the table of an
analysis; `parameters`, millions of parameters of rows of the profile `paper`; `construction` and
`circuits`, a test of the model of a proof; `certified`, the seeds of a row with an exact
certificate. A claim that cannot be tested has `not_tested` with the reason. It is also not tested
unless the rows of `requires_learned` have learned in distribution. A claim holds only if its whole
interval fulfils the condition:

    statistic               the number                  its interval
    median_over_seeds       the median of the seeds     from the lowest seed to the highest, widened
                                                        to Wilson's for the problems of all seeds
    pooled                  all seeds, as one sample    Wilson's, 95%
    worst_seed, best_seed   accuracy of that seed       Wilson's, 95%, of that seed
    worst_cell              the median of the seeds in  as for the median, with the problems of this
                            the worst cell              cell
    errors                  wrong answers of all seeds  none: the claim is about these problems only
    seeds_certified         share of certified seeds    none: a proof is not a sample
    seeds_above             share of seeds that reach   Wilson's, 95%, by the number of seeds (of a
                            an accuracy                 difference: Newcombe's, 95%)
    a difference            of two such numbers         each seed of one against each seed of the
                                                        other, widened to Newcombe's, 95%, for the
                                                        problems of all seeds

The range of three seeds contains the median of all seeds with probability 3/4, no more. If two rows
are equal, all three seeds of one exceed all three of the other with probability 1/20.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from carry.claims.claim_settings import FOLDER, Claim, load_claims
from carry.claims.ledger_page import (
    describe_measurement,
    render_ledger,
    summarise_verdicts,
)
from carry.claims.verdicts import METHOD, VERDICTS, judge_claims
from carry.config import paths
from carry.plots import load as results

__all__ = [
    "FOLDER",
    "METHOD",
    "VERDICTS",
    "Claim",
    "describe_measurement",
    "judge_claims",
    "load_claims",
    "render_ledger",
    "summarise_verdicts",
    "write_ledger",
]


def write_ledger(profile: str, folder: Path | None = None) -> list[dict[str, Any]]:
    """Test all claims on the results of a profile; write claims.json and claims.md.

    Returns:
        The records, as in claims.json.
    """
    folder = folder or paths.reports_path(profile)
    claims = load_claims()
    cells = results.read_table(profile, "cells")
    tables = sorted({claim.analysis.table for claim in claims if claim.analysis})
    records = judge_claims(
        claims,
        cells,
        profile,
        places=results.read_table(profile, "places"),
        curves=results.read_table(profile, "curves"),
        analyses={table: results.read_table(profile, table) for table in tables},
        certificates=results.read_certificates(profile),
    )
    for name, text in {
        "claims.json": _to_json(records),
        "claims.md": render_ledger(records),
    }.items():
        with paths.write_atomically(folder / name) as draft:
            draft.write_text(text, encoding="utf-8")
    return records


def _to_json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
