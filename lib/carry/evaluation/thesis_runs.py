"""The runs of ibrahimli2024's experiment 27, and their paired analysis: do sub-tasks help?

`claims/ibrahimli2024_sub_tasks.csv` has one line for each of the thesis' own runs: `task` (`add`:
additions alone; `mix`: as many problems, shared among addition and four sub-tasks), model `width`,
number of training `problems`, `seed`, `steps`, and loss and exact match at the trained lengths (1
to 7 and 9 digits), at 8 digits (between them) and at 10 and 11 (beyond). Runs of equal width,
problems and seed are a pair: widths and numbers of problems have unlike numbers of runs, so means
over all runs of a task compare other models too.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from carry.config import paths
from carry.config.settings import SettingsError
from carry.evaluation.differences import compute_permutation_p
from carry.evaluation.intervals import seed_interval

FILE = paths.ROOT / "claims" / "ibrahimli2024_sub_tasks.csv"
KEYS = ["width", "problems", "seed"]
LEARNED = 0.99  # exact match at the trained lengths of a run that has learned them
TASKS = ("add", "mix")
LENGTHS = ("trained_lengths", "8", "10", "11")
SCORES = [f"{score}_{length}" for score in ("loss", "exact") for length in LENGTHS]
SMALLEST_LOSS = 1e-6  # of the file, which has six decimals


class PairedComparison(NamedTuple):
    """How far `mix` is ahead of `add`, over pairs of runs.

    `lead` is the mean difference of exact match, or of the decadic logarithm of the loss (1: a
    tenth of it), and (`low`, `high`) its 95% t interval over pairs; `ahead`, `behind` and `equal`
    count pairs. `p` belongs to the permutation of signs and `p_sign` to the sign test, both for mix
    ahead of add; `p_behind` to the permutation for mix behind add.
    """

    pairs: int
    ahead: int
    behind: int
    equal: int
    lead: float
    low: float
    high: float
    p: float
    p_behind: float
    p_sign: float


def read_runs() -> pd.DataFrame:
    """Return the thesis' runs, one for each line of the file.

    >>> runs = read_runs()
    >>> len(runs), runs["task"].value_counts().to_dict()
    (189, {'add': 102, 'mix': 87})
    """
    return pd.read_csv(FILE)


def pair_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs of runs with equal width, problems and seed, one for each line.

    Their scores have the task as a suffix.

    >>> pairs = pair_runs(read_runs())
    >>> len(pairs), bool(((pairs["exact_8_mix"] - pairs["exact_8_add"]) > 0).sum() == 52)
    (85, True)
    """
    add, mix = (runs.loc[runs["task"] == task, [*KEYS, *SCORES]] for task in TASKS)
    return add.merge(mix, on=KEYS, suffixes=("_add", "_mix"))


def select_learned_pairs(pairs: pd.DataFrame, level: float = LEARNED) -> pd.DataFrame:
    """Return the pairs of which both runs have learned the trained lengths.

    >>> len(select_learned_pairs(pair_runs(read_runs())))
    36
    """
    exact = pairs[[f"exact_trained_lengths_{task}" for task in TASKS]]
    return pairs[(exact >= level).all(axis=1)]


def compare_pairs(
    pairs: pd.DataFrame, length: str = "8", score: Literal["exact", "loss"] = "exact"
) -> PairedComparison:
    """Compare exact match, or loss, of `mix` and `add` at one of `LENGTHS`, over pairs of runs.

    >>> comparison = compare_pairs(pair_runs(read_runs()))
    >>> comparison.ahead, comparison.behind, comparison.equal, round(comparison.lead, 3)
    (52, 23, 10, 0.231)

    Raises:
        SettingsError: without pairs.
    """
    if pairs.empty:
        raise SettingsError("pairs: none; expected at least one pair of runs")
    add, mix = (pairs[f"{score}_{length}_{task}"].to_numpy() for task in TASKS)
    if score == "loss":  # the smaller one is ahead; losses differ by factors
        add, mix = (-np.log10(np.maximum(loss, SMALLEST_LOSS)) for loss in (add, mix))
    lead = mix - add
    ahead, behind = int((lead > 0).sum()), int((lead < 0).sum())
    sign = stats.binomtest(ahead, max(ahead + behind, 1), alternative="greater")
    return PairedComparison(
        len(pairs),
        ahead,
        behind,
        len(pairs) - ahead - behind,
        float(lead.mean()),
        *seed_interval(lead),
        compute_permutation_p(mix, add, "greater", paired=True),
        compute_permutation_p(add, mix, "greater", paired=True),
        float(sign.pvalue),
    )
