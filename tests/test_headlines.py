"""The table of the papers' headlines: which sums it counts, and how it says what it found."""

import pandas as pd
import pytest

from carry.experiments.resolve import list_rows
from carry.pages import headlines
from carry.pages.headlines import HEADLINES, summarise_headlines, tabulate_headlines
from carry.results import read_runs


def cells(row):
    """Return two seeds that err at one length or pair each, and another reading."""
    lines = [("grid", i, j) for i in (20, 30, 100) for j in (20, 30, 100)]
    lines += [("equal", i, i) for i in (20, 21, 120, 121, 160, 200)]
    table = pd.DataFrame(lines, columns=["set", "i", "j"]).assign(row=row, trained=20, n=10)
    table["scale"] = "laptop"
    parts = []
    for seed, bad in ((0, 30), (1, 121)):
        wrong = (table["i"] == bad) & ((table["set"] == "equal") | (table["j"] == 100))
        parts.append(table.assign(seed=seed, start="1", exact=10 - 5 * wrong))
    window = table.assign(seed=0, start="window", exact=9)
    return pd.concat([*parts, window], ignore_index=True)


@pytest.fixture(scope="module")
def made_up():
    known = {row for row, _ in read_runs()}  # whose settings are stored with results
    table = pd.concat([cells(row) for row in {line.row for line in HEADLINES} & known])
    runs = pd.DataFrame({"row": [HEADLINES[0].row] * 3, "core_seconds": [60.0, 120.0, 600.0]})
    return {(line["row"], line["problems"]): line for line in summarise_headlines(table, runs)}


def test_pairs_count_each_pair_above_training_once(made_up):
    record = made_up[HEADLINES[0].row, headlines.PAIRS]
    assert record["n"] == 80  # nine pairs, without that of the trained lengths
    assert record["range"] == [75 / 80, 1.0] and record["seeds"] == 2
    assert record["core_minutes"] == 2.0


def test_the_worst_length_is_that_of_each_seed(made_up):
    (row,) = {line.row for line in HEADLINES if line.problems == headlines.EACH}
    worst = made_up[row, headlines.EACH]
    assert worst["score"] == 1.0 and worst["n"] == 10  # of one length
    farther = made_up["addition_coupled_30_jumps_longer", "the worst equal length of 31 to 200"]
    assert farther["range"] == [0.5, 1.0] and farther["n"] == 10
    assert farther["core_minutes"] is None


def test_a_cell_is_solved_if_the_median_seed_solves_it():
    """Three seeds fail in a cell each, two of them in the same one."""
    grid = cells("any").query("set == 'grid' and seed == 0 and start == '1'").assign(exact=10)
    table = pd.concat([grid.assign(seed=seed) for seed in range(3)], ignore_index=True)
    for seed, i in ((0, 20), (1, 30), (2, 30)):
        table.loc[(table["seed"] == seed) & (table["i"] == i) & (table["j"] == 20), "exact"] = 8
    summary = HEADLINES[0]._replace(score="solved").summarise(table)
    assert summary["score"] == pytest.approx(8 / 9, abs=1e-6) and summary["n"] == 10
    assert summary["range"] == pytest.approx([8 / 9, 8 / 9], abs=1e-6)
    table = table.assign(row=HEADLINES[0].row)
    narrow = HEADLINES[0]._replace(score="solved", second=30).select(table)
    assert sorted({*zip(narrow["i"], narrow["j"], strict=True)}) == [
        (20, 30), (30, 20), (30, 30), (100, 20), (100, 30),
    ]  # fmt: skip


def test_the_table_has_no_empty_cell(made_up):
    columns, lines = tabulate_headlines({"headlines": [*made_up.values()]})
    assert {len(line) for line in lines} == {len(columns)} == {7}
    assert all(cell.strip() for line in lines for cell in line)
    assert lines[0][2:6] == ["92.9%", "96.9% (93.8 to 100)", "2, 80", "2"]


def test_the_rows_are_those_of_the_study():
    assert {line.row for line in HEADLINES} <= {*list_rows("headlines")}


def test_without_results_there_is_no_headline():
    assert summarise_headlines(cells("mine"), pd.DataFrame({"row": []})) == []
