"""Twelve claims of the ledger, recomputed from the committed tables with pandas and SciPy alone.

Then what holds for all tested claims: that their numbers could decide them.
"""

import functools
import itertools
import json
import math
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from carry import claims, results
from carry.config import paths
from carry.interpretability import adder_construction, majority_constructions

CLAIMS = {claim.id: claim for claim in claims.load_claims()}
FLOOR = 0.02  # of both sides: nothing could have been seen


@pytest.fixture(scope="module")
def ledger():
    """Return the records of all claims by id, from the committed tables."""
    few = pd.DataFrame({"n": [9], "wrong": [0]})  # constructions take seconds, and have tests
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adder_construction, "score_sums", lambda *_, **__: few)
        patch.setattr(majority_constructions, "score_random_circuits", lambda *_, **__: few)
        records = claims.judge_claims(
            [*CLAIMS.values()], results.open_results(), results.read_certificates()
        )
    return {record["id"]: record for record in records}


# ---- By code of their own ------------------------------------------------------------------------


@functools.cache
def read(name):
    """Return a table of all rows of a laptop, as it is committed."""
    files = sorted(paths.REPORTS.glob(f"[ra]*/*/{name}.parquet"))
    return pd.concat(map(pd.read_parquet, files), ignore_index=True).query("scale == 'laptop'")


def read_cells(row, where, start="1"):
    """Return cells of a row, with its longer operand as `size`."""
    cells = read("cells").query(f"row == '{row}' and start == '{start}'")
    return cells.assign(size=cells[["i", "j"]].max(axis=1)).query(where)


BEYOND = "set == 'grid' and size > trained"


def share(cells, right="exact"):
    """Return the share of right answers of each seed."""
    seeds = cells.groupby("seed")[[right, "n"]].sum()
    return seeds[right] / seeds["n"]


def permute(first, second):
    """Return the share of all ways to deal the seeds out with a lead as large as theirs."""
    pooled, n = [*first, *second], len(first)
    sums = [sum(dealt) for dealt in itertools.combinations(pooled, n)]
    return np.mean(np.array(sums) >= sum(first) - 1e-9)


def assert_wider(ends, told, least=0.0):
    """Intervals over seeds are not narrower than t, within what is possible."""
    assert ends[0] <= max(least, told.low) + 1e-6 and ends[1] >= min(1, told.high) - 1e-6


@pytest.mark.parametrize("other", ["nope", "fire"])
def test_an_order(other, ledger):
    rows = ("bitwise_or_abacus", f"bitwise_or_{other}")
    first, second = (share(read_cells(row, BEYOND)) for row in rows)
    record = ledger[f"bitwise_or_{other}"]
    assert record["p"] == pytest.approx(permute(first, second), rel=1e-2)
    assert record["p_contrary"] == pytest.approx(permute(second, first), rel=1e-2)
    assert record["measured"] == pytest.approx(first.mean() - second.mean(), abs=1e-6)
    assert record["sides"] == [len(first), len(second)]
    told = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert_wider(record["interval"], told, -1)


def test_rows_trained_to_other_lengths(ledger):
    where = "set in ('equal', 'far') and i == j and i == 40"
    first, second = (share(read_cells(f"addition_abacus_{of}", where)) for of in (20, 10))
    record = ledger["training_to_20_ahead_of_10"]
    assert record["p"] == pytest.approx(permute(first, second), rel=1e-2)
    assert record["values"] == pytest.approx([first.mean(), second.mean()], abs=1e-6)
    told = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert_wider(record["interval"], told, -1)


def test_pairs_of_starts(ledger):
    first, second = (share(read_cells("addition_coupled", BEYOND, of)) for of in ("all", "1"))
    record, lead = ledger["all_starts_ahead_of_the_first"], first - second
    signs = np.array([*itertools.product([1, -1], repeat=len(lead))])
    p = np.mean(signs @ lead.to_numpy() >= lead.sum() - 1e-9)
    assert record["p"] == pytest.approx(p, rel=1e-2)
    told = stats.ttest_1samp(lead, 0).confidence_interval(0.95)
    assert record["measured"] == pytest.approx(lead.mean(), abs=1e-6)
    assert_wider(record["interval"], told, -1)


def test_no_difference(ledger):
    row = "multi_operand_addition_coupled_scratchpad"
    first, second = (share(read_cells(f"{row}_{size}", BEYOND)) for size in ("10m", "20k"))
    record, margin = ledger["training_set_size"], 0.1
    p = max(permute(first, second - margin), permute(second, first - margin))
    contrary = min(permute(first, second + margin), permute(second, first + margin))
    assert record["p"] == pytest.approx(p, rel=1e-2)
    assert record["p_contrary"] == pytest.approx(min(1, 2 * contrary), rel=1e-2)


def test_a_level(ledger):
    cells = read_cells("multi_operand_addition_coupled_scratchpad", BEYOND)
    seeds, record = share(cells), ledger["many_operands_small"]
    told = stats.ttest_1samp(seeds, 0).confidence_interval(0.95)
    assert_wider(record["interval"], told)
    assert record["measured"] == pytest.approx(seeds.mean(), abs=1e-6)
    assert record["n"] == cells["n"].sum() and record["seeds"] == len(seeds)


