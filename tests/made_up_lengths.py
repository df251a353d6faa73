"""Tables made up for tests, of rows whose operands are as long as each other (ibrahimli2024)."""

import itertools

import numpy as np
import pandas as pd

from carry.analyses.learning import KINDS
from carry.evaluation import mistakes
from carry.evaluation.intervals import add_interval
from carry.results import find_declared_columns

ORDER = find_declared_columns()
SHARES = ("accuracy", "low", "high")
STEPS = tuple(range(80, 801, 80))
STARTS = {True: ("1", "all"), False: ("1",)}


def is_equal(row):
    """Return whether a row is of this kind."""
    return row.startswith("addition_equal_")


def seen(row):
    """Return the lengths that a row is trained on."""
    if row.endswith("baseline"):
        return [1, 3]
    if row.endswith("worded"):
        return [1, 2, 3]
    if row.endswith("longer"):
        return [1, 2, 3, 4, 5]
    if row.startswith(("addition_equal_alone", "addition_equal_parts")):
        return [1, 2, 4]
    if row.endswith(("plain", "padded", "operands", "reversed", "spaces", "no_gap")):
        return [1, 2, 3, 4]
    return [1, 2, 3, 4, 7] if row.endswith("_gap") else [1, 2, 3, 4, 6]


def tested(row):
    """Return the lengths that a row is tested on."""
    longest = max(seen(row))
    return range(1, longest + (2 if longest in (3, 5) else 3))


def share(row, digits, seed=0):
    """Return how many answers are right: all that were trained, few others, more with Abacus."""
    if digits in seen(row):
        return 0.99
    return (0.9 if digits < max(seen(row)) else 0.6) - 0.1 * seed if "abacus" in row else 0.03


def cells(row, seeds=2, n=50):
    """Return accuracy by length."""
    random, found = np.random.default_rng(3), []
    kinds = itertools.product(range(seeds), STARTS["abacus" in row], tested(row))
    for seed, start, digits in kinds:
        exact = random.binomial(n, share(row, digits, seed))
        wrong = random.multinomial(n - exact, [0.3, 0.1, 0.2, 0.05, 0.25, 0.1])
        known = [row, "laptop", seed, max(seen(row)), start, "equal", digits, digits, n, exact]
        found.append([*known, *wrong])
    names = ["row", "scale", "seed", "trained", "start", "set", "i", "j", "n", "exact"]
    table = add_interval(pd.DataFrame(found, columns=[*names, *mistakes.KINDS]))
    some = table["exact"] + (table["n"] - table["exact"]) // 2 if "worded" in row else np.nan
    return table.assign(first_right=table["n"], digits_right=some)


def _table(name, rows, found, hits):
    columns = [of for of in ORDER[name] if of not in SHARES]
    table = add_interval(pd.DataFrame(found, columns=columns), hits)
    return table[ORDER[name]]


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
    return _table("losses", rows, found, "exact")


def written(rows, seeds=2, n=60):
    """Return kinds of answers: right where lengths are trained, of all kinds elsewhere."""
    found = []
    for row, seed in itertools.product(rows, range(seeds)):
        for digits in tested(row):
            right = int(n * share(row, digits, seed))
            others = np.full(len(KINDS) - 1, (n - right) // (len(KINDS) - 1))
            others[0] += n - right - others.sum()
            for kind, count in zip(KINDS, [right, *others], strict=True):
                found.append([row, "laptop", seed, max(seen(row)), kind, n, count, digits])
    return _table("answer_kinds", rows, found, "count")
