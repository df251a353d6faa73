"""The phases of grokking: memorisation, circuit formation, clean-up (fraknoi2024, section 4).

Nanda et al. 2023 choose the steps between them by eye; here they follow from accuracy and loss.
"""

from __future__ import annotations

import pandas as pd

PHASES = ("memorisation", "circuit formation", "clean-up")
MEMORISED = 0.99  # accuracy on trained pairs
FORMED = 0.1  # share of the restricted loss before training


def find_phases(progress: pd.DataFrame) -> pd.DataFrame:
    """Return the phases of each seed, with the steps at which they `begin` and `end`.

    Memorisation ends at the first snapshot with 99% accuracy on trained pairs. From then on, the
    circuit has formed at the first snapshot with a restricted loss of a tenth of its start. The
    rest is clean-up. The last phase that a seed reaches ends with the last snapshot.

    Args:
        progress: the table of a row whose frequencies are known (`carry.analyses.modular`).

    >>> columns = {"seed": 0, "step": [0, 10, 20, 30]}
    >>> trained = pd.DataFrame({**columns, "set": "trained", "accuracy": [0, 1, 1, 1]})
    >>> every = pd.DataFrame({**columns, "set": "all", "restricted": [4, 3, 0.3, 0]})
    >>> find_phases(pd.concat([trained, every])).values.tolist()
    [[0, 'memorisation', 0, 10], [0, 'circuit formation', 10, 20], [0, 'clean-up', 20, 30]]
    """
    phases = []
    for seed, part in progress.sort_values("step").groupby("seed"):
        trained, every = part[part["set"] == "trained"], part[part["set"] == "all"]
        memorised = trained.loc[trained["accuracy"] >= MEMORISED, "step"].min()
        has_formed = every["restricted"] <= FORMED * every["restricted"].iloc[0]
        formed = every.loc[has_formed & (every["step"] >= memorised), "step"].min()
        begin, last = part["step"].min(), part["step"].max()
        for phase, end in zip(PHASES, (memorised, formed, last), strict=True):
            end = last if pd.isna(end) else int(end)
            if begin < end:
                phases.append((seed, phase, begin, end))
            begin = end
    return pd.DataFrame(phases, columns=["seed", "phase", "begin", "end"])
