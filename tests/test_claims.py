"""Each answer is reached for the right reason, and wrong settings are refused in one line."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import ruamel.yaml
from scipy import stats

from carry import claims, results
from carry.claims import errata
from carry.claims.claim_settings import FOLDER, Claim
from carry.claims.ledger_page import (
    describe_measurement,
    describe_number,
    render_ledger,
    render_own_claims,
)
from carry.claims.verdicts import SEEN
from carry.config import paths
from carry.config.settings import SettingsError
from carry.data.tables import FORMER_START
from carry.evaluation import thesis_runs
from carry.experiments.resolve import load_run, make_run
from carry.interpretability import adder_construction, majority_constructions
from carry.models.identity import identify
from carry.training.cost import count_training_operations
from made_up import cells, certificates, places

BASE = {"id": "mine", "section": "1", "statement": "so", "paper_value": "none"}
NOPE = {"rows": ["addition_nope"], "where": {"digits": 12}}
AHEAD = {  # an order of two rows
    "rows": ("addition_nope", "addition_rope"),
    "measure": {"rows": ["addition_rope"], "where": {"digits": 12}},
    "compare": {"row": "addition_nope"},
}
STEPS = results.read_runs()["addition_nope", "laptop"].training.steps


def load(folder, *claims_of, paper="carry", **keys):
    """Write claims to a folder as a YAML file, and load them."""
    folder.mkdir(exist_ok=True)
    with (folder / f"{paper}.yaml").open("w", encoding="utf-8") as file:
        ruamel.yaml.YAML().dump({"claims": list(claims_of), **keys}, file)
    return claims.load_claims(folder)


def create(**settings):
    """Return a claim of our own."""
    return Claim.parse({**BASE, "paper": "carry", **settings}, "claims.mine")


def test_a_claim_about_an_unknown_item_is_refused_in_one_line(tmp_path):
    claim = {**BASE, "items": ["Fig. 999"], "not_tested": "too long"}
    with pytest.raises(SettingsError, match=r"^claims.mine.items: 'Fig. 999' is unknown, .*Fig"):
        load(tmp_path, claim, paper="mcleish2024")


def judge(judged, cells, certificates=None, **tables):
    """Return the records of claims from made-up tables; the others are empty."""
    made = results.ResultTables(results.create_empty_table, cells=cells, **tables)
    none = pd.DataFrame(columns=results.CERTIFICATE_COLUMNS)
    return claims.judge_claims(judged, made, none if certificates is None else certificates)


def store(monkeypatch, runs):
    """Let results have other settings, by row."""
    stored = {(row, "laptop"): run for row, run in runs.items()}
    monkeypatch.setattr(results, "read_runs", lambda: stored)


def learned_to(trained, share):
    """Return a share of right answers that is 1 at the trained lengths."""
    return lambda row, longest, seed, start: (
        1.0 if longest <= trained else share(row, longest, seed, start)
    )


def one(
    share, holds_if=">= 0.9", rows=("addition_nope",), measure=NOPE, seeds=5, learned=True, **more
):
    """Return the record of a claim by its settings, and by what is right."""
    right = learned_to(10, share) if learned else share
    table = cells(rows, grid=14, each=4, share=right, seeds=seeds)
    return judge([create(measure=measure, holds_if=holds_if, **more)], table)[0]


def always(right):
    return lambda row, longest, seed, start: right


def of_rows(rope, nope):
    """Return shares of right answers of the rows of `AHEAD`."""
    return lambda row, *_: {"addition_rope": rope, "addition_nope": nope}[row]


# ---- Levels --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("right", "holds_if", "seen"), [
    (1.0, ">= 0.9", "same"), (0.5, ">= 0.9", "not reached"), (0.9, ">= 0.9", "unclear"),
    (0.0, "<= 0.05", "consistent"), (0.5, "<= 0.05", "opposite"), (0.05, "<= 0.05", "unclear"),
])  # fmt: skip
def test_a_level_is_reached_if_all_of_its_interval_is(right, holds_if, seen):
    """That a model fails as it is said to is `consistent` only: others fail for other reasons."""
    record = one(always(right), holds_if)
    assert record["seen"] == seen and record["reason"] is None
    low, high = record["interval"]
    assert low <= record["measured"] <= high and record["sides"] == [record["seeds"]] == [5]


def test_what_is_not_run_says_why():
    missing = one(always(1.0), measure={"rows": ["addition_fire"], "where": {"digits": 12}})
    assert missing["seen"] == "not run"
    assert missing["reason"] == "needs row addition_fire of scale laptop or gpu or paper"
    assert missing["measured"] is None and missing["interval"] is None
    missing = one(always(1.0), measure={"rows": ["addition_nope"], "where": {"digits": 500}})
    assert "no result for digits 500" in missing["reason"]
    (record,) = judge([create(not_tested="needs a GPU")], strings("a", [1]))
    assert (record["seen"], record["reason"]) == ("not run", "needs a GPU")
    assert describe_measurement(record) == "needs a GPU"


def test_fewer_than_five_seeds_a_side_are_unclear():
    """Except that a number is not reached: all of the interval of three is below it."""
    for share, settings in (
        (always(1.0), {}),
        (always(0.0), {"holds_if": "<= 0.05"}),
        (always(0.5), {"holds_if": "<= 0.05"}),
        (of_rows(0.9, 0.1), {**AHEAD, "holds_if": "> 0"}),
        (of_rows(0.5, 0.5), {**AHEAD, "holds_if": "", "margin": 0.2}),
    ):
        record = one(share, seeds=4, **settings)
        sides = " and ".join(["4"] * len(record["sides"]))
        assert record["seen"] == "unclear"
        assert record["reason"] == f"seeds: {sides}; expected 5 or more"
        assert one(share, seeds=5, **settings)["seen"] != "unclear"
    assert one(always(0.5), seeds=3)["seen"] == "not reached"
    rows = AHEAD["rows"]
    table = cells(rows, grid=14, each=4, share=learned_to(10, of_rows(0.9, 0.1)), seeds=8)
    table = table[(table["row"] != rows[0]) | (table["seed"] < 4)]
    given = {name: AHEAD[name] for name in ("measure", "compare")}
    (record,) = judge([create(**given, holds_if="> 0")], table)
    assert record["reason"] == "seeds: 8 and 4; expected 5 or more" and record["q"] <= 0.05


def test_one_bad_seed_leaves_a_mean_unclear():
    def share(row, longest, seed, start):
        return 0.5 if seed == 2 else 1.0

    record = one(share)
    assert record["seen"] == "unclear" and record["measured"] == pytest.approx(0.9, abs=0.02)
    assert record["interval"][0] < 0.7 and record["interval"][1] == 1.0
    assert record["n"] == 1000 and record["seeds"] == 5
    worst = one(share, measure={**NOPE, "statistic": "worst_seed"})
    assert worst["seen"] == "not reached" and worst["n"] == 200
    assert one(share, "<= 0.4", measure={**NOPE, "statistic": "best_seed"})["seen"] == "opposite"


def test_the_interval_of_a_mean_has_the_seed_as_its_unit():
    share = learned_to(10, lambda row, longest, seed, start: 0.3 + 0.08 * seed)
    record = one(share, holds_if="< 0.5")
    table = cells(["addition_nope"], grid=14, each=4, share=share, seeds=5)
    own = table.query("set == 'equal' and i == 12")["accuracy"]
    assert record["measured"] == pytest.approx(own.mean(), abs=1e-6)
    told = stats.ttest_1samp(own, 0).confidence_interval(0.95)
    assert record["interval"] == pytest.approx(told, abs=1e-6)


def test_errors_are_counted_one_by_one():
    errors = {**NOPE, "statistic": "errors"}
    none = one(always(1.0), holds_if="<= 0", measure=errors, seeds=1)
    assert (none["seen"], none["measured"], none["n"]) == ("counted", 0, 200)
    for seeds in (2, 5):  # one error is enough
        some = one(lambda *given: 1 - 0.01 * (given[2] == 1), "<= 0", measure=errors, seeds=seeds)
        assert some["seen"] == "opposite" and some["measured"] > 0


def test_the_share_of_cells_is_that_of_each_seed():
    """Of the cells that reach `above`; the grid's end may be left out."""
    table = cells(["addition_nope"], grid=14, each=4, share=always(1.0), seeds=5)
    for i, j, seeds, right in ((13, 5, [0, 1], 2), (12, 9, [0, 2], 1), (14, 14, [0], 0)):
        at = (table["set"] == "grid") & (table["i"] == i) & (table["j"] == j)
        table.loc[at & table["seed"].isin(seeds), "exact"] = right
    measure = {"rows": ["addition_nope"], "statistic": "share_of_cells", "above": 0.5}
    judged = [
        create(holds_if=">= 0.95", measure={**measure, "where": {"set": "grid", **more}})
        for more in ({}, {"within": [14, 8]})
    ]
    whole, part = judge(judged, table)
    shares = 1 - np.array([2, 0, 1, 0, 0]) / 14**2  # cells with one or no answer of four
    assert whole["measured"] == pytest.approx(shares.mean(), abs=1e-6)
    assert (whole["n"], whole["seeds"], whole["seen"]) == (5 * 14**2, 5, "same")
    told = stats.ttest_1samp(shares, 0).confidence_interval(0.95)
    assert whole["interval"][0] <= told.low and whole["interval"][1] == 1.0
    assert (part["measured"], part["n"]) == (1.0, 5 * 14 * 8)
    assert "share of cells" in describe_measurement(whole)


