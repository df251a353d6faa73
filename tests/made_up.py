"""Result tables made up for tests: as evaluation writes them, with accuracies that we choose."""

import numpy as np
import pandas as pd

from carry.evaluation.faults import KINDS
from carry.evaluation.intervals import with_interval

# How far each row goes, as a multiple of the training lengths, and from which start.
REACH = {
    "addition_nope": 1.05,
    "addition_learned": 1.0,
    "addition_rope": 1.05,
    "addition_fire": 1.2,
    "addition_abacus": 1.7,
    "addition_coupled": 3.2,
    "addition_abacus_looped": 2.1,
    "addition_abacus_fire": 1.9,
    "addition_relative": 1e9,
}
TABLES = [row for row in REACH if "abacus" in row or "coupled" in row]  # those whose start matters


def accuracy(reach, longest, trained, seed):
    """Fall from one to nothing around the reach, which differs from seed to seed."""
    middle = trained * reach * (1 + 0.08 * (seed - 1)) + 0.5
    return 1 / (1 + np.exp(np.minimum((longest - middle) / (0.06 * middle), 50)))


def cells(rows=REACH, trained=10, grid=30, each=20, equal=200, far=None, seeds=3, share=None):
    """Return accuracy by cell; `share(row, longest, seed, start)` may say what is right."""
    random = np.random.default_rng(0)
    lengths = [("grid", i, j, each) for i in range(1, grid + 1) for j in range(1, grid + 1)]
    lengths += [("equal", i, i, equal) for i in range(1, grid + 1)]
    found = []
    for row in rows:
        beyond = far if far is not None else {100: 1000, 1000: 100}
        own = lengths + [("far", i, i, n) for i, n in beyond.items() if row == "addition_relative"]
        for seed in range(seeds):
            for start in ("1", "middle") if row in TABLES else ("1",):
                for kind, i, j, n in own:
                    reach = REACH.get(row, 1.0) * (0.8 if start == "1" else 1.0)
                    right = share(row, max(i, j), seed, start) if share else None
                    right = accuracy(reach, max(i, j), trained, seed) if right is None else right
                    exact = random.binomial(n, right)
                    wrong = random.multinomial(n - exact, [0.3, 0.1, 0.2, 0.05, 0.25, 0.1])
                    found.append([row, "cpu", seed, trained, start, kind, i, j, n, exact, *wrong])
    names = ["row", "profile", "seed", "trained", "start", "set", "i", "j", "n", "exact", *KINDS]
    table = with_interval(pd.DataFrame(found, columns=names))
    return table.assign(first_right=table["n"], digits_right=np.nan)


def places(rows=REACH, trained=10, grid=30, n=200, seeds=3):
    """Return accuracy by place of equal lengths, worse at the higher places."""
    random = np.random.default_rng(1)
    found = []
    for row in rows:
        for seed in range(seeds):
            for start in ("1", "middle") if row in TABLES else ("1",):
                for digits in range(1, grid + 1):
                    right = accuracy(REACH[row], np.arange(digits + 1), trained, seed)
                    right = np.maximum(right, 0.1) if digits > trained * REACH[row] else right
                    for place, share in enumerate(right):
                        correct = random.binomial(n, share)
                        found.append([row, "cpu", seed, trained, start, "equal", digits, place, n])
                        found[-1] += [correct, n - correct]
    names = ["row", "profile", "seed", "trained", "start", "set", "digits", "place", "n"]
    return with_interval(pd.DataFrame(found, columns=[*names, "correct", "first_wrong"]), "correct")


def curves(rows=REACH, seeds=3, steps=1500, every=100):
    """Return learning curves; the last seed of each row stops early."""
    found = []
    for number, row in enumerate(rows):
        for seed in range(seeds):
            last = steps - 300 * (seed == seeds - 1)
            for step in range(every, last + 1, every):
                learnt = 1 / (1 + np.exp(-(step - 300 - 90 * number - 60 * seed) / 60))
                found.append([row, "cpu", seed, step, 2.3 * (1 - learnt) + 1e-3, learnt, 1e-3])
    names = ["row", "profile", "seed", "step", "loss", "exact", "rate"]
    return pd.DataFrame(found, columns=names)


def results(root, rows, profile="cpu"):
    """Write all tables of some rows as the evaluation stage does, under a project folder."""
    tables = {"cells": cells(rows), "places": places(rows), "curves": curves(rows)}
    for row in rows:
        folder = root / "reports" / "results" / profile / row
        folder.mkdir(parents=True)
        for name, table in tables.items():
            table[table["row"] == row].to_parquet(folder / f"{name}.parquet", index=False)
