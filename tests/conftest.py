"""One thread for each process, and run-time checks of shapes and types in contract tests.

The checks take 40% of the time of a test, so `make test` runs tests marked `contract` by themselves
with CARRY_CHECK_SHAPES=1, and all others without.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # for notebooks' kernels, and before torch reads it
# Whatever the user's terminal and settings are: lines of help, and the defaults of matplotlib.
os.environ |= {"COLUMNS": "80", "MATPLOTLIBRC": os.devnull}

import pytest
import torch
from jaxtyping import install_import_hook

if os.environ.get("CARRY_CHECK_SHAPES"):  # before anything imports the library
    install_import_hook("carry", "beartype.beartype")

torch.set_num_threads(1)


@pytest.fixture
def closed_figures():
    """Draw without a screen, and leave no figure open behind a test."""
    from matplotlib import pyplot as plt

    plt.switch_backend("Agg")
    yield
    plt.close("all")
