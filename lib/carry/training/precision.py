"""In which precision products are worked out while training; scores are always plain fp32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from carry.config.settings import SettingsError


def product_error(precision: str = "medium") -> float:
    """Return the relative error of one matrix product on this CPU under a torch precision.

    About 1e-7 is real fp32; about 1e-3 means that the inputs are rounded to bf16.

    >>> product_error("highest") < 1e-5
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


def choose(name: str, device: torch.device) -> str:
    """Return what `auto` means here: bf16 where the machine has it of its own, else fp32.

    A CPU is asked by one product: where torch rounds "medium" inputs to bf16, it does so because
    the CPU is faster at it (AMX, say); an error of up to 1e-2 is then as it should be.
    """
    if name != "auto":
        if name == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
            raise SettingsError("training.precision: 'bf16' does not fit, this GPU has none; "
                                "expected 'fp32' or 'medium'")  # fmt: skip
        return name
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if 1e-5 < product_error("medium") < 1e-2 else "fp32"


@contextmanager
def training_in(name: str, device: torch.device) -> Iterator[None]:
    """Work in a precision, and return to the one before."""
    before = torch.get_float32_matmul_precision()
    half = torch.autocast(device.type, torch.bfloat16) if name == "bf16" else nullcontext()
    try:
        torch.set_float32_matmul_precision("medium" if name == "medium" else "highest")
        with half:
            yield
    finally:
        torch.set_float32_matmul_precision(before)