def test_a_share_of_cells(ledger):
    row = "multi_operand_addition_coupled_scratchpad_10_2l2h_jump_longer"
    cells = read_cells(row, BEYOND)
    seeds = (cells["exact"] / cells["n"] >= 0.9).groupby(cells["seed"]).mean()
    record = ledger["many_operands_2_layers"]
    assert record["measured"] == pytest.approx(seeds.mean(), abs=1e-6)
    assert_wider(record["interval"], stats.ttest_1samp(seeds, 0).confidence_interval(0.95))
    assert record["n"] == len(cells)


def count_perfect(row):
    """Return how many models of a row have every answer right and one head, and of how many."""
    cells = read("cells").query(f"row == '{row}' and set == 'test'")
    right = share(cells, "first_right") == 1
    heads = read("curves").query(f"row == '{row}'").dropna(subset="heads").groupby("seed")["heads"]
    if row.endswith("shapley"):
        right &= heads.last() == 1
    return int(right.sum()), len(right)


def test_an_order_of_shares_of_models(ledger):
    (one, n), (other, m) = (count_perfect(f"noisy_majority_d8_a4{of}") for of in ("_shapley", ""))
    p = stats.fisher_exact([[one, n - one], [other, m - other]], alternative="greater").pvalue
    record = ledger["halving_heads_8"]
    assert record["p"] == pytest.approx(p, rel=1e-2) and record["sides"] == [n, m]
    assert record["measured"] == pytest.approx(one / n - other / m, abs=1e-6)
    told = confint_proportions_2indep(one, n, other, m, method="newcomb")
    assert record["interval"] == pytest.approx(told, abs=1e-6)


def test_a_share_of_models(ledger):
    perfect, n = count_perfect("noisy_majority_d2_a1")
    record = ledger["one_head"]
    assert (record["measured"], record["n"]) == (pytest.approx(perfect / n, abs=1e-6), n)
    told = proportion_confint(perfect, n, method="wilson")
    assert record["interval"] == pytest.approx(told, abs=1e-6)


def test_a_share_of_lengths(ledger):
    cells = read_cells("addition_abacus_looped_20_jumps_longer", "set == 'equal' and size > 20")
    cells = cells.query("size <= 120")
    seeds = (cells["exact"] / cells["n"] >= 0.95).groupby(cells["seed"]).mean()
    assert ledger["looped_20_to_120"]["measured"] == pytest.approx(seeds.mean(), abs=1e-6)


def test_the_best_seed_of_the_best_row(ledger):
    best = max(share(read_cells(row, "set == 'equal' and i == 10")).max()
               for row in ("addition_nope", "addition_rope"))  # fmt: skip
    record = ledger["nope_and_rope_fail_beyond"]
    assert record["measured"] == pytest.approx(best, abs=1e-6)


def test_errors(ledger):
    cells = read_cells("addition_relative", BEYOND)
    record = ledger["relative_beyond"]
    assert record["measured"] == (cells["n"] - cells["exact"]).sum()
    assert record["n"] == cells["n"].sum()


def test_pairs_of_the_thesis(ledger):
    runs = pd.read_csv(paths.ROOT / "claims" / "ibrahimli2024_sub_tasks.csv")
    table = runs.set_index(["width", "problems", "seed", "task"])["exact_8"].unstack().dropna()
    record, lead = ledger["parts_help_in_the_thesis"], table["mix"] - table["add"]
    told = stats.ttest_1samp(lead, 0).confidence_interval(0.95)
    assert record["measured"] == pytest.approx(lead.mean(), abs=1e-6)
    assert record["interval"] == pytest.approx(told, abs=1e-6)
    assert record["pairs"]["ahead"] == (lead > 0).sum() and record["seeds"] == len(lead)


def test_certificates(ledger):
    path = paths.REPORTS / "certificates" / "addition_relative.json"
    seeds = json.loads(path.read_text(encoding="utf-8"))["seeds"]
    exact = sum(seed["verdict"] == "exact" for seed in seeds)
    record = ledger["certified_addition"]
    assert (record["measured"], record["seeds"]) == (exact / len(seeds), len(seeds))


# ---- What the numbers of a claim can decide ------------------------------------------------------


@pytest.mark.xfail(strict=False, reason="claims of mcleish2024 and others still have to move")
def test_no_claim_of_the_works_compares_two_sides_at_the_floor(ledger):
    """Where both are at or below 2%, nothing can be seen: shorter problems would show it."""
    at_floor = [
        record["id"]
        for record in ledger.values()
        if record["paper"] != "carry" and record["compared_with"]
        and not record["statistic"].startswith("half_length")
        and max(record["values"]) <= FLOOR
    ]  # fmt: skip
    assert at_floor == []


def least_p(record):
    """Return the smallest p that the numbers of seeds of a record allow."""
    claim, (n, m) = CLAIMS[record["id"]], record["sides"]
    if record["statistic"].startswith("share_of_seeds"):
        return stats.fisher_exact([[n, 0], [0, m]], alternative="greater").pvalue
    return 0.5**n if claim.is_paired() else 1 / math.comb(n + m, n)


def list_undecidable(ledger):
    """Return the tested claims that no outcome could decide, with the q of their best outcome."""
    families, found = defaultdict(list), {}
    for record in ledger.values():
        if record["p"] is not None:
            families[CLAIMS[record["id"]].family()].append(record)
    for tested in families.values():
        for record in tested:
            if min(record["sides"]) >= 5:
                values = [least_p(one) if one is record else one["p"] for one in tested]
                q = stats.false_discovery_control(values)[tested.index(record)]
                found |= {record["id"]: round(float(q), 4)} if q > 0.05 else {}
    return found


def test_every_test_could_have_been_decided_by_its_seeds(ledger):
    assert list_undecidable(ledger) == {}
