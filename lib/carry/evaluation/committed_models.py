"""Models whose weights are in git (reports/models), for the cells of notebooks that ask one."""

from __future__ import annotations

from carry.config import paths, profiles, run_settings
from carry.config.settings import SettingsError, suggest_name
from carry.evaluation import trained_models
from carry.models.system import System

PROFILES = ("long", paths.PUBLISHED)  # with weights in git; of a row in both, the last is loaded


def find_committed() -> dict[str, str]:
    """Return the rows with weights in git, each with the profile that trained them.

    >>> find_committed()["addition_abacus_looped_20"]
    'long'
    """
    return {row: name for name in PROFILES for row in profiles.load_profile(name)["models"]}


def load_committed(row: str, seed: int = 0, device: str | None = "cpu") -> System:
    """Load one seed of a row with its committed weights; None is the device of its settings.

    >>> load_committed("parity_relative_scratchpad").run.profile
    'full'

    Raises:
        SettingsError: for a row or a seed without committed weights, and for weights of other
            settings.
    """
    committed = find_committed()
    if row not in committed:
        raise SettingsError(
            f"row: {row!r} has no committed weights, {suggest_name(row, committed)}"
        )
    profile = committed[row]
    path = paths.models_folder(profile, profiles.find_study(row), row) / f"seed_{seed}.safetensors"
    if not path.exists():
        raise SettingsError(
            f"row: {row!r} has no committed weights of seed {seed}; expected seed 0"
        )
    return trained_models.restore_system(path, run_settings.load_run(row, profile), seed, device)
