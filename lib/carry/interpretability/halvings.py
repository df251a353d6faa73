"""What happens to the accuracy of a model when heads are dropped (fraknoi2024, 5.5 and Fig. 10).

The thesis has three kinds of runs: `small drops`; a `large drop` at the last halving, from which
the model recovers; and runs that are `not recovered`.
"""

from __future__ import annotations

import pandas as pd

LARGE_DROP = 0.1  # ours; the thesis shows curves
AFTER = 3  # points of the curve after a halving in which the lowest accuracy is looked for
KINDS = ("small drops", "large drop", "not recovered")


def describe_halvings(curves: pd.DataFrame, recovered: float = 0.95) -> pd.DataFrame:
    """Return for each model how its heads were dropped, and what that did.

    Columns: `row`, `seed`, the number of `halvings`, the `heads` that are left, the largest `drop`
    of the accuracy at a halving before the last one, the drop at the last one (`last_drop`), the
    `best` accuracy after it, and the `kind` of run. A drop is the accuracy before a halving less
    the lowest of the next `AFTER` points. A run is not recovered if it has more than one head left,
    or if its best accuracy after the last halving is below `recovered`.

    Args:
        curves: with the columns `row`, `seed`, `step`, `exact` (held-out accuracy), and `heads`:
            those that the model had when the accuracy was measured.
        recovered: an accuracy; halvings start from it.

    >>> curves = pd.DataFrame({"row": "a", "seed": 0, "step": range(6),
    ...     "heads": [2, 2, 1, 1, 1, 1], "exact": [0.6, 0.96, 0.7, 0.9, 0.99, 1.0]})
    >>> table = describe_halvings(curves)
    >>> table[["halvings", "last_drop", "best", "kind"]].round(2).values.tolist()
    [[1, 0.26, 1.0, 'large drop']]
    """
    rows = []
    for (row, seed), curve in curves.sort_values("step").groupby(["row", "seed"], sort=False):
        heads, exact = curve["heads"].to_numpy(), curve["exact"].to_numpy()
        halvings = (heads[1:] < heads[:-1]).nonzero()[0] + 1  # the first points with fewer heads
        drops = [float(exact[at - 1] - exact[at : at + AFTER].min()) for at in halvings]
        best = float(exact[halvings[-1] if len(halvings) else 0 :].max())
        last = drops[-1] if drops else 0.0
        kind = "large drop" if last >= LARGE_DROP else "small drops"
        if heads[-1] > 1 or best < recovered:
            kind = "not recovered"
        sizes = {"row": row, "seed": seed, "halvings": len(halvings), "heads": int(heads[-1])}
        drop = {"drop": max(drops[:-1], default=0.0), "last_drop": last}
        rows.append({**sizes, **drop, "best": best, "kind": kind})
    return pd.DataFrame(rows)