def test_what_is_counted_may_be_the_first_token():
    measure = {"rows": ["addition_nope"], "where": {"digits": 12}, "count": "first_right"}
    assert one(always(0.0), ">= 0.9", measure=measure)["seen"] == "same"


def test_the_last_digit_is_counted_from_places():
    measure = {"rows": ["addition_nope"], "where": {"digits": 12}, "count": "last_right"}
    claim = [create(measure=measure, holds_if=">= 0.9", compare={"count": "exact"})]
    known = places(["addition_nope"], grid=14)
    table = cells(["addition_nope"], grid=14, share=learned_to(10, always(0.4)))
    record = judge(claim, table, places=known)[0]
    own = known.query("digits == 12 and place == 12")
    (alone,) = judge([create(measure=measure, holds_if=">= 0.9")], table, places=known)
    assert alone["n"] == own["n"].sum()
    assert alone["measured"] == pytest.approx(own["accuracy"].mean(), abs=1e-6)
    exact = table.query("set == 'equal' and i == 12")["accuracy"]
    assert record["measured"] == pytest.approx(own["accuracy"].mean() - exact.mean(), abs=1e-6)
    assert record["compared_with"] == "addition_nope"
    missing = judge(claim, table)[0]
    assert missing["seen"] == "not run" and "no result for digits 12" in missing["reason"]


def test_regions_and_one_digit_beyond():
    def share(row, longest, seed, start):
        return 1.0 if longest <= 10 else 0.3 if longest == 11 else 0.0

    for where, measured in [
        ({"region": "in distribution"}, 1.0),
        ({"beyond": 1}, 0.3),
        ({"set": "grid", "i": 3, "j": 13}, 0.0),
        ({"digits": 10, "trained": 10}, 1.0),
    ]:
        record = one(share, measure={"rows": ["addition_nope"], "where": where})
        assert record["measured"] == pytest.approx(measured, abs=0.08)
    assert record["n"] == 1000  # of the equal lengths, without those of the grid


# ---- The length at which half is solved ----------------------------------------------------------

HALF = {"rows": ["addition_nope"], "where": {"set": "equal"}, "statistic": "half_length"}


def lengths(shares, row="addition_nope", n=10):
    """Return right answers by length of the seeds of a row, of which 1 and 2 digits are trained."""
    return pd.DataFrame(
        [
            {"row": row, "scale": "laptop", "seed": seed, "start": "1", "set": "equal", "i": i,
             "j": i, "trained": 2, "n": n, "exact": round(n * share), "first_right": n}
            for seed, of_seed in enumerate(shares) for i, share in enumerate(of_seed, start=1)
        ]
    )  # fmt: skip


def test_the_half_length_is_interpolated_and_ends_at_the_longest():
    """Between 4 and 5 digits; a seed that never falls to a half has the longest length."""
    falling, never = [1, 1, 1, 0.9, 0.3, 0.9, 0], [1, 1, 1, 1, 1, 1, 0.5]
    (record,) = judge([create(measure=HALF, holds_if=">= 5")], lengths([falling] * 4 + [never]))
    halves = [4 + 4 / 6] * 4 + [7.0]
    assert record["measured"] == pytest.approx(np.mean(halves), abs=1e-6)
    told = stats.ttest_1samp(halves, 0).confidence_interval(0.95)
    assert record["interval"] == pytest.approx(told, abs=1e-5) and record["seen"] == "unclear"
    text = f"{np.mean(halves):.1f} digits ({told.low:.1f} to {told.high:.1f})"
    assert describe_number(record) == text
    (far,) = judge([create(measure=HALF, holds_if="> 4")], lengths([falling] * 5))
    assert far["seen"] == "same" and far["interval"] == [far["measured"]] * 2


def test_a_half_length_takes_the_longer_operand_for_the_length():
    """All cells of one length count together, in whichever order the table has them."""
    table = lengths([[1, 1, 1, 0.8, 0.4]] * 5).sample(frac=1, random_state=0)
    wide = pd.concat([table, table.assign(j=1)], ignore_index=True)
    for made in (table, wide):
        (record,) = judge([create(measure=HALF, holds_if="> 4")], made)
        assert record["measured"] == pytest.approx(4.75)


def test_a_half_length_of_one_seed_is_refused():
    (record,) = judge([create(measure=HALF, holds_if="> 4")], lengths([[1, 1, 0]]))
    assert record["seen"] == "not run"
    assert record["reason"] == "row addition_nope has one seed; expected 2 or more"


def test_half_lengths_are_compared_in_digits():
    """Neither ten points nor an edge says anything of them."""
    table = pd.concat(
        [lengths([[1, 1, 1, 0.8, 0.4]] * 5, "addition_rope"), lengths([[1, 1, 1, 0.7, 0.3]] * 5)],
        ignore_index=True,
    )
    claim = {"measure": {**HALF, "rows": ["addition_rope"]}, "compare": {"row": "addition_nope"}}
    ahead, far = judge([create(**claim, holds_if=of) for of in ("> 0", "> 0.25")], table)
    assert ahead["measured"] == pytest.approx(0.25) and ahead["values"] == [4.75, 4.5]
    assert (ahead["seen"], far["seen"]) == ("same", "unclear") and ahead["edge"] is None
    assert describe_number(ahead) == "4.8 against 4.5: +0.2 digits (+0.2 to +0.2)"
    same = lengths([[1, 1, 1, 0.7, 0.3]] * 5, "addition_rope")
    (equal,) = judge([create(**claim, holds_if="> 0")], pd.concat([table[25:], same]))
    assert equal["seen"] == "unclear" and equal["interval"] == [0.0, 0.0]


