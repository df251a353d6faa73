"""Checks of the arguments of public functions: a wrong argument is refused in one line."""

from __future__ import annotations

from typing import Any

from carry.config.settings import LARGEST_INTEGER, SettingsError, describe


def check_type(value: Any, kind: type, where: str) -> None:
    """Refuse a value of another type.

    >>> check_type([], str, "row")
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: row: [] is not valid; expected a value of type str

    Raises:
        SettingsError: for a value that is not an instance of `kind`.
    """
    if not isinstance(value, kind):
        raise SettingsError(
            f"{where}: {describe(value)} is not valid; expected a value of type {kind.__name__}"
        )


def check_integer(value: Any, where: str, least: int = 1, most: int = LARGEST_INTEGER) -> None:
    """Refuse a value that is not an integer from `least` to `most`.

    >>> check_integer(0, "count", most=9)
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: count: 0 is not valid; expected an integer from 1 to 9

    Raises:
        SettingsError: for another number, and for a value of another type.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise SettingsError(
            f"{where}: {describe(value)} is not valid; expected an integer from {least} to {most}"
        )
