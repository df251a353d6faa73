"""Models whose weights are in git (reports/models), for the cells of notebooks that ask one."""

from __future__ import annotations

from carry.config import paths, profiles, run_settings
from carry.config.settings import SettingsError, suggest_name
from carry.evaluation import trained_models
from carry.models.system import System

PROFILES = ("long", paths.PUBLISHED)  # with weights in git; of a row in both, the last is loaded


def load_committed(row: str, seed: int = 0) -> System:
    """Load one seed of a row with its committed weights, on the CPU.

    >>> load_committed("parity_relative_scratchpad").run.profile
    'full'
    >>> load_committed("addition_abacus_looped_20").run.profile
    'long'

    Raises:
        SettingsError: for a row without committed weights, and for weights of other settings.
    """
    committed = {
        name: profile for profile in PROFILES for name in profiles.load_profile(profile)["models"]
    }
    if row not in committed:
        raise SettingsError(
            f"row: {row!r} has no committed weights, {suggest_name(row, committed)}"
        )
    folder = paths.models_folder(committed[row], profiles.find_study(row), row)
    run = run_settings.load_run(row, committed[row])
    return trained_models.restore_system(folder / f"seed_{seed}.safetensors", run, seed, "cpu")