# ---- Comparisons ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("leads", "seen"), [
    ([1, 1, 1, 1, 1], "same"), ([0, 0, 0, 0, 0], "opposite"), ([1, 0, 1, 0, 1], "unclear"),
])  # fmt: skip
def test_an_order_is_tested_over_seeds(leads, seen):
    def share(row, longest, seed, start):
        return 0.5 if row == "addition_nope" else (0.9 if leads[seed] else 0.1)

    record = one(share, "> 0", **AHEAD)
    assert record["seen"] == seen and record["edge"] is None
    assert record["interval"][0] <= record["measured"] <= record["interval"][1]
    assert record["measured"] == pytest.approx(record["values"][0] - record["values"][1], abs=1e-5)
    assert record["statistic"] == "mean_over_seeds, difference"
    assert record["sides"] == [5, 5] and record["tests"] == 1
    assert record["unlike"] == {}  # rows on one footing
    if seen != "unclear":
        p = record["p" if seen == "same" else "p_contrary"]
        assert p == pytest.approx(1 / 252, abs=1e-4)


@pytest.mark.parametrize(("rope", "nope", "seen", "edge"), [
    (0.5, 0.5, "no effect", None),
    (0.95, 0.87, "same", None),
    (0.0, 0.0, "unclear", "floor"), (1.0, 1.0, "unclear", "ceiling"),
    (0.08, 0.0, "same", "floor"), (1.0, 0.93, "same", "ceiling"),
    (0.0, 0.08, "opposite", "floor"),
])  # fmt: skip
def test_no_effect_is_seen_only_where_values_can_differ(rope, nope, seen, edge):
    """Below 10% or above 90% on both sides, rows may be alike for another reason."""
    record = one(of_rows(rope, nope), "> 0", **AHEAD)
    assert (record["seen"], record["edge"]) == (seen, edge)
    assert edge is None or f"; {edge}" in describe_measurement(record)
    if seen == "no effect":
        assert max(map(abs, record["interval"])) <= 0.1


def test_no_difference_is_tested_against_its_margin():
    """Rows within the margin are the same, rows beyond it opposite, and noise decides nothing."""

    def judged(ahead, margin):
        return one(of_rows(0.5 + ahead, 0.5), "", margin=margin, **AHEAD)

    assert judged(0.0, 0.2)["seen"] == "same" and judged(0.4, 0.2)["seen"] == "opposite"
    assert judged(0.2, 0.2)["seen"] == "unclear"
    record = judged(-0.4, 0.2)
    assert record["seen"] == "opposite"
    assert record["p_contrary"] == pytest.approx(2 / 252, abs=1e-4)
    assert record["holds_if"] == "within 0.2" and record["margin"] == 0.2


@pytest.mark.parametrize(("right", "edge"), [(0.02, "floor"), (0.98, "ceiling")])
def test_rows_that_are_alike_at_an_edge_are_never_the_same(right, edge):
    record = one(always(right), "", margin=0.2, **AHEAD)
    assert record["q"] <= 0.05
    assert (record["seen"], record["edge"]) == ("unclear", edge)


def test_half_of_the_errors():
    wrong = {"addition_rope": 0.2, "addition_nope": 0.6}
    for times, seen in ((0.5, "same"), (0.1, "opposite")):
        compare = {"row": "addition_nope", "errors_times": times}
        record = one(lambda row, *_: 1 - wrong[row], ">= 0", **{**AHEAD, "compare": compare})
        assert record["seen"] == seen
        assert record["measured"] == pytest.approx(times * 0.6 - 0.2, abs=0.05)


def test_two_starts_of_one_row_are_pairs():
    """The smallest p of five pairs is 1 / 32."""
    measure = {"rows": ["addition_coupled"], "where": {"digits": 12, "start": "all"}}
    record = one(
        lambda row, longest, seed, start: 0.2 if start == "1" else 0.9, "> 0.5",
        ("addition_coupled",), measure, compare={"where": {"start": "1"}},
    )  # fmt: skip
    assert record["seen"] == "same" and record["compared_with"] == record["row"]
    assert record["measured"] == pytest.approx(0.7, abs=0.1)
    assert record["p"] == pytest.approx(1 / 32, abs=1e-3)


def test_a_claim_has_one_start():
    """It is 1 by default; a row without a table of ids has no other."""

    def share(row, longest, seed, start):
        return 0.2 if start == "1" else 1.0

    rows, where = ("addition_coupled",), {"digits": 12}
    for start, seen in ((None, "not reached"), ("1", "not reached"), ("all", "same")):
        named = {**where, "start": start} if start else where
        record = one(share, rows=rows, measure={"rows": [*rows], "where": named})
        assert record["seen"] == seen and record["start"] == (start or "1")
        assert ("start all" in describe_measurement(record)) == (start == "all")
    claim = create(measure={"rows": [*rows], "where": named}, holds_if="> 0")
    table = cells(rows, grid=14, each=4, share=share).replace({"start": {"all": "window"}})
    (missing,) = judge([claim], table)
    assert missing["reason"] == "row addition_coupled has no result from start all"
    only = one(always(1.0), measure={**NOPE, "where": {**where, "start": "all"}})
    assert only["seen"] == "same"


def trained_to(lengths, ahead="addition_relative"):
    """Return made-up cells of rows trained to lengths of their own; one row alone goes beyond."""
    parts = [
        cells([row], n, 14, each=4, seeds=5, share=learned_to(n, always(float(row == ahead))))
        for row, n in lengths.items()
    ]
    return pd.concat(parts, ignore_index=True)


def test_rows_trained_to_other_lengths_are_compared_at_a_length_and_not_by_region():
    measure = {"rows": ["addition_relative"], "where": {"region": "out of distribution"}}
    claim = create(measure=measure, holds_if="> 0", compare={"row": "addition_nope"})
    record = judge([claim], trained_to({"addition_relative": 5, "addition_nope": 5}))[0]
    assert record["row"] == "addition_relative" and record["seen"] == "same"
    assert record["scales"] == {"addition_relative": "laptop", "addition_nope": "laptop"}
    table = trained_to({"addition_relative": 10, "addition_nope": 5})
    record = judge([claim], table)[0]
    assert record["seen"] == "not run"
    rows = "rows addition_relative and addition_nope were trained to 10 and 5 digits"
    assert record["reason"] == rows
    for where in ({"where": {"digits": 12}}, {"where": {}, "statistic": "half_length"}):
        measure = {"rows": ["addition_relative"], **where}
        other = create(measure=measure, holds_if="> 0", compare={"row": "addition_nope"})
        assert judge([other], table)[0]["seen"] == "same"


def test_settings_in_which_compared_rows_differ_are_told():
    rows = ("addition_nope", "addition_relative")
    measure = {"rows": [rows[1]], "where": {"digits": 12}}
    record = one(always(1.0), "> 0", rows, measure, compare={"row": rows[0]})
    known = [results.read_runs()[row, "laptop"] for row in reversed(rows)]
    assert record["unlike"]["width"] == [run.model["width"] for run in known]
    assert record["unlike"]["optimizer"] == ["adamw", "muon"]
    assert "optimizer adamw and muon" in describe_measurement(record)


# ---- Families of tests ---------------------------------------------------------------------------


def correct(values):
    """Return Benjamini's and Hochberg's q of each p, by their definition."""
    values = np.array(values)
    order = np.sort(values)
    scaled = [p * len(values) / rank for rank, p in enumerate(order, start=1)]
    return [min(scaled[np.searchsorted(order, p) :]) for p in values]


