"""Five claims of the ledger, recomputed from the committed tables with pandas and SciPy alone."""

import functools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from carry import claims, results
from carry.config import paths

TABLES = results.open_results()


@functools.cache
def read(name="cells"):
    """Return a table of all rows of a laptop, as it is committed."""
    files = sorted(paths.results_folder("").glob(f"*/{name}.parquet"))
    return pd.concat(map(pd.read_parquet, files), ignore_index=True).query("scale == 'laptop'")


def judge(claim_id):
    """Return the record of one claim of the ledger, from the tables of its rows."""
    (claim,) = [claim for claim in claims.load_claims() if claim.id == claim_id]
    of_rows = {
        name: results.select_rows(TABLES[name], claim.list_rows())
        for name in ("cells", "places", "curves")
    }
    none = pd.DataFrame(columns=results.CERTIFICATE_COLUMNS)
    tables = results.ResultTables(TABLES.__getitem__, **of_rows)
    return claims.judge_claims([claim], tables, none)[0]


def count(row, gate=0.99):
    """Return right answers and problems beyond training in the grid, of seeds that learned."""
    cells = read().query(f"row == '{row}' and start == '1' and set == 'grid'")
    known = cells[["i", "j"]].max(axis=1) <= cells["trained"]
    trained = cells[known].groupby("seed")[["exact", "n"]].sum()
    learned = trained.index[trained["exact"] >= gate * trained["n"]]
    return cells[~known].groupby("seed")[["exact", "n"]].sum().loc[learned]


def count_seeds(row):
    """Return the number of seeds of a row."""
    return read().query(f"row == '{row}'")["seed"].nunique()


@pytest.mark.parametrize("other", ["nope", "fire"])
def test_an_order(other):
    first, second = (
        count(row).pipe(lambda table: table["exact"] / table["n"])
        for row in ("addition_abacus_short", f"addition_{other}")
    )
    record = judge(f"abacus_ahead_of_{other}")
    if record["verdict"] == "not learned here":
        assert 2 * min(len(first), len(second)) <= read()["seed"].nunique()
        return
    p = stats.permutation_test(
        (first, second), lambda a, b: np.mean(a) - np.mean(b), alternative="greater"
    ).pvalue
    assert record["p"] == pytest.approx(p, rel=1e-2)
    assert record["measured"] == pytest.approx(first.mean() - second.mean(), abs=1e-6)
    told = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert_wider(record["interval"], told, -1)


def assert_wider(ends, told, least=0):
    """Intervals over seeds are not narrower than those of all problems, within what is possible."""
    assert ends[0] <= max(least, told.low) + 1e-6 and ends[1] >= min(1, told.high) - 1e-6


def test_a_level():
    row = "multi_operand_addition_coupled_scratchpad"
    seeds = count(row)
    record = judge("many_operands_small")
    if record["verdict"] == "not learned here":
        assert 2 * len(seeds) <= count_seeds(row)
        return
    told = stats.ttest_1samp(seeds["exact"] / seeds["n"], 0).confidence_interval(0.95)
    assert_wider(record["interval"], told)
    assert record["measured"] == pytest.approx((seeds["exact"] / seeds["n"]).mean(), abs=1e-6)
    assert record["n"] == seeds["n"].sum() and record["seeds"] == len(seeds)


def test_a_share_of_models():
    heads = read("curves").dropna(subset="heads").groupby(["row", "seed"])["heads"].last()
    perfect = {}
    for row in ("noisy_majority_d8_a4_shapley", "noisy_majority_d8_a4"):
        of = read().query(f"row == '{row}' and set == 'test'").groupby("seed")
        right = of["first_right"].sum() == of["n"].sum()
        failed = heads[row] > 1 if "shapley" in row else right & False
        perfect[row] = (int((right & ~failed).sum()), len(right))
    (one, n), (other, m) = perfect.values()
    p = stats.fisher_exact([[one, n - one], [other, m - other]], alternative="greater").pvalue
    record = judge("halving_heads_8")
    assert record["p"] == pytest.approx(p, rel=1e-2) and record["sides"] == [n, m]
    assert record["measured"] == pytest.approx(one / n - other / m, abs=1e-6)


def test_errors():
    seeds = count("addition_relative")
    record = judge("relative_beyond")
    assert (record["measured"], record["n"]) == (
        (seeds["n"] - seeds["exact"]).sum(),
        seeds["n"].sum(),
    )
