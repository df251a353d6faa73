"""The choice between variants, by lengths beyond training at which no chosen row is reported."""

from __future__ import annotations

import pandas as pd

from carry.variants import REFERENCE

KEYS = ["variant_set", "group", "variant"]
COLUMNS = {
    "choices": (*KEYS, "seeds", "band", "band_worst", "band_loss", "beyond", "chosen"),
}


def choose_variants(band: pd.DataFrame, lengths: pd.DataFrame) -> pd.DataFrame:
    """Return the candidates of each group with their scores, and which of them is `chosen`.

    The candidates are the variants of the group and those of the set's reference. The chosen one
    has the best sum of the seeds' median accuracy in the validation band (`band`; `band_worst`: the
    worst seed) and at multiples of the trained length (`beyond`), since all candidates may be exact
    in the band; of equal ones, the least median loss of a response (`band_loss`); then the first.

    >>> band = pd.DataFrame({"variant_set": "mine", "group": ["reference", "width", "width"],
    ...     "variant": ["row", "8", "32"], "seed": 0, "n": 4, "exact": [3, 1, 3],
    ...     "loss": [0.2, 0.9, 0.1]})
    >>> lengths = band.assign(times=2, exact=[4, 4, 0])
    >>> table = choose_variants(band, lengths)
    >>> table[["variant", "band", "beyond", "chosen"]].values.tolist()
    [['row', 0.75, 1.0, True], ['8', 0.25, 1.0, False], ['32', 0.75, 0.0, False]]
    """
    scores = _score_variants(band, lengths)
    reference = scores[scores["group"] == REFERENCE]
    groups = []
    for (name, group), part in scores.groupby(["variant_set", "group"], sort=False):
        if group != REFERENCE:
            part = pd.concat([reference[reference["variant_set"] == name], part])
            part = part.assign(group=group).reset_index(drop=True)
            ranked = part.assign(score=part["band"] + part["beyond"]).sort_values(
                ["score", "band_loss"], ascending=[False, True], kind="stable"
            )
            groups.append(part.assign(chosen=part.index == ranked.index[0]))
    table = pd.concat(groups or [scores.assign(chosen=True)], ignore_index=True)
    return table[[*COLUMNS["choices"]]]


def _score_variants(band: pd.DataFrame, lengths: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of each variant, over its seeds."""
    seeds = [*KEYS, "seed"]
    counts = band.groupby(seeds, sort=False)[["exact", "n"]].sum()
    scores = pd.DataFrame({"accuracy": counts["exact"] / counts["n"].where(counts["n"] > 0)})
    scores["loss"] = band.groupby(seeds, sort=False)["loss"].mean()
    beyond = lengths[lengths["times"] > 1].groupby(seeds, sort=False)[["exact", "n"]].sum()
    scores["beyond"] = beyond["exact"] / beyond["n"].where(beyond["n"] > 0)
    by_variant = scores.groupby(KEYS, sort=False)
    table = by_variant.median().rename(columns={"accuracy": "band", "loss": "band_loss"})
    table["band_worst"] = by_variant["accuracy"].min()
    return table.assign(seeds=by_variant.size()).reset_index()