def test_the_tests_of_a_first_item_are_corrected_together():
    """By a false discovery rate; other items, sections and works are families of their own."""
    given = {name: AHEAD[name] for name in ("measure", "compare")}
    families = [
        {"items": ["Fig. 1", "Fig. 2"]}, {"items": ["Fig. 2"]}, {"section": "3"},
        {"items": ["Fig. 1"], "paper": "cho2025"},
    ]  # fmt: skip
    conditions = ["> 0", "> 0.1", "> 0.2", "> 0.25", "> 0.4"]
    judged = [
        create(**{**given, "holds_if": of, **family})
        for family in families
        for of in conditions[: 5 if family is families[0] else 2]
    ]
    judged.append(create(measure=AHEAD["measure"], holds_if="> 0", **families[0]))  # no test

    def share(row, longest, seed, start):
        return 0.4 if row == "addition_nope" else 0.5 + 0.05 * seed

    table = cells(AHEAD["rows"], grid=14, each=4, share=learned_to(10, share), seeds=5)
    records = judge(judged, table)
    assert [record["tests"] for record in records] == [5] * 5 + [2] * 6 + [0]
    for part in (records[:5], *(records[at : at + 2] for at in (5, 7, 9))):
        for p, q in (("p", "q"), ("p_contrary", "q_contrary")):
            told = correct([record[p] for record in part])
            assert [record[q] for record in part] == pytest.approx(told, rel=0.01)
    assert len({record["q"] for record in records[:5]}) > 2
    assert records[0]["q"] > records[5]["q"] > records[5]["p"]
    assert "(of 5 tests: " in describe_measurement(records[0])


def test_more_tests_of_a_family_need_smaller_p():
    """Of thirteen tests one order of five seeds a side alone is unclear; all thirteen are seen."""
    given = {name: AHEAD[name] for name in ("measure", "compare")}
    table = cells(AHEAD["rows"], grid=14, each=4, share=learned_to(10, of_rows(0.9, 0.5)), seeds=5)
    for impossible, seen in ((0, "same"), (12, "unclear")):
        judged = [create(**given, holds_if="> 0.9")] * impossible
        judged += [create(**given, holds_if="> 0")] * (13 - impossible)
        record = judge(judged, table)[-1]
        assert (record["seen"], record["tests"]) == (seen, 13)
        assert record["p"] == pytest.approx(1 / 252, abs=1e-4)


# ---- Seeds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("passing", "negative", "level"), [
    (5, "consistent", "not reached"), (3, "consistent", "not reached"),
    (2, "not learned", "not learned"), (0, "not learned", "not learned"),
])  # fmt: skip
def test_all_seeds_count_and_most_must_have_learned(passing, negative, level):
    """What has not learned a trained size shows neither that its kind fails, nor how far it goes.

    Next to the value of all stands that of the seeds that have learned.
    """

    def share(row, longest, seed, start):
        beyond = 0.02 if seed < passing else 0.0
        return beyond if longest > 10 else 0.7 if seed >= passing and longest == 9 else 1.0

    measure = {"rows": ["addition_nope"], "where": {"region": "out of distribution"}}
    for holds_if, seen in (("<= 0.05", negative), (">= 0.9", level)):
        record = one(share, holds_if, measure=measure, learned=False)
        assert record["seen"] == seen and record["seeds"] == 5 and record["n"] == 5 * 4 * 96
        assert record["learned"] == {"addition_nope": [passing, 5]}
        assert record["measured"] == pytest.approx(0.02 * passing / 5, abs=0.01)
        if passing == 5:
            assert "of_learned" not in record
        elif passing:
            assert record["of_learned"] == pytest.approx(0.02, abs=0.01)
            assert record["of_learned"] > record["measured"]
            text = f"learned {passing} of 5 (of these {100 * record['of_learned']:.1f}%)"
            assert text in describe_measurement(record)
        else:
            assert record["of_learned"] is None
        if seen == "not learned":
            assert record["reason"] == "most seeds of addition_nope"


def test_what_was_seen_of_models_that_have_not_learned_was_seen():
    def share(row, longest, seed, start):
        return 0.8 if longest <= 10 else 0.9 if row == "addition_rope" else 0.1

    record = one(share, "> 0", learned=False, **AHEAD)
    assert record["seen"] == "same" and record["learned"]["addition_rope"] == [0, 5]
    assert one(share, "< 0", learned=False, **AHEAD)["seen"] == "opposite"
    unclear = one(always(0.8), "> 0", learned=False, **AHEAD)
    assert (
        unclear["seen"] == "not learned"
        and "addition_rope and addition_nope" in (unclear["reason"])
    )
    inside = {"rows": ["addition_nope"], "where": {"region": "in distribution"}}
    assert one(always(0.2), measure=inside, learned=False)["seen"] == "not learned"
    assert one(always(1.0), measure=inside, learned=False)["seen"] == "same"


def test_rows_without_trained_sizes_are_not_said_to_have_failed_at_them():
    """Held-out pairs, and strings, have no sizes beyond them; other sets may be all there is."""
    row = "modular_addition_1000_one_hot"
    table = lengths([[0.1, 0.1, 0.1]] * 5, row).assign(set="held out", trained=3)
    for where in ({"set": "held out"}, {"region": "in distribution", "set": "held out"}):
        measure = {"rows": [row], "where": where}
        (record,) = judge([create(measure=measure, holds_if=">= 0.9")], table)
        assert record["seen"] == "not reached" and record["learned"] == {row: [0, 0]}
    progress = pd.DataFrame(
        {"row": row, "seed": range(5), "trained": 3, "step": 1, "set": "trained", "n": 9,
         "correct": 4}
    )  # fmt: skip
    analysis = {"row": row, "table": "progress", "count": "correct"}
    (record,) = judge([create(analysis=analysis, holds_if=">= 0.9")], table, progress=progress)
    assert record["seen"] == "not reached"


def test_seeds_before_the_first_do_not_count():
    """They chose the statistic; learned or not, they say nothing."""

    def share(row, longest, seed, start):
        return 0.0 if seed < 3 else 1.0

    early = one(share, seeds=8, learned=False)
    assert early["seen"] == "unclear" and early["seeds"] == 8
    late = one(share, seeds=8, learned=False, first_seed=3)
    assert (late["seen"], late["measured"], late["n"]) == ("same", 1.0, 1000)
    assert late["learned"] == {"addition_nope": [5, 5]} and late["first_seed"] == 3
    assert "5 seeds from seed 3" in describe_measurement(late)
    assert "from seed" not in describe_measurement(early)
    few = one(share, seeds=7, learned=False, first_seed=3)
    assert few["reason"] == "seeds: 4; expected 5 or more"
    none = one(share, seeds=3, first_seed=3)
    assert none["reason"] == "row addition_nope has no seed from 3"
    ahead = one(of_rows(0.9, 0.1), "> 0", seeds=8, first_seed=3, **AHEAD)
    assert ahead["seen"] == "same" and ahead["sides"] == [5, 5]


# ---- How comparable it is ------------------------------------------------------------------------


def compare_with_work(row="addition_nope", paper="mcleish2024", **settings):
    measure = {"rows": [row], "where": {"digits": 12}}
    return one(always(0.0), "<= 0.5", (row,), measure, paper=paper, **settings)["comparable"]


def test_a_smaller_model_has_the_lengths_and_the_ratio_of_its_computation():
    sides = [load_run("addition_nope", scale) for scale in ("paper", "laptop")]
    theirs, ours = map(count_training_operations, sides)
    assert compare_with_work() == (
        f"reduced: trained to {sides[1].training.digits}, not 20; tested to 15, not 160; "
        f"1 / {theirs / ours:,.0f} of the computation"
    )
    row = "copying_relative"
    assert compare_with_work(row) == "reduced: no row has the settings of the work"


