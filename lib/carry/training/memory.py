"""Memory of a training: the share of a GPU, and what is kept between steps."""

from __future__ import annotations

import ctypes
import os
import sys

import torch

from carry.processes import GPU_SHARE

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
CONTEXT_BYTES = 1.0e9  # of a process on a GPU: CUDA, its libraries, their workspaces


def limit_gpu_memory(device: torch.device) -> None:
    """Limit the tensors of this process to its share of a GPU; on a CPU do nothing.

    A share that CUDA itself takes leaves none for tensors, and the first step refuses it.
    """
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        share = float(os.environ.get(GPU_SHARE, "1")) - CONTEXT_BYTES / total
        torch.cuda.set_per_process_memory_fraction(max(share, 0.0), device)


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next step; where there is no glibc, do nothing.

    By default it returns large blocks to the system after each step, which fills new ones with
    zeros in the next: 5% of the time of a step in fp32, up to 20% in bf16.

    >>> keep_freed_memory()
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(TRIM_THRESHOLD, 2**31 - 1)
            mallopt(MMAP_THRESHOLD, 2**30)  # bytes; larger blocks are still returned
