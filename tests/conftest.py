"""Shapes and types checked at run time, in tests only, and one thread for each process."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # for notebooks' kernels, and before torch reads it

import pytest
import torch
from jaxtyping import install_import_hook

# Before anything imports the library: its functions now check the types and shapes they are given.
install_import_hook("carry", "beartype.beartype")

torch.set_num_threads(1)


@pytest.fixture
def every_row(monkeypatch):
    """Let every profile run every row: made-up tables have more than the profile that they name."""
    from carry.config import profiles  # behind the hook

    known, rows = profiles.load_profile, dict.fromkeys(profiles.load_params()["runs"])
    monkeypatch.setattr(
        profiles, "load_profile", lambda name: profiles.merge({"rows": rows}, known(name))
    )


@pytest.fixture
def closed_figures():
    """Leave no figure open behind a test."""
    from matplotlib import pyplot as plt

    yield
    plt.close("all")