def test_a_model_of_the_work_is_as_in_the_work(monkeypatch):
    assert one(always(0.5), paper="mcleish2024")["seen"] == "not reached"
    paper = load_run("addition_nope", "paper")
    store(monkeypatch, {"addition_nope": paper})
    assert compare_with_work() == "as in the work"
    assert one(always(0.5), paper="mcleish2024")["seen"] == "opposite"
    for times, comparable in ((0.7, "as in the work"), (0.25, "reduced: 1 / 4 of the computation")):
        steps = round(times * paper.training.steps)
        training = paper.training.model_copy(update={"steps": steps})
        store(monkeypatch, {"addition_nope": paper.model_copy(update={"training": training})})
        assert compare_with_work() == comparable


def test_another_protocol_is_named_and_our_own_claims_are_not_compared():
    assert compare_with_work(protocol="other sums") == "another protocol: other sums"
    assert compare_with_work(paper="carry") == ""
    missing = create(not_tested="a GPU", paper="cho2025")
    counted = create(parameters={"addition_abacus": 1}, holds_if="<= 9", paper="mcleish2024")
    records = judge([missing, counted], strings("a", [1]))
    assert [record["comparable"] for record in records] == ["", "as in the work"]


# ---- Proofs and counts ---------------------------------------------------------------------------


@pytest.mark.parametrize(("codes", "seen"), [("spare", "counted"), ("theorem", "opposite")])
def test_a_construction_is_put_to_sums(codes, seen):
    asked = {"cells": [[2, 2], [3, 1]], "tokens": 50, "codes": codes}
    (record,) = judge([create(construction=asked, holds_if="<= 0")], strings("a", [1]))
    assert record["seen"] == seen and record["n"] == 60 + 60
    text = f"{record['measured']} errors; wanted <= 0; construction, errors, n = 120"
    assert describe_measurement(record) == text


def test_circuits_are_worked_out(monkeypatch):
    claim = create(circuits={"count": 3, "gates": 9}, holds_if="<= 0")
    (record,) = judge([claim], strings("a", [1]))
    assert record["seen"] == "counted" and record["measured"] == 0 and record["n"] >= 3
    wrong = pd.DataFrame({"n": [9], "wrong": [1]})
    monkeypatch.setattr(majority_constructions, "score_random_circuits", lambda *_, **__: wrong)
    (record,) = judge([claim], strings("a", [1]))
    assert record["seen"] == "opposite" and record["n"] == 9


@pytest.mark.parametrize(("millions", "seen"), [(122, "counted"), (121, "opposite")])
def test_parameters_are_counted_without_training(millions, seen):
    claim = create(parameters={"addition_abacus_injected": millions}, holds_if="<= 0")
    (record,) = judge([claim], strings("a", [1]))
    assert record["seen"] == seen and record["n"] == 1 and record["scales"] == {}


# ---- Several rows --------------------------------------------------------------------------------


@pytest.mark.parametrize(("shares", "holds_if", "seen", "row"), [
    ([0.0, 0.9, 0.01], "<= 0.05", "opposite", "addition_rope"),
    ([0.0, 0.02, 0.01], "<= 0.09", "consistent", "addition_rope"),
    ([1.0, 0.9, 0.5], ">= 0.9", "not reached", "addition_fire"),
    ([1.0, 0.9, 0.99], ">= 0.9", "unclear", "addition_rope"),
    ([1.0, 0.98, 0.99], ">= 0.9", "same", "addition_rope"),
])  # fmt: skip
def test_of_several_rows_the_worst_decides(shares, holds_if, seen, row):
    rows = ("addition_nope", "addition_rope", "addition_fire")
    share = dict(zip(rows, shares, strict=True))
    measure = {"rows": [*rows], "where": {"digits": 12}}
    record = one(lambda row, *_: share[row], holds_if, rows, measure)
    assert (record["seen"], record["row"]) == (seen, row)


def test_of_several_rows_one_that_has_not_learned_leaves_nothing_seen():
    measure = {"rows": ["addition_nope", "addition_rope"], "where": {"digits": 12}}
    for beyond, seen in ((0.0, "not learned"), (1.0, "opposite")):
        learned = learned_to(10, always(beyond))
        record = one(
            lambda row, longest, *of, right=learned: (
                right(row, longest, *of) if row == "addition_rope" else 0.3 * (longest <= 10)
            ),
            "<= 0.05", tuple(measure["rows"]), measure, learned=False,
        )  # fmt: skip
        assert record["seen"] == seen


def test_of_several_rows_the_one_with_most_errors_is_told():
    rows = ("addition_nope", "addition_rope")
    measure = {"rows": [*rows], "where": {"digits": 12}, "statistic": "errors"}
    record = one(of_rows(0.5, 0.9), "<= 0", rows, measure)
    assert (record["seen"], record["row"]) == ("opposite", "addition_rope")


# ---- Settings ------------------------------------------------------------------------------------


