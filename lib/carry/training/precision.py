"""The precision of matrix products in training. Scores are always computed in plain fp32.

fp32     every product in fp32
medium   fp32 in, fp32 out, by the library that torch's "medium" chooses: oneDNN in the place of
         MKL on CPUs without AMX, which changes the rounding alone; bf16 products elsewhere
bf16     activations and products in bf16, by autocast, on a device that has such instructions;
         others compute them at a hundredth of the speed of fp32, and train as in auto
auto     the fastest of these that is real fp32, see `choose_precision`
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch

MAX_FP32_ERROR = 1e-5  # relative, of a product of 256 x 256; fp32 has 3e-7, bf16 2e-3
MEDIUM_FROM_WIDTH = 128  # below, calls of oneDNN cost up to a fifth of a step more than MKL's


def measure_product_error(precision: str = "medium") -> float:
    """Return the relative error of one matrix product on this CPU with a torch precision.

    An error of about 1e-7 means fp32; about 1e-3 means that the inputs are rounded to bf16.

    >>> measure_product_error("highest") < MAX_FP32_ERROR
    True
    """
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(256, 256, generator=generator) for _ in range(2))
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(precision)
        error = (a @ b).double() - a.double() @ b.double()
    finally:
        torch.set_float32_matmul_precision(before)
    return float(error.norm() / (a.double() @ b.double()).norm())


def choose_precision(name: str, device: torch.device, width: int) -> str:
    """Return the precision of a setting on a device; `auto` is the fastest that is real fp32.

    That is fp32, but medium for wide models where MKL has half of oneDNN's speed, if medium does
    not round to bf16 there. The choice depends on the machine and the model alone,
    never on a timing: training twice on one machine gives the same weights.

    Args:
        width: of the model's residual stream.
    """
    if name != "auto" and (name != "bf16" or has_bf16(device)):
        return name
    may_be_faster = device.type == "cpu" and width >= MEDIUM_FROM_WIDTH and has_slow_mkl()
    return "medium" if may_be_faster and measure_product_error() <= MAX_FP32_ERROR else "fp32"


def has_bf16(device: torch.device) -> bool:
    """Return whether a device has instructions for products in bf16."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.ops.mkldnn._is_mkldnn_bf16_supported()  # what torch asks before each product


def has_slow_mkl() -> bool:
    """Return whether MKL leaves half of this CPU unused: AVX-512, if the CPU is AMD's."""
    linux = Path("/proc/cpuinfo")
    described = linux.read_text(encoding="utf-8") if linux.exists() else platform.processor()
    return "AuthenticAMD" in described and torch.backends.cpu.get_cpu_capability() == "AVX512"


@contextmanager
def use_precision(name: str, device: torch.device) -> Iterator[None]:
    """Compute in a precision inside the block."""
    before = torch.get_float32_matmul_precision()
    autocast = torch.autocast(device.type, torch.bfloat16) if name == "bf16" else nullcontext()
    try:
        torch.set_float32_matmul_precision("medium" if name == "medium" else "highest")
        with autocast:
            yield
    finally:
        torch.set_float32_matmul_precision(before)
