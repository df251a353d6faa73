"""Each test's rate of false alarms, stated and measured; intervals against SciPy's.

Where the rate can be computed, it is. Else it is simulated, always with the same seed: an upper
bound is the count that a rate of 5% exceeds with probability below 1/1000, so that another seed
would rarely fail either. Simulations list all assignments of many comparisons at once, which the
library's tests agree with; those marked `slow` repeat them over sizes, spreads and shapes.
"""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from carry.config.settings import SettingsError
from carry.evaluation import differences, intervals, thesis_runs
from carry.evaluation.differences import ALPHA
from carry.evaluation.regions import REGIONS, score_worst_trained_size

TRIALS = 4000
LARGE = [(16, 60), (40, 40)]  # numbers of models that take long


def bound(trials=TRIALS, rate=ALPHA):
    """Return the share of false alarms that a rate exceeds with probability below 1/1000."""
    return stats.binom.ppf(0.999, trials, rate) / trials


def draw_seeds(random, shape, mean=0.7, spread=8.0, problems=200):
    """Return accuracies of seeds; a larger `spread` makes them more alike."""
    true = random.beta(spread * mean, spread * (1 - mean), shape)
    return random.binomial(problems, true) / problems


def enumerate_p(first, second):
    """Return the one-sided p of each line: the share of assignments with no smaller lead."""
    pooled, n = np.concatenate([first, second], axis=1), first.shape[1]
    chosen = np.array([*itertools.combinations(range(pooled.shape[1]), n)])
    sums = np.round(sum(pooled[:, places] for places in chosen.T), 9)
    return (sums >= sums[:, :1]).mean(1)


def enumerate_paired_p(lead):
    """Return the one-sided p of each line of leads: the share of signs with no smaller sum."""
    signs = np.array([*itertools.product([1, -1], repeat=lead.shape[1])])
    sums = np.round(lead @ signs.T, 9)
    return (sums >= sums[:, :1]).mean(1)


def equivalence_p(first, second, margin):
    return np.maximum(enumerate_p(first, second - margin), enumerate_p(second, first - margin))


@pytest.mark.parametrize("sizes", [(5, 5), (5, 6), (8, 5)])
def test_the_tests_list_every_assignment(sizes):
    random = np.random.default_rng(1)
    for problems in (200, 4):  # few problems make ties
        rows = [draw_seeds(random, (3, size), problems=problems) for size in sizes]
        for beyond in (0.0, 0.1, -0.2):
            listed = enumerate_p(rows[0], rows[1] + beyond)
            for one, other, p in zip(*rows, listed, strict=True):
                assert differences.compute_order_p(one, other, beyond) == pytest.approx(p)
        for one, other, p in zip(*rows, equivalence_p(*rows, 0.1), strict=True):
            assert differences.compute_equivalence_p(one, other, 0.1) == pytest.approx(p)
    lead = random.normal(0.1, 0.1, (4, 7))
    for one, p in zip(lead, enumerate_paired_p(lead), strict=True):
        assert differences.compute_order_p(one, 0 * one, paired=True) == pytest.approx(p)


@pytest.mark.parametrize("problems", [200, 5])
@pytest.mark.parametrize("mean", [0.5, 0.97])
def test_an_order_of_equal_rows_is_a_false_alarm_in_at_most_5_percent(mean, problems):
    """Exact, whatever the seeds are like: 12 of 252 assignments, 4.8%; fewer with ties."""
    random = np.random.default_rng(5)
    rows = draw_seeds(random, (2, TRIALS, 5), mean, problems=problems)
    assert (enumerate_p(*rows) <= ALPHA).mean() <= bound()


def test_every_assignment_is_equally_likely_so_the_rate_is_exact():
    """Over all ways to deal eight seeds out, p <= 5% in at most 5%, one-sided and two-sided."""
    pooled = draw_seeds(np.random.default_rng(6), 8)
    chosen = [list(of) for of in itertools.combinations(range(8), 4)]
    for alternative in ("greater", "two-sided"):
        p = [
            differences.compute_permutation_p(pooled[of], np.delete(pooled, of), alternative)
            for of in chosen
        ]
        assert np.mean(np.array(p) <= ALPHA) <= ALPHA and min(p) > 0


def test_rows_of_equal_means_and_unlike_spreads_are_a_false_alarm_in_at_most_8_percent():
    """Their seeds are not exchangeable, so 5% is not exact; stated in `differences`."""
    random = np.random.default_rng(7)
    rows = [draw_seeds(random, (TRIALS, 5), 0.5, spread, 1000) for spread in (2, 200)]
    assert (enumerate_p(*rows) <= ALPHA).mean() <= 0.08
    assert (enumerate_p(*rows[::-1]) <= ALPHA).mean() <= 0.08
    even = np.full((TRIALS, 5), 0.9)
    failing = (random.random((TRIALS, 5)) < 0.9).astype(float)  # one seed in ten fails
    assert (enumerate_p(failing, even) <= ALPHA).mean() == pytest.approx(0.9**5, abs=0.03)


