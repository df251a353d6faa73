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


@pytest.mark.parametrize("operands", [9, 12, 30])
def test_the_model_of_the_proof_attends_to_few_operands_of_any_number(operands):
    line = attended.count_attended(build_adder(operands, 2), 2, operands)
    room = 4 if operands > 10 else 3  # digits of a sum
    assert line["n"] == line["few"] == room * operands and line["every"] == 0


@pytest.mark.parametrize("form", [STEPS, {"pad": True, "reverse_operands": False}])
@pytest.mark.parametrize("least", [0.01, 0.2])
def test_attention_to_all_tokens_alike_is_on_every_operand_above_the_threshold(
    form, least, monkeypatch
):
    monkeypatch.setattr(attended, "LEAST", least)
    system = System(make_run({"task": SUMS, "format": form, "training": {"digits": 2}}))
    with torch.no_grad():
        for weights in system.network.parameters():
            weights.zero_()
    (table,) = attended.tables(system).values()
    assert table["operands"].tolist() == [2, 3, 4]
    numbers = table["operands"] if form is STEPS else 1  # of three digits each are written
    assert (table["n"] == 3 * numbers).all()
    seen = least < 0.02  # more than 8 and fewer than 50 tokens
    assert (table["every"] == table["n"] * seen).all()
    assert (table["attended"] == table["operands"] * seen).all()
    few = (table["operands"] <= attended.FEW) | (not seen)
    assert (table["few"] == table["n"] * few).all()


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
