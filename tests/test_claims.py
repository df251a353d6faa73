"""Every verdict is reached for the right reason, and wrong settings are refused in one line."""

import json

import pandas as pd
import pytest
import ruamel.yaml

from carry import claims
from carry.claims.claim_settings import OWN_CLAIMS, PAPERS, list_claim_files
from carry.config import paths, run_settings
from carry.config.settings import SettingsError
from carry.interpretability import majority_constructions
from made_up import REACH, cells, certificates, places

BASE = {"id": "mine", "section": "1", "statement": "so", "paper_value": "none"}
NOPE = {"rows": ["addition_nope"], "where": {"digits": 12}}


def load(folder, *claims_of, paper="carry", **keys):
    """Write claims to a folder as a YAML file, and load them."""
    folder.mkdir(exist_ok=True)
    with (folder / f"{paper}.yaml").open("w", encoding="utf-8") as file:
        ruamel.yaml.YAML().dump({"claims": list(claims_of), **keys}, file)
    return claims.load_claims(folder)


@pytest.fixture
def one(tmp_path):
    """Return a function from a claim's settings, and what is right, to its record."""

    def judged(share, holds_if=">= 0.9", rows=("addition_nope",), measure=NOPE, seeds=3, **more):
        given = {**BASE, "measure": measure, "holds_if": holds_if, **more}
        claim = load(tmp_path, given)
        table = cells(rows, grid=14, each=4, share=share, seeds=seeds)
        return claims.judge_claims(claim, table, "cpu")[0]

    return judged


def always(right):
    return lambda row, longest, seed, start: right


def test_every_verdict_is_reached(one):
    assert one(always(1.0))["verdict"] == "holds"
    assert one(always(0.5))["verdict"] == "fails"
    assert one(always(0.9))["verdict"] == "undecided"
    missing = one(always(1.0), measure={"rows": ["addition_fire"], "where": {"digits": 12}})
    assert missing["verdict"] == "not tested"
    assert missing["reason"] == "row addition_fire is not in this profile"
    assert missing["measured"] is None and missing["interval"] is None
    missing = one(always(1.0), measure={"rows": ["addition_nope"], "where": {"digits": 500}})
    assert "no result for digits 500" in missing["reason"]


def test_a_reason_not_to_test_is_kept(tmp_path):
    given = {**BASE, "not_tested": "needs a GPU"}
    record = claims.judge_claims(load(tmp_path, given), cells(["addition_nope"]), "x")
    assert record[0]["verdict"] == "not tested" and record[0]["reason"] == "needs a GPU"


def test_one_bad_seed_leaves_a_median_undecided(one):
    record = one(lambda row, longest, seed, start: 0.5 if seed == 2 else 1.0)
    assert record["verdict"] == "undecided" and record["measured"] == 1.0
    assert record["interval"][0] < 0.6 and record["interval"][1] == 1.0
    assert record["n"] == 600 and record["seeds"] == 3
    worst = one(
        lambda row, longest, seed, start: 0.5 if seed == 2 else 1.0,
        measure={**NOPE, "statistic": "worst_seed"},
    )
    assert worst["verdict"] == "fails" and worst["n"] == 200


def test_pooled_problems_are_recounted(one):
    record = one(always(0.7), holds_if="< 0.5", measure={**NOPE, "statistic": "pooled"})
    table = cells(["addition_nope"], grid=14, each=4, share=always(0.7))
    own = table.query("set == 'equal' and i == 12")
    assert record["measured"] == pytest.approx(own["exact"].sum() / own["n"].sum(), abs=1e-6)
    assert record["verdict"] == "fails"


def test_errors_are_counted_one_by_one(one):
    errors = {**NOPE, "statistic": "errors"}
    none = one(always(1.0), holds_if="<= 0", measure=errors)
    assert (none["verdict"], none["measured"], none["n"]) == ("holds", 0, 600)
    some = one(lambda row, longest, seed, start: 0.99 if seed == 1 else 1.0, "<= 0", measure=errors)
    assert some["verdict"] == "fails" and some["measured"] > 0