def test_pairs_without_a_lead_are_a_false_alarm_in_at_most_5_percent():
    """Exact: over all signs of eight pairs, p <= 5% for 12 of 256, 4.7%."""
    random = np.random.default_rng(8)
    signs = np.array([*itertools.product([1, -1], repeat=8)])
    assert (enumerate_paired_p(signs * random.normal(size=8)) <= ALPHA).mean() <= ALPHA
    lead = np.subtract(*draw_seeds(random, (2, TRIALS, 6)))
    assert (enumerate_paired_p(lead) <= ALPHA).mean() <= bound()


@pytest.mark.parametrize(
    ("n", "other"),
    [(5, 5), (8, 12), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in LARGE)],
)
@pytest.mark.parametrize("beyond", [0.0, 0.2, -0.2])
def test_shares_of_models_are_a_false_alarm_in_at_most_5_percent(n, other, beyond):
    """The rate is computed over all results, for true shares that differ by `beyond`."""
    first, second = np.arange(n + 1), np.arange(other + 1)
    p = np.array([
        [differences.compute_order_p(_models(hits, n), _models(more, other), beyond, shares=True)
         for more in second]
        for hits in first
    ])  # fmt: skip
    for share in np.linspace(max(0.0, -beyond), min(1.0, 1 - beyond), 9):
        chances = stats.binom.pmf(first, n, share + beyond)[:, None]
        chances = chances * stats.binom.pmf(second, other, share)
        assert chances.sum() == pytest.approx(1)
        assert (chances * (p <= ALPHA)).sum() <= ALPHA + 1e-4  # between the shares that are tried


def _models(hits, n):
    return np.arange(n) < hits


@pytest.mark.parametrize("spread", [0.01, 0.1])
def test_rows_as_far_apart_as_the_margin_are_a_false_alarm_in_at_most_5_percent(spread):
    """Two one-sided tests at the margin itself: 4.8%, and fewer where the rows are noisy."""
    random = np.random.default_rng(9)
    rows = random.normal(0.1, spread, (TRIALS, 5)), random.normal(0, spread, (TRIALS, 5))
    assert (equivalence_p(*rows, 0.1) <= ALPHA).mean() <= bound()
    alike = random.normal(0, 0.01, (2, 100, 5))
    assert equivalence_p(*alike, 0.1).max() == pytest.approx(1 / 252)  # and rows alike are found


def test_many_seeds_are_dealt_out_at_random():
    random = np.random.default_rng(4)
    one, two = random.normal(0, 1, 20), random.normal(0.7, 1, 20)
    found, again = (differences.compute_permutation_p(one, two) for _ in range(2))
    assert found == again and 0 < found < 0.5
    assert differences.compute_permutation_p(one, one) == 1


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(5, 5), (6, 5), (8, 5)])
def test_false_alarms_over_sizes_spreads_and_shapes(sizes):
    """Equal rows: 5% for every shape. Equal means alone: the rates that `differences` states."""
    trials = 4_000_000 // math.comb(sum(sizes), sizes[0])
    random, worst = np.random.default_rng(20), 0.0
    for mean, spread, problems in itertools.product((0.05, 0.5, 0.9), (1, 8, 100), (5, 200)):
        rows = [draw_seeds(random, (trials, n), mean, spread, problems) for n in sizes]
        assert (enumerate_p(*rows) <= ALPHA).mean() <= bound(trials)
        rows = [random.normal(0, sd, (trials, n)) for sd, n in zip((1, spread), sizes, strict=True)]
        worst = max(worst, *((enumerate_p(*of) <= ALPHA).mean() for of in (rows, rows[::-1])))
    assert worst <= (0.08 if sizes[0] == sizes[1] else 0.13)


def test_a_sign_test_of_pairs_without_a_lead_is_a_false_alarm_in_at_most_5_percent():
    """The tasks of each pair of the thesis are exchanged by chance: both tests, at most 5%."""
    pairs = thesis_runs.pair_runs(thesis_runs.read_runs()).head(12)
    random, told = np.random.default_rng(9), []
    for _ in range(60):
        exchanged, mixed = random.random(len(pairs)) < 0.5, pairs.copy()
        both = ["exact_8_add", "exact_8_mix"]
        mixed.loc[exchanged, both] = pairs.loc[exchanged, both[::-1]].to_numpy()
        comparison = thesis_runs.compare_pairs(mixed)
        assert comparison.ahead + comparison.behind + comparison.equal == comparison.pairs
        told.append((comparison.p, comparison.p_sign))
    assert (np.array(told) <= 0.05).sum(0).max() <= stats.binom.ppf(0.999, 60, 0.05)