GOOD = {**BASE, "measure": NOPE, "holds_if": "> 0"}
ANALYSIS = {"row": "addition_equal_abacus", "table": "confirmed", "count": "flipped"}
FLIPPED = {**BASE, "analysis": {**ANALYSIS, "where": {"twins": "carry"}}, "holds_if": ">= 0.5"}
COMPARED = {**GOOD, "compare": {"row": "addition_rope"}}
BAD = {
    "an unknown row": (
        {**GOOD, "measure": {**NOPE, "rows": ["addition_nop"]}},
        "claims.mine: unknown row 'addition_nop', did you mean 'addition_nope'",
    ),
    "two starts of two rows": (
        {**GOOD, "compare": {"row": "addition_rope", "where": {"start": "all"}}},
        "expected one start for two rows, not compare.where.start",
    ),
    "a margin without another row": (
        {**BASE, "measure": NOPE, "margin": 0.1},
        "expected compare next to margin",
    ),
    "a margin and a condition": (
        {**COMPARED, "margin": 0.1},
        "expected measure and holds_if together, or margin in its place",
    ),
    "a comparison of worst seeds": (
        {**COMPARED, "measure": {**NOPE, "statistic": "worst_seed"}},
        "expected compare next to a statistic over seeds, not 'worst_seed'",
    ),
    "an unknown place to compare with": (
        {**GOOD, "compare": {"where": {"strat": "1"}}},
        "claims.mine.compare.where.strat: unknown setting, did you mean 'start'",
    ),
    "no cells": ({**GOOD, "measure": {**NOPE, "where": {}}}, "expected a set, a region, digits"),
    "code as condition": (
        {**GOOD, "holds_if": "__import__('os')"},
        "claims.mine.holds_if: \"__import__('os')\" does not fit, expected a sign and a number, as",
    ),
    "a threshold in percent": ({**GOOD, "holds_if": ">= 99"}, "threshold from 0 to 1 in holds_if"),
    "two rows that are compared with nothing": (
        {**COMPARED, "measure": {**NOPE, "rows": ["addition_nope", "addition_fire"]}},
        "expected one row in measure.rows next to compare",
    ),
    "the name of another file": ({**GOOD, "paper": "cho2025"}, "claims.mine.paper: unknown"),
    "a threshold for cells without one": (
        {**GOOD, "measure": {**NOPE, "statistic": "share_of_cells"}},
        "expected measure.above with 'share_of_cells'",
    ),
    "a threshold for what has none": (
        {**GOOD, "measure": {**NOPE, "above": 0.5}},
        "expected measure.above without 'mean_over_seeds'",
    ),
    "a removed statistic": (
        {**GOOD, "measure": {**NOPE, "statistic": "worst_cell"}},
        "claims.mine.measure.statistic: 'worst_cell' is not a choice, did you mean",
    ),
    "a negative seed": ({**GOOD, "first_seed": -1}, "claims.mine.first_seed: -1 does not fit"),
    "no condition": ({**BASE, "measure": NOPE}, "expected measure and holds_if together"),
    "nothing to test": (BASE, "expected either measure or not_tested"),
    "an unknown table": (
        {**FLIPPED, "analysis": {**ANALYSIS, "table": "confirmd"}},
        "mine.analysis.table: 'confirmd' is unknown, did you mean",
    ),
    "an unknown column": (
        {**FLIPPED, "analysis": {**ANALYSIS, "count": "flippd"}},
        "analysis: unknown column 'flippd', did you mean 'flipped'",
    ),
    "no column and no condition": (
        {**FLIPPED, "analysis": {**ANALYSIS, "count": "flipped over 3"}},
        "expected a column, or a column, a sign and a number, in count",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_line(what, tmp_path):
    given, expected = BAD[what]
    with pytest.raises(SettingsError) as error:
        load(tmp_path, given)
    assert expected in str(error.value) and "\n" not in str(error.value)


def test_an_id_occurs_once_in_all_files(tmp_path):
    with pytest.raises(SettingsError, match="claims.carry: id 'mine' occurs twice"):
        load(tmp_path, GOOD, GOOD)
    (tmp_path / "carry.yaml").unlink()
    load(tmp_path, GOOD, paper="smith2026")
    with pytest.raises(SettingsError, match="id 'mine' occurs twice, also in smith2026.yaml"):
        load(tmp_path, GOOD)


def test_a_file_has_claims(tmp_path):
    with pytest.raises(SettingsError, match="no files with claims; expected"):
        claims.load_claims(tmp_path)
    with pytest.raises(SettingsError, match="^claims.carry.claim: unknown setting, did you mean"):
        load(tmp_path, GOOD, claim=[])
    for content in ("claims: {}", "[]", "claims"):
        (tmp_path / "carry.yaml").write_text(content, encoding="utf-8")
        with pytest.raises(SettingsError, match="expected (list|a mapping)"):
            claims.load_claims(tmp_path)


def test_the_name_of_a_file_is_the_paper(tmp_path):
    for name in ("carry", "smith2026", "cho2025", "adams2026", "mcleish2024"):
        loaded = load(tmp_path, {**GOOD, "id": name}, paper=name)
    papers = ["mcleish2024", "cho2025", "adams2026", "smith2026", "carry"]
    assert [claim.paper for claim in loaded] == [claim.id for claim in loaded] == papers


def test_the_files_of_the_ledger(monkeypatch, tmp_path):
    tables = {"cells": cells(), "places": places()}
    empty = results.create_empty_table
    monkeypatch.setattr(
        results, "read_table", lambda name, scale: tables[name] if name in tables else empty(name)
    )
    monkeypatch.setattr(results, "read_certificates", certificates)
    few = pd.DataFrame({"n": [9], "wrong": [0]})  # whole ones take seconds
    for module, name in (
        (adder_construction, "score_sums"),
        (majority_constructions, "score_random_circuits"),
    ):
        monkeypatch.setattr(module, name, lambda *_, **__: few)
    records = claims.write_ledger(folder=tmp_path)
    assert json.loads((tmp_path / "claims.json").read_text()) == records
    for record in records:
        assert record["seen"] in SEEN
        assert (record["measured"] is not None) == (record["n"] > 0)
        assert (record["measured"] is None) == (record["seen"] == "not run")
        assert record["measured"] is not None or record["reason"]
        assert bool(record["comparable"]) == (
            record["paper"] != "carry" and record["seen"] != "not run"
        )
    for name, own in (("claims", False), ("own_claims", True)):
        page = (tmp_path / f"{name}.md").read_text()
        for record in records:
            assert (f"| `{record['id']}` " in page) == ((record["paper"] == "carry") == own)
        assert ("## Errata" in page, "| comparable |" in page) == (not own, not own)
    assert paths.display_path(FOLDER) == "claims"


# ---- Shares of models, runs of a thesis, and analyses --------------------------------------------


def strings(row, right, n=100):
    """Return cells of one row: how many of n strings each seed has right."""
    cell = {"row": row, "scale": "laptop", "trained": 100, "start": "1", "set": "test"}
    made = [{**cell, "seed": seed, "i": 150, "j": 150, "n": n, "exact": of,
             "first_right": of}
            for seed, of in enumerate(right)]  # fmt: skip
    return pd.DataFrame(made)


NOISY = {
    "rows": ["noisy_majority_d8_a4_svc"],
    "where": {"set": "test"},
    "statistic": "share_of_seeds",
    "above": 1.0,
}


@pytest.mark.parametrize(
    ("left", "measured", "seen"), [(1, 0.8, "same"), (2, 0.0, "not reached")], ids=["one", "two"]
)
def test_seeds_that_reach_an_accuracy_are_counted(left, measured, seen, monkeypatch):
    """Those with more heads left than one have failed, if they were to be halved."""
    training = {"batched_seeds": True, "examples": 100}
    runs = {
        row: make_run({"task": {"name": "noisy_majority"}, "training": {**training, "halving": of}})
        for row, of in (("noisy_majority_d8_a4_svc", "svc"), ("noisy_majority_d8_a4", None))
    }
    store(monkeypatch, runs)
    table = strings("noisy_majority_d8_a4_svc", [100] * 16 + [99] * 4)
    curves = pd.DataFrame(
        [("noisy_majority_d8_a4_svc", seed, of) for seed in range(20) for of in (4, left)],
        columns=["row", "seed", "heads"],
    )
    (record,) = judge([create(measure=NOISY, holds_if="> 0.3")], table, curves=curves)
    assert record["measured"] == measured and record["seen"] == seen
    assert record["n"] == record["seeds"] == 20
    low, high = record["interval"]
    assert low <= measured <= high and high - low < 0.4
    plain = create(measure={**NOISY, "rows": ["noisy_majority_d8_a4"]}, holds_if="> 0.3")
    table, curves = (part.assign(row="noisy_majority_d8_a4") for part in (table, curves))
    assert judge([plain], table, curves=curves)[0]["measured"] == 0.8


def test_shares_of_seeds_are_compared_as_shares():
    claim = create(measure=NOISY, holds_if="> 0", compare={"row": "noisy_majority_d8_a4"})
    one = strings("noisy_majority_d8_a4_svc", [100] * 18 + [99] * 2)
    other = strings("noisy_majority_d8_a4", [100] * 4 + [99] * 16)
    (record,) = judge([claim], pd.concat([one, other], ignore_index=True))
    assert record["measured"] == pytest.approx(0.7) and record["seen"] == "same"
    assert 0.3 < record["interval"][0] < 0.7 < record["interval"][1] < 0.95


def test_the_runs_of_the_thesis_are_pairs():
    ways = ({"length": "8"}, {"length": "8", "learned": True})
    judged = [create(thesis_runs=way, holds_if="> 0") for way in ways]
    every, learned = judge(judged, learned_row())
    assert every["pairs"] == {"ahead": 52, "behind": 23, "equal": 10} and every["seeds"] == 85
    assert every["measured"] == pytest.approx(0.2308, abs=1e-4) and every["seen"] == "counted"
    assert learned["seeds"] < every["seeds"] and learned["measured"] < every["measured"]
    assert learned["seen"] == "unclear" and learned["tests"] == 2
    assert "85 pairs" in describe_measurement(every)


def analysed(row="addition_equal_abacus", digits=(6, 7), seeds=5):
    """Return what an analysis of a row counted: of two kinds, at a trained length and beyond it."""
    return pd.DataFrame(
        [
            {"row": row, "seed": seed, "trained": 6, "digits": length, "place": place,
             "twins": kind, "n": 20, "flipped": 20 - seed if kind == "carry" else place}
            for seed in range(seeds) for length in digits for place in (0, length - 1)
            for kind in ("carry", "control")
        ]
    )  # fmt: skip


def learned_row(row="addition_equal_abacus", trained=6, seeds=5):
    """Return equal lengths of a row that has learned its trained ones, and nothing beyond."""
    share = learned_to(trained, always(0.0))
    table = cells([row], trained, trained + 2, seeds=seeds, share=share)
    return table[table["set"] == "equal"].reset_index(drop=True)


@pytest.mark.parametrize(("where", "compare", "measured", "n"), [
    ({"twins": "carry", "beyond": 0}, None, 36 / 40, 200),
    ({"twins": "control", "beyond": 1, "place": 6}, None, 6 / 20, 100),
    ({"twins": "control", "beyond": 0, "place": [0, 5]}, None, 5 / 40, 200),
    ({"twins": "carry", "beyond": 0}, {"where": {"twins": "control"}}, 36 / 40 - 5 / 40, 400),
    ({"beyond": 0, "twins": "carry", "place": 5},
     {"where": {"place": 0, "twins": "control"}}, 18 / 20, 200),
])  # fmt: skip
def test_what_an_analysis_counted(where, compare, measured, n):
    claim = create(analysis={**ANALYSIS, "where": where}, holds_if="> 0", compare=compare)
    (record,) = judge([claim], learned_row(), confirmed=analysed())
    assert record["measured"] == pytest.approx(measured, abs=1e-6) and record["n"] == n
    assert record["row"] == "addition_equal_abacus" and record["seeds"] == 5
    assert record["compared_with"] == ("addition_equal_abacus" if compare else None)
    low, high = record["interval"]
    assert low <= record["measured"] <= high and describe_measurement(record)


def test_an_analysis_is_read_from_start_1_if_it_has_starts():
    """Its row may be evaluated from several starts, of which its table knows nothing."""
    table, counted = learned_row(), analysed()
    both = pd.concat([table, table.assign(start="all")], ignore_index=True)
    records = [judge([create(**FLIPPED)], of, confirmed=counted)[0] for of in (table, both)]
    assert records[0] == records[1] and records[1]["seen"] == "same"
    of_all = counted.assign(start="all", flipped=0)
    counted = pd.concat([counted.assign(start="1"), of_all], ignore_index=True)
    (record,) = judge([create(**FLIPPED)], both, confirmed=counted)
    assert (record["seen"], record["start"]) == ("same", "1")
    where = {**FLIPPED["analysis"]["where"], "start": "all"}
    named = create(**{**FLIPPED, "analysis": {**ANALYSIS, "where": where}})
    (record,) = judge([named], both, confirmed=counted)
    assert (record["seen"], record["start"]) == ("not reached", "all")


def test_an_analysis_may_sum_probabilities():
    """Of tokens before the end: of the longest trained length and beyond it, paired by seed."""
    row = "addition_equal_learned"
    table = pd.DataFrame(
        [
            {"row": row, "seed": seed, "trained": 6, "digits": digits, "token": token,
             "due": due, "new": False, "stops": False, "n": 40, "correct": 0.0, "right": 0,
             "entropy": 40 * (0.01 if digits == 6 else 0.2 + 0.01 * seed), "end": 0.25}
            for seed in range(8) for digits in (6, 7, 8)
            for token, due in ((1, "digit"), (2, "end"))
        ]
    )  # fmt: skip
    where = {"beyond": [1, 2], "due": "digit"}
    analysis = {"row": row, "table": "next_tokens", "count": "entropy", "where": where}
    claim = create(analysis=analysis, compare={"where": {"beyond": 0}}, holds_if="> 0.05")
    (record,) = judge([claim], learned_row(row, seeds=8), next_tokens=table)
    assert record["measured"] == pytest.approx(0.2 + 0.01 * 3.5 - 0.01)
    assert (record["seen"], record["p"]) == ("same", round(1 / 256, 5)) and record["n"] == 960


def scored_heads() -> pd.DataFrame:
    """Return heads of eight seeds: of four good ones one attends to the token 2, and of two bad."""
    heads = [(0.99, 50.0)] * 3 + [(0.99, 1.0)] + [(0.6, 1.0)] * 2
    return pd.DataFrame(
        [
            {"row": "noisy_majority_d8_a4", "seed": seed, "head": head, "n": 100,
             "separation": separation, "w02": w02 + seed}
            for seed in range(8) for head, (separation, w02) in enumerate(heads)
        ]
    )  # fmt: skip


RATIOS = {"row": "noisy_majority_d8_a4", "table": "ratios"}


def test_rows_of_an_analysis_that_fulfil_a_condition_are_hits():
    good = {**RATIOS, "count": "w02 > 20", "where": {"separation": "> 0.95"}}
    claims = [
        create(analysis=good, holds_if="> 0.5"),
        create(analysis=good, compare={"where": {"separation": "<= 0.95"}}, holds_if="> 0"),
    ]
    table = learned_row(RATIOS["row"], seeds=8)
    level, order = judge(claims, table, ratios=scored_heads())
    assert (level["measured"], level["n"], level["seen"]) == (0.75, 32, "same")
    assert (order["values"], order["n"], order["seen"]) == ([0.75, 0.0], 48, "same")


def test_means_of_a_column_are_no_shares():
    mean = {**RATIOS, "count": "w02", "statistic": "mean_value", "where": {"separation": "> 0.95"}}
    claim = create(analysis=mean, compare={"where": {"separation": "<= 0.95"}}, holds_if="> 0")
    (record,) = judge([claim], learned_row(RATIOS["row"], seeds=8), ratios=scored_heads())
    assert record["values"] == [pytest.approx(37.75 + 3.5), pytest.approx(1 + 3.5)]
    assert (record["seen"], record["edge"]) == ("same", None)
    assert "41.25 against 4.50: +36.75 (+36.75 to +36.75)" in describe_measurement(record)


def test_rows_without_analysis_are_not_run():
    claim = create(analysis={**ANALYSIS, "where": {"twins": "other"}}, holds_if="> 0")
    for known, reason in (
        ({}, "row addition_equal_abacus was not analysed"),
        ({"confirmed": analysed()}, "nothing was counted in row addition_equal_abacus for twins"),
    ):
        (record,) = judge([claim], learned_row(), **known)
        assert record["seen"] == "not run" and record["reason"].startswith(reason)


def test_an_analysis_counts_all_seeds_and_tells_the_value_of_those_that_have_learned():
    table, counted = learned_row(), analysed()
    table.loc[table["seed"] >= 3, "exact"] = 0
    (record,) = judge([create(**FLIPPED)], table, confirmed=counted)
    assert (record["seen"], record["sides"]) == ("same", [5])
    assert record["learned"] == {"addition_equal_abacus": [3, 5]}
    assert (record["measured"], record["of_learned"]) == (18 / 20, 19 / 20)
    counted["flipped"] = 0
    assert judge([create(**FLIPPED)], table, confirmed=counted)[0]["seen"] == "not reached"
    table.loc[table["seed"] >= 2, "exact"] = 0
    (record,) = judge([create(**FLIPPED)], table, confirmed=counted)
    assert record["seen"] == "not learned"


def test_errors_of_an_analysis_are_of_these_problems_only():
    claim = create(analysis={**FLIPPED["analysis"], "statistic": "errors"}, holds_if="<= 0")
    (record,) = judge([claim], learned_row(), confirmed=analysed(seeds=1))  # it has no error
    assert (record["seen"], record["measured"], record["n"]) == ("counted", 0, 80)


def test_a_fixed_point_is_counted_from_one_start():
    """The third recurrence changes every answer, the fourth none; of `all` half of them."""
    row = "addition_abacus_looped"
    analysis = {"row": row, "table": "recurrences", "count": "same"}
    table = pd.DataFrame(
        [
            {"row": row, "seed": seed, "start": start, "trained": 6, "digits": 6, "place": -1,
             "recurrence": at, "n": 10,
             "same": 10 * (at == 4) if start == "1" else 5}
            for seed in range(3) for start in ("1", "all") for at in range(1, 5)
        ]
    )  # fmt: skip
    for at, start, share in ((3, None, 0.0), (4, None, 1.0), (4, "all", 0.5)):
        where = {"place": -1, "beyond": 0, "recurrence": at} | ({"start": start} if start else {})
        claim = create(analysis={**analysis, "where": where}, holds_if=">= 0.9")
        (record,) = judge([claim], learned_row(row), recurrences=table)
        assert record["measured"] == share and record["n"] == 30


def test_an_analysis_from_a_former_start_has_learned_from_start_1():
    """Earlier tables by recurrence have one start, of which cells are no longer read."""
    row = "addition_abacus_looped"
    table = pd.DataFrame({"row": row, "seed": range(3), "start": FORMER_START, "n": 10, "same": 4})
    analysis = {"row": row, "table": "recurrences", "count": "same"}
    claim = create(analysis=analysis, holds_if=">= 0.9")
    scored = [learned_row(row).assign(start=start) for start in ("1", "all")]
    (record,) = judge([claim], pd.concat(scored, ignore_index=True), recurrences=table)
    assert (record["measured"], record["start"]) == (0.4, FORMER_START)
    assert record["learned"] == {row: [5, 5]}


def test_lengths_that_were_never_trained_have_regions_of_their_own():
    """Of a row that learns from a data set: 5 lies within 1 to 4 and 6, and 7 beyond."""
    row = "addition_equal_abacus"
    table = pd.DataFrame(
        [
            {"row": row, "scale": "laptop", "seed": seed, "start": "1", "set": "equal",
             "i": i, "j": i, "trained": 6, "n": 10, "exact": i, "first_right": i}
            for seed in range(2) for i in range(2, 9)
        ]
    )  # fmt: skip
    for region, right, n in (("in distribution", 15, 40), ("interpolation", 5, 10),
                             ("extrapolation", 15, 20)):  # fmt: skip
        measure = {"rows": [row], "where": {"region": region}}
        claim = create(measure=measure, holds_if="> 0")
        (record,) = judge([claim], table)
        assert record["measured"] == pytest.approx(right / n) and record["n"] == 2 * n, region


def test_a_proof_is_no_sample():
    """Two of two seeds are certified, or none of one: the share has no interval."""
    rows = ["addition_relative", "multiplication_relative_scratchpad", "copying_relative"]
    judged = [create(certified=row, holds_if=">= 1") for row in [*rows, "addition_nope"]]
    records = judge(judged, cells(), certificates=certificates())
    seen = [record["seen"] for record in records]
    assert seen == ["counted", "opposite", "opposite", "not run"]
    assert describe_number(records[0]) == "2 of 2 seeds certified"
    assert records[0]["interval"] == [1.0, 1.0] and records[0]["seeds"] == 2
    assert records[0]["n"] == 800 and records[0]["statistic"] == "seeds_certified"
    assert "has no certificate" in records[3]["reason"]


def test_a_start_that_a_row_leaves_out_is_not_replaced_by_another(monkeypatch):
    """Start 1 stands for all only of rows whose ids have no table, not of rows scored from 1."""
    measure = {"rows": ["addition_nope"], "where": {"digits": 12, "start": "all"}}
    claim = [create(measure=measure, holds_if=">= 0.9")]
    table = cells(["addition_nope"], grid=14, each=4, share=always(1.0), seeds=5)
    run = results.read_runs()["addition_nope", "laptop"]
    assert judge(claim, table)[0]["seen"] == "same"
    evaluation = run.evaluation.model_copy(update={"starts": [1]})
    store(monkeypatch, {"addition_nope": run.model_copy(update={"evaluation": evaluation})})
    (record,) = judge(claim, table)
    assert record["reason"] == "row addition_nope has no result from start all"


def test_losses_of_the_thesis_are_compared_by_factors():
    claim = create(thesis_runs={"length": "10", "score": "loss"}, holds_if="> 0")
    (record,) = judge([claim], learned_row())
    pairs = thesis_runs.pair_runs(thesis_runs.read_runs())
    factors = pairs["loss_10_add"] / pairs["loss_10_mix"]
    assert record["measured"] == pytest.approx(factors.map(math.log10).mean(), abs=1e-6)
    assert record["pairs"]["ahead"] == (factors > 1).sum() and record["seeds"] == len(pairs)
    assert describe_measurement(record).startswith("loss lower by ")
    assert record["edge"] is None and record["seen"] == "unclear", "powers of ten are no points"


def test_rows_that_are_one_model_are_not_compared():
    """They would be alike for no other reason. Of one layer, the entrance is every layer."""
    for claim in claims.load_claims():
        if claim.compare and claim.is_order_of_rows():
            models = [
                identify(load_run(row)) for row in (claim.measured_rows()[0], claim.compare.row)
            ]
            for sections in models:
                sections.get("training", {}).pop("stream", None)  # other examples of the same kind
                model = sections["model"]
                if model.get("layers", 1) == 1 and model.get("injection") == "entrance":
                    model["injection"] = "every_layer"
            assert models[0] != models[1], claim.id


# ---- Pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [1, 3])
def test_a_number_near_100_percent_is_never_printed_as_100(wrong):
    """Nor one near 0 as 0, in any text of a record, with all seeds or of those that learned."""
    cell = lengths([[1.0, 1.0, 1.0]] * 5, n=100_000)
    at = (cell["seed"] == 0) & (cell["i"] == 3)
    cell.loc[at, "exact"] -= wrong
    cell.loc[(cell["seed"] == 4) & (cell["i"] == 2), "exact"] = 0
    (record,) = judge([create(measure={**NOPE, "where": {"digits": 3}}, holds_if="> 0")], cell)
    assert 0.9999 < record["measured"] < 1 > record["of_learned"]
    text = describe_measurement(record)
    assert text.startswith(">99.9% (>99.9 to 100); wanted > 0") and "(of these >99.9%)" in text
    cell.loc[cell["i"] == 3, "exact"] = 100_000 - cell["exact"]
    claim = create(measure={**NOPE, "where": {"digits": 3}}, holds_if="> 0")
    (record,) = judge([claim], cell.assign(exact=100_000 - cell["exact"]).query("seed < 4"))
    for share, shown in ((1 - 1e-6, ">99.9%"), (1e-6, "<0.1%"), (1.0, "100%"), (0.0, "0%")):
        sides = {**record, "values": [share, 0.5], "compared_with": "b"}
        assert describe_number(sides).startswith(f"{shown} against 50.0%: ")


def test_the_errata_are_a_section_with_links_to_notebooks_that_exist(tmp_path):
    page, listed = render_ledger([]), errata.load_errata()
    section = page.split("\n## Errata\n")[1]
    assert section.count("\n* ") == len(listed) > 5
    for one in listed:
        assert f"* {one.work}, {one.place}: {one.printed} {one.right}" in section
        if one.notebook:
            assert f"([shown](../notebooks/{one.notebook}.ipynb))" in section
            assert (paths.ROOT / "notebooks" / f"{one.notebook}.ipynb").exists()
    assert "](notebooks/" in errata.render_errata("notebooks/")
    assert "Errata" not in render_own_claims([{"paper": "carry", "seen": "same"}][:0])
    file = tmp_path / "errata.yaml"
    file.write_text("errata: [{work: a, place: b, printed: c}]", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"^errata.*right"):
        errata.load_errata(file)
