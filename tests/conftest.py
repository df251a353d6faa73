"""Shapes and types checked at run time, in tests only, and one thread for each process."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # for notebooks' kernels, and before torch reads it

import torch
from jaxtyping import install_import_hook

# Before anything imports the library: its functions now check the types and shapes they are given.
install_import_hook("carry", "beartype.beartype")

torch.set_num_threads(1)