@pytest.mark.parametrize(
    ("leads", "verdict"), [([1, 1, 1], "holds"), ([0, 0, 0], "fails"), ([1, 1, 0], "undecided")]
)
def test_an_order_holds_only_if_every_seed_leads_every_other(one, leads, verdict):
    def share(row, longest, seed, start):
        return 0.5 if row == "addition_nope" else (0.9 if leads[seed] else 0.1)

    measure = {"rows": ["addition_rope"], "where": {"digits": 12}}
    record = one(share, "> 0", ("addition_nope", "addition_rope"), measure,
                 compare={"row": "addition_nope"})  # fmt: skip
    assert record["verdict"] == verdict
    assert record["interval"][0] <= record["measured"] <= record["interval"][1]
    assert record["statistic"] == "median_over_seeds, difference"


def test_two_starts_of_one_row_are_compared(one):
    measure = {"rows": ["addition_coupled"], "where": {"digits": 12, "start": "middle"}}
    record = one(
        lambda row, longest, seed, start: 0.9 if start == "middle" else 0.2,
        "> 0.5",
        ("addition_coupled",),
        measure,
        compare={"where": {"start": "1"}},
    )
    assert record["verdict"] == "holds" and record["measured"] == pytest.approx(0.7, abs=0.1)


def trained_to(lengths):
    """Return made-up cells of rows that were trained to lengths of their own."""
    return pd.concat(
        [cells([row], trained=n, grid=14, each=4) for row, n in lengths.items()], ignore_index=True
    )


def test_only_rows_trained_alike_are_compared(tmp_path):
    measure = {"rows": ["addition_abacus", "addition_relative"], "where": {"digits": 12}}
    given = {**BASE, "measure": measure, "holds_if": "> 0", "compare": {"row": "addition_nope"}}
    claim = load(tmp_path, given)
    lengths = {"addition_abacus": 10, "addition_relative": 5, "addition_nope": 5}
    record = claims.judge_claims(claim, trained_to(lengths), "cpu")[0]
    assert record["row"] == "addition_relative" and record["verdict"] == "holds"
    two = trained_to(lengths)
    two["profile"] = two["row"].map({"addition_relative": "full"}).fillna("cpu")
    record = claims.judge_claims(claim, two, "cpu")[0]
    assert record["profile"] == "full, cpu"
    assert "profile full, cpu" in claims.describe_measurement(record)
    record = claims.judge_claims(claim, trained_to({**lengths, "addition_relative": 10}), "cpu")[0]
    assert record["verdict"] == "not tested"
    assert record["reason"].startswith(
        "rows addition_abacus and addition_nope were trained to 10 and"
    )


def test_what_is_counted_may_be_the_first_token(one):
    measure = {"rows": ["addition_nope"], "where": {"digits": 12}, "count": "first_right"}
    assert one(always(0.0), ">= 0.9", measure=measure)["verdict"] == "holds"


def test_the_worst_cell_is_that_of_the_least_median(one):
    """One seed that fails is outvoted in its cell, and the grid's end may be left out."""
    table = cells(["addition_nope"], grid=14, each=4, share=always(1.0))
    for cells_of, seeds, right in (((13, 5), [0, 1], 2), ((12, 9), [0, 2], 1), ((14, 14), [0], 0)):
        at = (table["set"] == "grid") & (table["i"] == cells_of[0]) & (table["j"] == cells_of[1])
        table.loc[at & table["seed"].isin(seeds), "exact"] = right
    measure = {"rows": ["addition_nope"], "statistic": "worst_cell"}
    whole, some = (
        claims.Claim.parse(
            {
                **BASE,
                "paper": "carry",
                "holds_if": ">= 0.9",
                "measure": {**measure, "where": {"set": "grid", **more}},
            },
            "claims.mine",
        )
        for more in ({}, {"within": [14, 8]})
    )
    records = claims.judge_claims([whole, some], table, "cpu")
    assert [record["measured"] for record in records] == [0.25, 0.5]
    assert [record["interval"][1] for record in records] == [1.0, 1.0]
    assert [(record["n"], record["seeds"]) for record in records] == [(12, 3), (12, 3)]
    measure["where"] = {"set": "grid"}
    assert one(always(1.0), ">= 0.7", measure=measure)["verdict"] == "holds"