def test_the_interval_of_seeds_is_t_and_holds_the_mean_in_95_percent():
    """Of normal seeds; of accuracies near 1, whose seeds are skew, in 86% or more."""
    random = np.random.default_rng(10)
    for drawn, mean, least in (
        (random.normal(0.5, 0.1, (TRIALS, 5)), 0.5, 0.94),
        (random.beta(9, 1, (TRIALS, 5)), 0.9, 0.86),
    ):
        half = stats.t.ppf(0.975, 4) * drawn.std(1, ddof=1) / np.sqrt(5)
        assert least <= (np.abs(drawn.mean(1) - mean) <= half).mean() <= 0.96
        ends = drawn[0].mean() - half[0], drawn[0].mean() + half[0]
        assert intervals.seed_interval(drawn[0]) == pytest.approx(ends)
    values = random.random(6)
    told = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert intervals.seed_interval(values) == pytest.approx((told.low, told.high))


def test_seeds_that_rarely_fail_are_not_in_the_interval_of_those_that_do_not():
    """Stated in `seed_interval`: of seeds of which one in ten fails, 59% of fives have none."""
    assert intervals.seed_interval([1.0] * 5) == (1.0, 1.0)
    assert stats.binom.pmf(0, 5, 0.1) == pytest.approx(0.59, abs=0.01)
    low, high = intervals.seed_interval([1.0, 1.0, 1.0, 1.0, 0.0])
    assert low < 0.9 < high


def test_the_interval_of_a_difference_is_welchs_and_no_narrower_than_newcombes():
    random = np.random.default_rng(11)
    first, second = random.random(5), random.random(7)
    told = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert differences.compute_welch_interval(first, second) == pytest.approx(told)
    assert differences.compute_welch_interval([0.5], second) == (-np.inf, np.inf)
    assert differences.compute_welch_interval([1, 1], [0, 0]) == (1.0, 1.0)
    alike = pd.DataFrame({"n": 20, "exact": [10, 10, 10]})
    ends = differences.compute_interval(alike, alike)
    assert ends == differences.compute_newcombe_interval(alike, alike)
    wide = pd.DataFrame({"n": 1000, "exact": [0, 1000]})
    assert differences.compute_interval(wide, wide) == (-1.0, 1.0)


def test_only_trained_lengths_say_whether_a_model_has_learned():
    """Trained problems before the grid, the grid before equal lengths; held-out pairs never.

    The worst size counts: one at which the interval of the share of right answers is below 95%.
    """
    cells = pd.DataFrame(
        [
            ("pairs", "trained", 0, 1, 10, 10), ("pairs", "held out", 0, 1, 0, 10),
            ("unseen", "held out", 0, 1, 10, 10), ("both", "grid", 0, 1, 9, 10),
            ("both", "equal", 0, 1, 0, 10), ("both", "grid", 1, 3, 0, 10),
            ("equal", "equal", 0, 1, 10, 10), ("equal", "equal", 1, 3, 0, 10),
            ("sizes", "grid", 0, 1, 3, 4), ("sizes", "grid", 0, 2, 160, 200),
            ("enough", "grid", 0, 1, 100, 100), ("enough", "grid", 0, 2, 93, 100),
        ],
        columns=["row", "set", "region", "i", "exact", "n"],
    )  # fmt: skip
    cells = cells.assign(start="1", seed=0, j=1, region=[REGIONS[at] for at in cells["region"]])
    worst = score_worst_trained_size(cells).set_index("row")
    shares = {"pairs": 1.0, "both": 0.9, "equal": 1.0, "sizes": 0.8, "enough": 0.93}
    assert worst["accuracy"].to_dict() == shares and worst.loc["sizes", "size"] == 2
    assert {*worst.index[~worst["learned"]]} == {"sizes"}  # 93 of 100 may be 95%


def test_pairs_of_the_thesis():
    runs = thesis_runs.read_runs()
    assert not runs.duplicated(["task", *thesis_runs.KEYS]).any()
    pairs = thesis_runs.pair_runs(runs)
    with pytest.raises(SettingsError, match="pairs: none; expected at least one pair"):
        thesis_runs.compare_pairs(pairs.head(0))
    learned = thesis_runs.select_learned_pairs(pairs)
    assert 0 < len(learned) < len(pairs) and {*learned.columns} == {*pairs.columns}
