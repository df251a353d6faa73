"""The precision of matrix products in training. Scores are always computed in plain fp32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from carry.config.settings import SettingsError


def measure_product_error(precision: str = "medium") -> float:
    """Return the relative error of one matrix product on this CPU with a torch precision.

    An error of about 1e-7 means fp32; about 1e-3 means that the inputs are rounded to bf16.

    >>> measure_product_error("highest") < 1e-5
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


def choose_precision(name: str, device: torch.device) -> str:
    """Return the precision of a setting; `auto` is bf16 if the device has bf16 units, else fp32.

    torch rounds "medium" inputs to bf16 on CPUs with fast bf16 units (such as AMX), so the error
    of one product shows them. An error above 1e-2 would be a defect.

    Raises:
        SettingsError: for bf16 on a GPU without it.
    """
    if name != "auto":
        if name == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
            raise SettingsError(
                "training.precision: 'bf16' does not fit, this GPU has none; "
                "expected 'fp32' or 'medium'"
            )
        return name
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if 1e-5 < measure_product_error("medium") < 1e-2 else "fp32"


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
