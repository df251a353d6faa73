"""Precision: `auto` is the fastest that is real fp32, chosen without a clock, and put back."""

import pytest
import torch

from carry.training import precision
from carry.training.precision import MEDIUM_FROM_WIDTH, choose_precision

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_precision_is_put_back():
    before = torch.get_float32_matmul_precision()
    with precision.use_precision("medium", CPU):
        assert torch.get_float32_matmul_precision() == "medium"
    assert torch.get_float32_matmul_precision() == before


def test_auto_is_real_fp32_here():
    chosen = choose_precision("auto", CPU, 1024)
    with precision.use_precision(chosen, CPU):
        name = torch.get_float32_matmul_precision()
    assert chosen in {"fp32", "medium"}
    assert precision.measure_product_error(name) <= precision.MAX_FP32_ERROR


@pytest.mark.parametrize(
    ("slow", "error", "width", "device", "expected"),
    [
        (True, 3e-7, MEDIUM_FROM_WIDTH, CPU, "medium"),
        (True, 3e-7, MEDIUM_FROM_WIDTH - 1, CPU, "fp32"),
        (True, 2e-3, MEDIUM_FROM_WIDTH, CPU, "fp32"),  # rounds to bf16
        (False, 3e-7, 1024, CPU, "fp32"),
        (True, 3e-7, 1024, CUDA, "fp32"),  # not TF32
    ],
)
def test_auto_depends_on_machine_and_width(monkeypatch, slow, error, width, device, expected):
    monkeypatch.setattr(precision, "has_slow_mkl", lambda: slow)
    monkeypatch.setattr(precision, "measure_product_error", lambda: error)
    assert choose_precision("auto", device, width) == expected


@pytest.mark.parametrize("device", [CPU, CUDA])
def test_a_named_precision_is_kept_unless_the_device_lacks_it(monkeypatch, device):
    names = ("fp32", "medium", "bf16")
    monkeypatch.setattr(precision, "has_slow_mkl", lambda: False)
    monkeypatch.setattr(precision, "has_bf16", lambda device: True)
    assert tuple(choose_precision(name, device, 64) for name in names) == names
    monkeypatch.setattr(precision, "has_bf16", lambda device: False)
    assert [choose_precision(name, device, 64) for name in names] == ["fp32", "medium", "fp32"]
