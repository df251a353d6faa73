"""What no window can decide is shown by two problems, which are what they are said to be."""

import pytest

from carry.certificates import window_limits
from carry.certificates.window_limits import CASES
from carry.tasks import build_task


@pytest.fixture(scope="module")
def table():
    return window_limits.find_limits(windows=(1,), problems=600).set_index(["case", "window"])


def test_two_problems_share_a_context_and_go_on_differently(table):
    for row in table.dropna(subset="context").itertuples():
        assert row.one != row.other and row.then != row.or_then
        signs = {"=", ">", "$"}
        assert row.one[-1] == row.other[-1] or {row.one[-1], row.other[-1]} <= signs
        assert row.context[0] == row.one[0] and set(row.context) <= set(row.one)


def test_what_is_due_in_the_first_problem_is_true(table):
    """By Python's own integers, for sums whose highest digit comes first."""
    row = table.loc[("sums, highest digit first", 1)]
    for written, due in ((row["one"], row["then"]), (row["other"], row["or_then"])):
        asked, said = written[1:].split("=")
        operands = asked.split("+")
        total = build_task({"name": "addition"}).solve_text(*(str(int(of)) for of in operands))
        whole = total.zfill(len(operands[0]) + 1)
        assert whole.startswith(said) and (whole + "$")[len(said)] == due


def test_the_cases_that_are_certified_are_determined(table):
    for case in ("sums, lowest digit first", "products by local steps", "local running sums",
                 "parity by prefixes", "reversing, places counted down"):  # fmt: skip
        assert table.loc[(case, 1), "contexts"] > 0
    for case in ("sums, highest digit first", "products, lowest digit first",
                 "parity of all bits, without steps", "running sums, without zeros",
                 "products by the paper's steps",
                 "reversing, places counted in each string"):  # fmt: skip
        assert isinstance(table.loc[(case, 1), "context"], str)


def test_every_case_has_a_name_of_its_own():
    assert len({case.name for case in CASES}) == len(CASES)