def test_the_last_digit_is_counted_from_places(tmp_path):
    measure = {"rows": ["addition_nope"], "where": {"digits": 12}, "count": "last_right"}
    given = {**BASE, "measure": measure, "holds_if": ">= 0.9", "compare": {"count": "exact"}}
    claim = load(tmp_path, given)
    known = places(["addition_nope"], grid=14)
    record = claims.judge_claims(claim, cells(["addition_nope"], grid=14), "cpu", known)[0]
    own = known.query("digits == 12 and place == 12")
    alone = claims.judge_claims(
        load(tmp_path, {**given, "compare": None}),
        cells(["addition_nope"], grid=14),
        "cpu",
        known,
    )[0]
    assert alone["n"] == own["n"].sum() and alone["measured"] == own["accuracy"].median()
    exact = cells(["addition_nope"], grid=14).query("set == 'equal' and i == 12")["accuracy"]
    assert record["measured"] == pytest.approx(own["accuracy"].median() - exact.median(), abs=1e-6)
    assert record["compared_with"] == "addition_nope"
    missing = claims.judge_claims(claim, cells(["addition_nope"], grid=14), "cpu")[0]
    assert missing["verdict"] == "not tested" and "no result for digits 12" in missing["reason"]


@pytest.mark.parametrize(("known", "verdict"), [(0.95, "holds"), (0.8, "not tested")])
def test_what_has_not_learnt_its_training_says_nothing_beyond(one, known, verdict):
    def share(row, longest, seed, start):
        return known if longest <= 10 else 0.0

    measure = {"rows": ["addition_nope"], "where": {"region": "out of distribution"}}
    record = one(share, "<= 0.05", measure=measure, requires_learned=["addition_nope"])
    assert record["verdict"] == verdict
    if verdict == "not tested":
        assert record["reason"].startswith("row addition_nope has learnt") and not record["n"]
        assert one(share, "<= 0.05", measure=measure)["verdict"] == "holds"


@pytest.mark.parametrize(("codes", "verdict"), [("spare", "holds"), ("theorem", "fails")])
def test_a_construction_is_put_to_sums(tmp_path, codes, verdict):
    asked = {"cells": [[2, 2], [3, 1]], "tokens": 50, "codes": codes}
    given = {**BASE, "construction": asked, "holds_if": "<= 0"}
    claim = load(tmp_path, given)
    record = claims.judge_claims(claim, cells(["addition_nope"], grid=11), "cpu")[0]
    assert record["verdict"] == verdict and record["n"] == 60 + 60
    assert claims.describe_measurement(record).startswith(
        f"{record['measured']} errors; wanted <= 0; construction"
    )


def test_circuits_are_worked_out(tmp_path, monkeypatch):
    given = {**BASE, "circuits": {"count": 3, "gates": 9}, "holds_if": "<= 0"}
    (record,) = claims.judge_claims(
        [claims.Claim(**given, paper="carry")], strings("a", [1]), "cpu"
    )
    assert record["verdict"] == "holds" and record["measured"] == 0 and record["n"] >= 3
    wrong = pd.DataFrame({"n": [9], "wrong": [1]})
    monkeypatch.setattr(majority_constructions, "score_random_circuits", lambda *_, **__: wrong)
    (record,) = claims.judge_claims(
        [claims.Claim(**given, paper="carry")], strings("a", [1]), "cpu"
    )
    assert record["verdict"] == "fails" and record["n"] == 9


@pytest.mark.parametrize(("millions", "verdict"), [(122, "holds"), (121, "fails")])
def test_parameters_are_counted_without_training(tmp_path, millions, verdict):
    given = {**BASE, "parameters": {"addition_abacus_injected": millions}, "holds_if": "<= 0"}
    record = claims.judge_claims(load(tmp_path, given), cells(["addition_nope"], grid=11), "cpu")[0]
    assert record["verdict"] == verdict and record["n"] == 1 and record["profile"] == "paper"


def test_of_several_rows_the_worst_speaks(one):
    measure = {"rows": ["addition_nope", "addition_rope", "addition_fire"], "where": {"digits": 12}}
    share = {"addition_nope": 0.0, "addition_rope": 0.9, "addition_fire": 0.01}
    record = one(lambda row, *_: share[row], "<= 0.05", tuple(share), measure)
    assert record["verdict"] == "fails" and record["row"] == "addition_rope"


def test_regions_and_one_digit_beyond(one):
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
    assert record["n"] == 600  # of the equal lengths, without those of the grid


