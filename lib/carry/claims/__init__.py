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
parameters of rows at the scale `paper`; `construction`, `circuits` and `automata`, a test of the
model of a proof; `certified`, the seeds of a row with an exact certificate. A claim that cannot be
tested has `not_tested` with the reason.

`compare` sets another row (or start, or place) against it; the claim is then about the difference,
and only rows of the same training length are compared. It is tested over seeds (see
`carry.evaluation.differences`), with at least 5 on each side. `holds_if: "> 0"` tests an order,
`margin: 0.1` tests that there is no larger difference. `items` are those of `items.yaml` that the
claim is about; the tests of the same first item are corrected together. `first_seed` is the first
seed that counts, if the statistic was chosen after a look at those before. `carry.claims.verdicts`
says which answers a claim can have. Without `compare`, a level is reached only if its whole
interval fulfils the condition:

    statistic               the number                  its interval, 95%
    mean_over_seeds         the mean of the seeds       t over the seeds; at least Wilson's of all
                                                        problems
    worst_seed, best_seed   accuracy of that seed       Wilson's, of that seed
    share_of_cells          the share of a seed's       as of mean_over_seeds, of cells
                            cells that reach `above`,
                            as a mean of seeds
    share_of_seeds          share of seeds that reach   Wilson's, by the number of seeds (of a
                            `above`                     difference: Newcombe's)
    half_length             the length, in digits, at   t over the seeds
                            which half is solved, as a
                            mean of seeds
    mean_value              the mean of a column of     t over the seeds
                            an analysis, as a mean
                            of seeds
    errors                  wrong answers of all seeds  none: the claim is about these problems only
    seeds_certified         share of certified seeds    none: a proof is not a sample
    a difference            of two such numbers         Welch's t over seeds, at least Newcombe's
                                                        of all problems; t of pairs within a row
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from carry import results
from carry.claims.claim_settings import load_claims
from carry.claims.ledger_page import render_ledger, render_own_claims
from carry.claims.verdicts import judge_claims
from carry.config import paths

__all__ = ["judge_claims", "load_claims", "render_ledger", "write_ledger"]


def write_ledger(folder: Path = paths.REPORTS) -> list[dict[str, Any]]:
    """Test all claims on the results in git, write them to a folder, and return their records.

    claims.json has all records, claims.md those of the works, and own_claims.md our own.

    Of rows with results at several scales, those of a laptop are measured.
    """
    records = judge_claims(load_claims(), results.open_results(), results.read_certificates())
    text = json.dumps(records, indent=2, ensure_ascii=False) + "\n"
    paths.write_file(folder / "claims.json", text)
    paths.write_file(folder / "claims.md", render_ledger(records))
    paths.write_file(folder / "own_claims.md", render_own_claims(records))
    return records
