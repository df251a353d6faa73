"""Differences of two rows have the interval of the ledger, and an exact test over seeds."""

import itertools

import numpy as np
import pandas as pd
import pytest

from carry.evaluation import differences


def test_a_difference_has_the_interval_of_the_ledger_and_an_exact_test():
    """Against all ways to deal seeds out, one by one, and against seeds that are alike."""
    random = np.random.default_rng(3)
    for sizes in ((5, 5), (2, 3), (4, 2)):
        one, two = (random.integers(0, 100, size) / 100 for size in sizes)
        both, found = [*one, *two], []
        for chosen in itertools.combinations(range(len(both)), len(one)):
            first = [both[at] for at in chosen]
            rest = [both[at] for at in range(len(both)) if at not in chosen]
            found.append(abs(np.mean(first) - np.mean(rest)))
        seen = abs(one.mean() - two.mean())
        expected = np.mean([far >= seen - 1e-9 for far in found])
        assert differences.compute_permutation_p(one, two) == pytest.approx(expected)
    seeds = pd.DataFrame({"n": 1000, "exact": [900, 910, 905]})
    told = differences.compare_rows(seeds.assign(exact=seeds["exact"] - 500), seeds)
    assert told.measured == pytest.approx(-0.5) and told.p == pytest.approx(0.1) and told.n == 6000
    assert told.low < -0.51 and -0.49 < told.high < 0


def test_many_seeds_are_dealt_out_at_random():
    random = np.random.default_rng(4)
    one, two = random.normal(0, 1, 20), random.normal(0.7, 1, 20)
    found, again = (differences.compute_permutation_p(one, two) for _ in range(2))
    assert found == again and 0 < found < 0.5
    assert differences.compute_permutation_p(one, one) == 1