GOOD = {**BASE, "measure": NOPE, "holds_if": "> 0"}
BAD = {
    "an unknown key": (
        {**GOOD, "papers": "x"},
        "claims.mine.papers: unknown setting, did you mean",
    ),
    "a paper that is not the file's name": ({**GOOD, "paper": "cho2025"}, "claims.mine.paper: unk"),
    "an unknown row": (
        {**GOOD, "measure": {**NOPE, "rows": ["addition_nop"]}},
        "claims.mine: unknown row 'addition_nop', did you mean 'addition_nope'",
    ),
    "an unknown row to compare with": (
        {**GOOD, "compare": {"row": "addition_abacsu"}},
        "claims.mine: unknown row 'addition_abacsu', did you mean 'addition_abacus'",
    ),
    "an unknown row that has to have learnt": (
        {**GOOD, "requires_learned": ["addition_ropes"]},
        "claims.mine: unknown row 'addition_ropes', did you mean 'addition_rope'",
    ),
    "an unknown statistic": (
        {**GOOD, "measure": {**NOPE, "statistic": "medain_over_seeds"}},
        "did you mean 'median_over_seeds'",
    ),
    "an unknown place": (
        {**GOOD, "measure": {**NOPE, "where": {"digit": 12}}},
        "claims.mine.measure.where.digit: unknown setting, did you mean 'digits'",
    ),
    "an unknown place to compare with": (
        {**GOOD, "compare": {"where": {"strat": "1"}}},
        "claims.mine.compare.where.strat: unknown setting, did you mean 'start'",
    ),
    "an unknown region": (
        {**GOOD, "measure": {**NOPE, "where": {"region": "in distrbution"}}},
        "did you mean 'in distribution'",
    ),
    "no cells": ({**GOOD, "measure": {**NOPE, "where": {}}}, "expected a set, a region, digits"),
    "code as condition": ({**GOOD, "holds_if": "__import__('os')"}, "is not a condition"),
    "no condition": ({**BASE, "measure": NOPE}, "expected measure and holds_if together"),
    "nothing to test": (BASE, "expected either measure or not_tested"),
    "a missing statement": (
        {key: GOOD[key] for key in GOOD if key != "statement"},
        "claims.mine.statement: missing",
    ),
    "an unknown code": (
        {**BASE, "construction": {"cells": [[2, 2]], "tokens": 9, "codes": "spar"}},
        "claims.mine.construction.codes: 'spar' is not a choice, did you mean 'spare'",
    ),
    "half a cell": (
        {**BASE, "construction": {"cells": [[2]], "tokens": 9}},
        "claims.mine.construction.cells.0: [2] does not fit",
    ),
    "no mapping": ("abacus", "claims.carry.0: 'abacus' is not a mapping"),
}


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
        with pytest.raises(SettingsError, match="expected a"):
            claims.load_claims(tmp_path)


def test_the_name_of_a_file_is_the_paper(tmp_path):
    for name in ("carry", "smith2026", "cho2025", "adams2026", "mcleish2024"):
        loaded = load(tmp_path, {**GOOD, "id": name}, paper=name)
    papers = ["mcleish2024", "cho2025", "adams2026", "smith2026", "carry"]
    assert [claim.paper for claim in loaded] == [claim.id for claim in loaded] == papers


def test_the_ledger_has_all_works():
    loaded = claims.load_claims()
    assert [path.stem for path in list_claim_files()] == [*PAPERS, OWN_CLAIMS]
    assert {claim.paper for claim in loaded} == {*PAPERS, OWN_CLAIMS}


def test_the_files_of_the_ledger(monkeypatch, tmp_path):
    monkeypatch.setattr(run_settings, "list_rows", lambda profile: list(REACH))
    tables = {"cells": cells(), "places": places(), "curves": None}
    monkeypatch.setattr(
        claims.results,
        "read_table",
        lambda profile, name: tables.get(name, pd.DataFrame({"row": []})),
    )
    monkeypatch.setattr(claims.results, "read_certificates", lambda profile: certificates())
    records = claims.write_ledger("cpu", tmp_path)
    assert json.loads((tmp_path / "claims.json").read_text()) == records
    wanted = {"id", "paper", "statement", "paper_value", "measured", "interval", "n", "seeds"}
    wanted |= {"profile", "verdict"}
    for record in records:
        assert wanted <= set(record) and record["verdict"] in claims.VERDICTS
        tested = record["verdict"] != "not tested"
        assert tested == (record["measured"] is not None) == (record["n"] > 0)
        assert tested or record["reason"]
    page = (tmp_path / "claims.md").read_text()
    assert all(f"`{record['id']}`" in page for record in records)
    assert paths.display_path(claims.FOLDER) == "claims"


def strings(row, right, n=100):
    """Return cells of one row: how many of n strings each seed has right."""
    cell = {"row": row, "profile": "cpu", "trained": 100, "start": "1", "set": "test"}
    made = [{**cell, "seed": seed, "i": 150, "j": 150, "n": n, "exact": of,
             "first_right": of}
            for seed, of in enumerate(right)]  # fmt: skip
    return pd.DataFrame(made)


