"""What a process imports before kernels are forked from it: libraries of figures, and settings."""

from contextlib import suppress

import ipykernel.kernelapp  # noqa: F401

import carry.plots  # noqa: F401
from carry.config import profiles
from carry.config.settings import SettingsError

with suppress(SettingsError):  # the notebook that needs them says what is wrong
    profiles.load_profile("full")
