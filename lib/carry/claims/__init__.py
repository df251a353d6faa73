"""Claims of each work, tested on the result tables: claims/*.yaml become a ledger.

One file for each work has a list of claims:

    - id: abacus_in_distribution
      section: A.4.2
      statement: Abacus adds numbers of the training lengths without error, or nearly so.
      paper_value: 100% or very close to it
      measure: {rows: [addition_abacus], where: {region: in distribution}, statistic: worst_seed}
      holds_if: ">= 0.99"

`measure` selects cells of the result tables, from the papers' start of ids unless `where` has
another, and computes a statistic for each seed. Other kinds of evidence: `analysis`, a count in the
table of an analysis; `thesis_runs`, the paired runs of ibrahimli2024; `parameters`, millions of
parameters of rows at the scale `paper`; `construction` and `circuits`, a test of the model of a
proof; `certified`, the seeds of a row with an exact certificate. A claim that cannot be tested has
`not_tested` with the reason.

Gate: only seeds that reach 99% at their trained lengths are measured; where half of the seeds of a
row do not, or more, the claim is "not learned here".

`compare` sets another row (or start, or place) against it; the claim is then about the difference,
and only rows of the same training length are compared. It is tested over seeds (see
`carry.evaluation.differences`), with at least 5 on each side, and all tests of a work are corrected
together by Holm. `holds_if: "> 0"` tests an order, `margin: 0.1` tests that there is no larger
difference. `items` are those of `items.yaml` that the claim is about.

Every claim is also judged from each other start of ids that its rows were evaluated from.

Without `compare`, a claim holds only if its whole interval fulfils the condition:

    statistic               the number                  its interval, 95%
    mean_over_seeds         the mean of the seeds       t over the seeds, of which there are 3 or
                                                        more; at least Wilson's of all problems
    worst_seed, best_seed   accuracy of that seed       Wilson's, of that seed
    worst_cell              the median seed in the      Wilson's, of that seed in this cell
                            cell of the least median
    lowest                  the least accuracy of any   Wilson's, of that seed in this cell
                            seed in any cell
    errors                  wrong answers of all seeds  none: the claim is about these problems only
    seeds_certified         share of certified seeds    none: a proof is not a sample
    seeds_above             share of seeds that reach   Wilson's, by the number of seeds (of a
                            an accuracy                 difference: Newcombe's)
    a difference            of two such numbers         Welch's t over seeds, at least Newcombe's
                                                        of all problems; t of pairs within a row
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from carry import results
from carry.claims.claim_settings import load_claims
from carry.claims.ledger_page import render_ledger
from carry.claims.verdicts import judge_claims
from carry.config import paths

__all__ = ["judge_claims", "load_claims", "render_ledger", "write_ledger"]


def write_ledger(folder: Path = paths.REPORTS) -> list[dict[str, Any]]:
    """Test all claims on the results in git, write claims.json and claims.md, and return records.

    Of rows with results at several scales, those of a laptop are measured.
    """
    records = judge_claims(load_claims(), results.open_results(), results.read_certificates())
    text = json.dumps(records, indent=2, ensure_ascii=False) + "\n"
    paths.write_file(folder / "claims.json", text)
    paths.write_file(folder / "claims.md", render_ledger(records))
    return records