NOISY = {
    "rows": ["noisy_majority_d8_a4_svc"],
    "where": {"set": "test"},
    "statistic": "seeds_above",
    "above": 1.0,
}


@pytest.mark.parametrize(
    ("left", "measured", "verdict"), [(1, 0.8, "holds"), (2, 0.0, "fails")], ids=["one", "two"]
)
def test_seeds_that_reach_an_accuracy_are_counted(left, measured, verdict, tmp_path, monkeypatch):
    """Those with more heads left than one have failed, if they were to be halved."""

    def known(row, profile):
        halving = "svc" if row.endswith("svc") else None
        return run_settings.make_run(
            {
                "task": {"name": "noisy_majority"},
                "training": {"halving": halving, "batched_seeds": True, "examples": 100},
            }
        )

    monkeypatch.setattr(run_settings, "load_run", known)
    given = {**BASE, "measure": NOISY, "holds_if": "> 0.3"}
    claim = load(tmp_path, given)
    table = strings("noisy_majority_d8_a4_svc", [100] * 16 + [99] * 4)
    heads = [4, left]
    curves = pd.DataFrame(
        [("noisy_majority_d8_a4_svc", seed, of) for seed in range(20) for of in heads],
        columns=["row", "seed", "heads"],
    )
    record = claims.judge_claims(claim, table, "cpu", curves=curves)[0]
    assert record["measured"] == measured and record["verdict"] == verdict
    assert record["n"] == record["seeds"] == 20
    low, high = record["interval"]
    assert low <= measured <= high and high - low < 0.4
    plain = {**BASE, "measure": {**NOISY, "rows": ["noisy_majority_d8_a4"]}, "holds_if": "> 0.3"}
    claim = load(tmp_path, plain)
    table, curves = (
        table.assign(row="noisy_majority_d8_a4"),
        curves.assign(row="noisy_majority_d8_a4"),
    )
    assert claims.judge_claims(claim, table, "cpu", curves=curves)[0]["measured"] == 0.8


def test_shares_of_seeds_are_compared_as_shares(tmp_path):
    given = {
        **BASE,
        "measure": NOISY,
        "holds_if": "> 0",
        "compare": {"row": "noisy_majority_d8_a4"},
    }
    claim = load(tmp_path, given)
    one = strings("noisy_majority_d8_a4_svc", [100] * 18 + [99] * 2)
    other = strings("noisy_majority_d8_a4", [100] * 4 + [99] * 16)
    both = pd.concat([one, other], ignore_index=True)
    record = claims.judge_claims(claim, both, "cpu")[0]
    assert record["measured"] == pytest.approx(0.7) and record["verdict"] == "holds"
    assert 0.3 < record["interval"][0] < 0.7 < record["interval"][1] < 0.95


@pytest.mark.parametrize("measure", [{"statistic": "pooled"}, {"above": None}])
def test_seeds_are_above_something(measure, tmp_path):
    given = {**BASE, "measure": {**NOISY, **measure}, "holds_if": "> 0"}
    with pytest.raises(SettingsError, match="above .* does not fit statistic"):
        load(tmp_path, given)


def analysed(row="addition_equal_abacus", digits=(6, 7), seeds=3):
    """Return what an analysis of a row counted: of two kinds, at a trained length and beyond it."""
    return pd.DataFrame(
        [
            {"row": row, "seed": seed, "trained": 6, "digits": length, "place": place,
             "twins": kind, "n": 20, "flipped": 20 - seed if kind == "carry" else place}
            for seed in range(seeds) for length in digits for place in (0, length - 1)
            for kind in ("carry", "control")
        ]
    )  # fmt: skip


ANALYSIS = {"row": "addition_equal_abacus", "table": "confirmed", "count": "flipped"}


