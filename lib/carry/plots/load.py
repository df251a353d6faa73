"""The former place of `carry.results`, for modules that are rewritten."""

from carry.results import *  # noqa: F403
