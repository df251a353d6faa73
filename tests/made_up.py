"""Result tables made up for tests: as evaluation writes them, with accuracies that we choose."""

import itertools

import numpy as np
import pandas as pd

from carry.evaluation.intervals import add_interval
from carry.evaluation.mistakes import KINDS
from carry.experiments import load_rows
from carry.results import CERTIFICATE_COLUMNS, find_declared_columns

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
# Rows whose start matters.
TABLES = [*(row for row in REACH if "abacus" in row or "coupled" in row), "addition_coupled_short"]
STARTS = ("1", "all")


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
            for start in STARTS if row in TABLES else ("1",):
                for kind, i, j, n in own:
                    reach = REACH.get(row, 1.3) * (0.8 if start == "1" else 1.0)
                    right = share(row, max(i, j), seed, start) if share else None
                    right = accuracy(reach, max(i, j), trained, seed) if right is None else right
                    exact = random.binomial(n, right)
                    wrong = random.multinomial(n - exact, [0.3, 0.1, 0.2, 0.05, 0.25, 0.1])
                    found.append(
                        [row, "laptop", seed, trained, start, kind, i, j, n, exact, *wrong]
                    )
    names = ["row", "scale", "seed", "trained", "start", "set", "i", "j", "n", "exact", *KINDS]
    table = add_interval(pd.DataFrame(found, columns=names))
    return table.assign(first_right=table["n"], digits_right=np.nan)


def places(rows=REACH, trained=10, grid=30, n=200, seeds=3):
    """Return accuracy by place of equal lengths, worse at the higher places."""
    random = np.random.default_rng(1)
    found = []
    for row in rows:
        for seed in range(seeds):
            for start in STARTS if row in TABLES else ("1",):
                for digits in range(1, grid + 1):
                    right = accuracy(REACH.get(row, 1.3), np.arange(digits + 1), trained, seed)
                    right = (
                        np.maximum(right, 0.1) if digits > trained * REACH.get(row, 1.3) else right
                    )
                    for place, share in enumerate(right):
                        correct = random.binomial(n, share)
                        found.append(
                            [row, "laptop", seed, trained, start, "equal", digits, place, n]
                        )
                        found[-1] += [correct, n - correct]
    names = ["row", "scale", "seed", "trained", "start", "set", "digits", "place", "n"]
    return add_interval(pd.DataFrame(found, columns=[*names, "correct", "first_wrong"]), "correct")


def curves(rows=REACH, seeds=3, steps=1500, every=100):
    """Return learning curves; the last seed of each row stops early."""
    found = []
    for number, row in enumerate(rows):
        for seed in range(seeds):
            last = steps - 300 * (seed == seeds - 1)
            for step in range(every, last + 1, every):
                learnt = 1 / (1 + np.exp(-(step - 300 - 90 * number - 60 * seed) / 60))
                found.append([row, "laptop", seed, step, 2.3 * (1 - learnt) + 1e-3, learnt, 1e-3])
    names = ["row", "scale", "seed", "step", "loss", "exact", "rate"]
    table = pd.DataFrame(found, columns=names)
    halved = table["row"].str.startswith("noisy_majority")
    # Once all heads, in the middle two, then one.
    table["heads"] = (4 / 2 ** (table["step"] // 500)).clip(lower=1).where(halved)
    return table


def results(root, rows, scale="laptop"):
    """Write all tables of some rows as they are in git, under a project folder."""
    tables = {"cells": cells(rows), "places": places(rows), "curves": curves(rows)}
    studies = {row: load_rows()[row].study for row in rows}
    for study in {*studies.values()}:
        folder = root / "reports" / "results" / study
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            mine = table[table["row"].map(studies) == study]
            mine.assign(scale=scale).to_parquet(folder / f"{name}.parquet", index=False)


def answers(row, digits=20):
    """Return one answer of a row with two recurrences, its low places right first."""
    found = []
    for step, place in itertools.product(range(1, 5), range(digits + 1)):
        due = "$" if place == digits else str(7 * place % 10)
        said = due if place < 12.5 * step else "0"
        found.append([row, "laptop", 0, 10, "1", digits, 2, step, place, place, due, said])
    return pd.DataFrame(found, columns=find_declared_columns()["answers"])


def certificates():
    """Return certificates of all verdicts that there are."""
    found = []
    for row, verdict in (("addition_relative", "exact"), ("addition_relative", "exact"),
                         ("multiplication_relative_scratchpad", "wrong"),
                         ("copying_relative", "open"), ("parity_relative_scratchpad", "sampled"),
                         ):  # fmt: skip
        lead = {"wrong": -0.5, "open": 0.1}.get(verdict, 3.0)
        errors = [400, 3 * (lead < 0), 0, lead, 0.5, lead - 0.5]
        found.append([row, len(found), 10, 5_000, verdict, *errors, verdict == "exact"])
    return pd.DataFrame(found, columns=CERTIFICATE_COLUMNS)
