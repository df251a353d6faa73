"""The adder taken apart shows what the proof's own tables show, and it is put to a true test."""

import pandas as pd
import pytest
import torch

from carry.evaluation.decoding import decode_greedily
from carry.formats import EOS
from carry.interpretability import adder_construction
from carry.models.constructions.adder import build_adder
from carry.models.teacher_forcing import teacher_forced_pass

# cho2025, appendix D, from "=" on: what each table says of the rows that are not 0.
PRE_SUM = "0 0 0 0 7 5 0 0 15 9 0 0 11 9 1 0"
PRE_CARRY = "0 0 0 0 0 7 5 0 0 15 9 0 0 11 9 1"
PRE_ARROW = "1/4 1/4 1/4 1 1/5 1/5 1/5 1 1/6 1/6 1/6 1 1/7 1/7 1/7 1"
PRE_EOS = "1/3 1/3 1/3 1/3 1/3 1/3 1/3 1/3 1/2 1/3 1/3 1/3 1/2 1/2 1/2 1/2"
NUM = "0 0 0 0 0 7 5 0 0 5 0 1 0 1 0 2"
ARROW = "0 0 0 1 0 0 0 1 0 0 0 1 0 0 0 1"
STATED = {
    (8, "PRE_SUM"): PRE_SUM,
    (12, "PRE_CARRY"): PRE_CARRY,
    (16, "PRE_ARROW"): PRE_ARROW,
    (20, "PRE_EOS"): PRE_EOS,
    (21, "NUM"): NUM,
    (21, "PRE_SUM"): PRE_SUM,
    (21, "PRE_CARRY"): PRE_CARRY,
    (21, "PRE_ARROW"): PRE_ARROW,
    (21, "PRE_EOS"): PRE_EOS,
    (22, "ARROW"): ARROW,
    (23, "PRE_SUM"): PRE_SUM,
    (25, ">"): ARROW.replace("1", "10"),
}


@pytest.fixture(scope="module")
def shown():
    return adder_construction.paper_tables()


@pytest.mark.parametrize(("number", "row"), STATED)
def test_tables_are_those_of_the_paper(shown, number, row):
    assert " ".join(shown[number].loc[row]) == STATED[number, row]


def test_there_are_all_tables_with_titles_and_only_named_rows_differ_from_0(shown):
    assert list(shown) == list(adder_construction.TITLES) == list(range(4, 27))
    left = {number: list(table.index) for number, table in shown.items()}
    assert left[7] == left[8] == ["PRE_SUM"] and left[20] == ["PRE_EOS"]
    assert left[22] == ["SUM", "ARROW", "EOS"]
    codes = ["POS_1", "POS_1_NEXT", "POS_2", "POS_2_NEXT"]
    assert left[4] == ["p1", "p2", "NUM", "IS_BOS", "FULL_ONES", *codes]


def test_codes_are_those_of_the_ids_and_of_the_next(shown):
    table = shown[4]

    def bits(index):
        return "".join("+" if index >> bit & 1 else "-" for bit in (2, 1, 0))

    for level, name in ((1, "POS_1"), (2, "POS_2")):
        for column in range(1, table.shape[1]):  # the first token has no id, and no code
            id_ = int(table.iloc[level - 1, column])
            assert table.loc[name].iloc[column] == bits(id_)
            assert table.loc[f"{name}_NEXT"].iloc[column] == bits(id_ + 1)
    assert (table.iloc[:2, 0] == "0").all() and table.loc["POS_1"].iloc[0] == "0"


def test_where_the_papers_tables_disagree_the_tensors_follow_the_earlier(shown):
    """Its Tables 22 and 25 have EOS 0 at "=" and -1 at the second arrow, against its Table 21."""
    eos = shown[22].loc["EOS"].tolist()
    assert " ".join(eos) == "-1 -1 -1 0 -1 -1 -1 0 0 -1 -1 0 0 0 0 1"
    assert [100 * int(of) for of in eos] == [int(of) for of in shown[25].loc["$"]]
    assert "".join(shown[26].loc["O"]) == "000>750>501>102$"


def test_a_step_is_what_the_model_makes_of_it():
    """Each matrix that is shown leads to the next, up to the logits."""
    model = adder_construction.paper_example()
    steps = adder_construction.trace_problem(model, 57, 48, 96, first=(4, 2))
    mixed = torch.einsum("hdt,hqt->dq", steps.value, steps.attention)
    torch.testing.assert_close(steps.embedded + mixed, steps.attended)
    scores = torch.einsum("hkq,hkt->hqt", steps.query, steps.key)
    causal = torch.ones_like(scores[0]).tril().bool()
    weights = scores.masked_fill(~causal, -torch.inf).softmax(-1)
    torch.testing.assert_close(weights, steps.attention)
    read = model.network.logits.weight @ steps.concluded
    torch.testing.assert_close(read, steps.logits)


@pytest.mark.parametrize("scale", [1.0, 2.0, 64.0])
@pytest.mark.parametrize("most", [2**24, 2**12])
def test_margins_tell_what_the_pass_and_decoding_tell(scale, most, monkeypatch):
    monkeypatch.setattr(
        adder_construction, "MAX_ATTENTION_SCORES", most
    )  # a part of a response at a time
    model = build_adder(4, 3, scale=scale)
    problems = adder_construction.random_sums(model, 4, 3, count=20)
    judged = adder_construction.score_construction(model, problems)
    batch = model.format.write(problems)
    seen = teacher_forced_pass(model, batch)
    for name, counted in (("n", seen.real), ("wrong", seen.wrong), ("exact", seen.exact)):
        assert judged[name] == counted.sum()
    assert (judged["margin"] > 0) == (judged["wrong"] == 0)
    written = decode_greedily(model, problems)
    due = torch.where(seen.real, seen.target, EOS)
    assert (written == due[:, : written.shape[1]]).all(1).sum() == judged["exact"]


def test_every_sum_is_asked_once():
    model = build_adder(2, 2)
    problems = adder_construction.all_sums(model, 2, 2)
    asked = {tuple(of) for of in (problems.operands * torch.tensor([1, 10])).sum(2).tolist()}
    assert len(asked) == len(problems) == 10_000
    assert (problems.lengths.sum(1)[:10] == 2).all() and problems.lengths.max() == 2


def test_counts_have_intervals_and_add_up():
    found = adder_construction.score_sums(
        [(2, 2), (3, 2)], 100, dtypes=["float32", "float64"], scales=[1.0, 8.0]
    )
    assert (found["low"] <= found["accuracy"]).all() and (found["accuracy"] <= found["high"]).all()
    assert (found["wrong"] > 0).tolist() == [True, False] * 4
    assert (found["n"] >= 100).all() and set(found["sequence"]) == {20, 28}
    share = 1 - found["wrong"] / found["n"]
    pd.testing.assert_series_equal(share, found["accuracy"], check_names=False)
