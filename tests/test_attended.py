"""Counts of what a head attends to, and of the last bit of parity, of models known beforehand."""

import pytest
import torch

from carry.analyses import attended, last_bits
from carry.experiments.resolve import make_run
from carry.models.constructions.adder import build_adder
from carry.models.system import System
from mock_models import Oracle, StopsEarly

SUMS = {"name": "multi_operand_addition"}
STEPS = {"name": "scratchpad", "pad": True, "reverse_operands": False}


@pytest.mark.parametrize("operands", [2, 5, 9])
def test_heads_of_the_proof_attend_to_as_few_tokens_for_any_number_of_operands(operands):
    table = attended.count_attended(build_adder(operands, 2), 2, operands).set_index("head")
    assert (table["n"] == 3 * operands).all()  # three digits of each sum
    assert table["best"].sum() == 1
    sharp = table.drop(index=2)  # which attends to all signs, to find the end
    assert (sharp["few"] == sharp["n"]).all() and (sharp["tokens"] <= 3).all()
    assert table.loc[2, "few"] == 0 and table.loc[2, "as_operands"] == table.loc[2, "n"]


@pytest.mark.parametrize("form", [STEPS, {"pad": True, "reverse_operands": False}])
def test_attention_to_all_tokens_alike_grows_with_the_operands(form):
    training = {"digits": 2}
    system = System(make_run({"task": SUMS, "format": form, "training": training}))
    with torch.no_grad():
        for weights in system.network.parameters():
            weights.zero_()
    (table,) = attended.tables(system).values()
    assert table["operands"].unique().tolist() == [2, 3, 4]
    assert (table["few"] == 0).all() and (table["as_operands"] == table["n"]).all()
    assert table.groupby("operands")["tokens"].mean().is_monotonic_increasing
    by_model = table.groupby("operands")["best"].sum()
    assert (by_model == 1).all()


def test_a_last_bit_that_is_not_written_is_counted_apart():
    run = make_run({"task": {"name": "parity"}, "training": {"digits": 3},
                    "format": {"name": "scratchpad", "reverse_operands": True}})  # fmt: skip
    found = {kind: last_bits.tables(kind(run))["last_bits"] for kind in (Oracle, StopsEarly)}
    for table in found.values():
        assert table["digits"].tolist() == [3, 4, 5, 6] and (table["n"] == 200).all()
    right = found[Oracle]
    for name in ("right", "of_bits", "exact"):
        assert (right[name] == 200).all()
    assert (right["no_bit"] == 0).all()
    early = found[StopsEarly]
    assert (early["no_bit"] == 200).all() and (early[["right", "exact"]] == 0).all().all()
    assert early["of_bits"].between(60, 140).all()  # both bits have the same logit: chance