@pytest.mark.parametrize(("where", "compare", "measured", "n"), [
    ({"twins": "carry", "beyond": 0}, None, 38 / 40, 120),
    ({"twins": "control", "beyond": 1, "from_top": 0}, None, 6 / 20, 60),
    ({"twins": "control", "beyond": 0, "place": [0, 5]}, None, 5 / 40, 120),
    ({"twins": "carry", "beyond": 0}, {"where": {"twins": "control"}}, 38 / 40 - 5 / 40, 240),
    ({"beyond": 0, "twins": "carry", "from_top": 0},
     {"where": {"from_top": None, "place": 0, "twins": "control"}}, 19 / 20, 120),
])  # fmt: skip
def test_what_an_analysis_counted(tmp_path, where, compare, measured, n):
    given = {**BASE, "analysis": {**ANALYSIS, "where": where}, "holds_if": "> 0"}
    given |= {"compare": compare} if compare else {}
    claim = load(tmp_path, given)
    known = {"confirmed": analysed()}
    (record,) = claims.judge_claims(claim, cells(["addition_nope"]), "cpu", analyses=known)
    assert record["measured"] == pytest.approx(measured, abs=1e-6) and record["n"] == n
    assert record["row"] == "addition_equal_abacus" and record["seeds"] == 3
    assert record["compared_with"] == ("addition_equal_abacus" if compare else None)
    low, high = record["interval"]
    assert low <= record["measured"] <= high and claims.describe_measurement(record)


def test_rows_without_analysis_are_not_tested(tmp_path):
    given = {**BASE, "analysis": {**ANALYSIS, "where": {"twins": "other"}}, "holds_if": "> 0"}
    claim = load(tmp_path, given)
    for known, reason in (
        ({}, "row addition_equal_abacus was not analysed in this profile"),
        ({"confirmed": analysed()}, "nothing was counted in row addition_equal_abacus for twins"),
    ):
        (record,) = claims.judge_claims(claim, cells(["addition_nope"]), "cpu", analyses=known)
        assert record["verdict"] == "not tested" and record["reason"].startswith(reason)


@pytest.mark.parametrize(("analysis", "message"), [
    ({**ANALYSIS, "table": "confirmd"}, "unknown table 'confirmd', did you mean 'confirmed'"),
    ({**ANALYSIS, "count": "flippd"}, "analysis: unknown column 'flippd', did you mean 'flipped'"),
    ({**ANALYSIS, "where": {"twin": "carry"}}, "unknown column 'twin', did you mean 'twins'"),
    ({**ANALYSIS, "row": "addition_equal_abacu"}, "unknown row 'addition_equal_abacu', did you"),
    ({**ANALYSIS, "wher": {}}, "analysis.wher: unknown setting, did you mean 'where'"),
])  # fmt: skip
def test_analyses_that_do_not_fit(tmp_path, analysis, message):
    given = {**BASE, "analysis": analysis, "holds_if": "> 0"}
    with pytest.raises(SettingsError, match=message):
        load(tmp_path, given)


def test_lengths_that_were_never_trained_have_regions_of_their_own(tmp_path):
    """Of a row that learns from a data set: 5 lies within 1 to 4 and 6, and 7 beyond."""
    row = "addition_equal_abacus"
    table = pd.DataFrame(
        [
            {"row": row, "profile": "full", "seed": seed, "start": "1", "set": "equal",
             "i": i, "j": i, "trained": 6, "n": 10, "exact": i}
            for seed in range(2) for i in range(2, 9)
        ]
    )  # fmt: skip
    for region, right, n in (("in distribution", 15, 40), ("interpolation", 5, 10),
                             ("extrapolation", 15, 20)):  # fmt: skip
        measure = {"rows": [row], "where": {"region": region}}
        given = {**BASE, "measure": measure, "holds_if": "> 0"}
        (record,) = claims.judge_claims(load(tmp_path, given), table, "cpu")
        assert record["measured"] == pytest.approx(right / n) and record["n"] == 2 * n, region


def test_a_proof_is_no_sample():
    """Two of two seeds are certified, or none of one: the share has no interval."""
    table = certificates()
    claim = {
        "paper": "carry",
        "section": "",
        "statement": "",
        "paper_value": "",
        "holds_if": ">= 1",
    }
    of = [
        claims.Claim(id=row, certified={"row": row}, **claim)
        for row in ("addition_relative", "multiplication_relative_scratchpad", "copying_relative")
    ]
    of.append(claims.Claim(id="other", certified={"row": "addition_nope"}, **claim))
    records = claims.judge_claims(of, cells(), "cpu", certificates=table)
    assert [record["verdict"] for record in records] == ["holds", "fails", "fails", "not tested"]
    assert records[0]["interval"] == [1.0, 1.0] and records[0]["seeds"] == 2
    assert records[0]["n"] == 800 and records[0]["statistic"] == "seeds_certified"
    assert "has no certificate" in records[3]["reason"]
