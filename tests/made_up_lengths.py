"""Tables made up for tests, of rows whose operands are as long as each other (ibrahimli2024)."""

import itertools

import numpy as np
import pandas as pd

from carry.analyses.learning import KINDS
from carry.evaluation import mistakes
from carry.evaluation.intervals import add_interval

MODEL = ("row", "scale", "seed", "trained")
STEPS = tuple(range(80, 801, 80))


def seen(row):
    """Return the lengths that a row is trained on."""
    return [1, 2, 3, 4, 7] if row.endswith("_gap") else [1, 2, 3, 4, 6]


def tested(row):
    """Return the lengths that a row is tested on."""
    return range(1, max(seen(row)) + 3)


def share(row, digits):
    """Return how many answers are right: all that were trained, few others."""
    return 0.99 if digits in seen(row) else 0.03


def cells(row, seeds=2, n=50):
    """Return accuracy by length."""
    random, found = np.random.default_rng(3), []
    for seed, digits in itertools.product(range(seeds), tested(row)):
        exact = random.binomial(n, share(row, digits))
        wrong = random.multinomial(n - exact, [0.3, 0.1, 0.2, 0.05, 0.25, 0.1])
        known = [row, "laptop", seed, max(seen(row)), "1", "equal", digits, digits, n, exact]
        found.append([*known, *wrong])
    names = ["row", "scale", "seed", "trained", "start", "set", "i", "j", "n", "exact"]
    table = add_interval(pd.DataFrame(found, columns=[*names, *mistakes.KINDS]))
    return table.assign(first_right=table["n"], digits_right=np.nan)


def losses(rows, seeds=2, n=50):
    """Return losses that fall where lengths are trained."""
    found = []
    for row, seed, step in itertools.product(rows, range(seeds), STEPS):
        for digits in tested(row):
            known = digits in seen(row)
            loss = 2.3 * np.exp(-step / (60 * (digits + seed))) + 0.01 if known else 2.5
            exact = min(n, step // (3 * digits)) if known else 0
            trained = max(seen(row))
            found.append([row, "laptop", seed, trained, step, digits, n, loss, exact, known])
    names = [*MODEL, "step", "digits", "n", "loss", "exact", "seen"]
    return add_interval(pd.DataFrame(found, columns=names))


def written(rows, seeds=2, n=60):
    """Return kinds of answers: right where lengths are trained, of all kinds elsewhere."""
    found = []
    for row, seed in itertools.product(rows, range(seeds)):
        for digits in tested(row):
            right = int(n * share(row, digits))
            others = np.full(len(KINDS) - 1, (n - right) // (len(KINDS) - 1))
            others[0] += n - right - others.sum()
            for kind, count in zip(KINDS, [right, *others], strict=True):
                found.append([row, "laptop", seed, max(seen(row)), digits, kind, n, count])
    names = [*MODEL, "digits", "kind", "n", "count"]
    return add_interval(pd.DataFrame(found, columns=names), "count")
