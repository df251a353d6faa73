"""Settings that refuse what they do not know, with one line that says what was expected."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable
from typing import Any, Literal, TypeVar, get_args, get_origin

import pydantic

Kind = TypeVar("Kind", bound="Settings")


class SettingsError(ValueError):
    """A setting that cannot be used; its text is one line naming field, value and expectation."""


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the closest known name and lists them all.

    >>> suggest_name("abcus", ["abacus", "index"])
    "did you mean 'abacus'? (known: abacus, index)"
    """
    known = sorted(known)
    close = difflib.get_close_matches(str(name), known, n=1)
    listing = f"known: {', '.join(known)}"
    return f"did you mean '{close[0]}'? ({listing})" if close else f"({listing})"


class Settings(pydantic.BaseModel):
    """Typed settings: frozen, strict, and an unknown key is an error.

    >>> class Window(Settings):
    ...     width: int = 1
    >>> Window.parse({"widht": 2}, "runs.mine")
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: runs.mine.widht: unknown setting, did you mean 'width'? \
(known: width)
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)

    @classmethod
    def parse(cls: type[Kind], values: Any, where: str) -> Kind:
        """Check `values` and build the settings; errors name the place `where` they stand.

        Raises:
            SettingsError: for the first key or value that does not fit.
        """
        if not isinstance(values, dict):
            raise SettingsError(f"{where}: {values!r} is not a mapping of settings")
        for key in values:  # before the values, so that a misspelt key is not "missing" first
            if key not in cls.model_fields:
                hint = suggest_name(key, cls.model_fields)
                raise SettingsError(f"{where}.{key}: unknown setting, {hint}")
        try:
            return cls.model_validate(values)
        except pydantic.ValidationError as error:
            raise SettingsError(_one_line(cls, error.errors()[0], where)) from None


def _one_line(cls: type[Settings], error: Any, where: str) -> str:
    place = ".".join([where, *(str(part) for part in error["loc"])])
    if error["type"] == "missing":
        return f"{place}: missing; expected {_expectation(cls, error['loc'])}"
    if error["type"] == "extra_forbidden":
        return f"{place}: unknown setting {error['loc'][-1]!r}"
    if error["type"] == "value_error":  # raised by a validator of ours, which says it all
        return f"{place}: {error['ctx']['error']}"
    if error["type"] == "literal_error":
        known = [
            part.strip(" '") for part in error["ctx"]["expected"].replace(" or ", ",").split(",")
        ]
        return f"{place}: {error['input']!r} is not a choice, {suggest_name(error['input'], known)}"
    expected = error["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return f"{place}: {error['input']!r} does not fit, expected {expected}"


def _expectation(cls: type[Settings], place: tuple) -> str:
    field = cls.model_fields.get(str(place[-1]))
    if field and get_origin(field.annotation) is Literal:
        return f"one of {', '.join(map(str, get_args(field.annotation)))}"
    kind = getattr(field.annotation, "__name__", str(field.annotation)) if field else "a value"
    return f"a value of type {kind}"


def list_modules(package: str) -> list[str]:
    """Return the names of the parts in a folder: one file each.

    >>> list_modules("carry.positions")
    ['abacus', 'coupled', 'index', 'randomized']
    """
    folder = importlib.import_module(package).__path__
    return sorted(module.name for module in pkgutil.iter_modules(folder))


def choose_class(package: str, base: type, name: Any, where: str) -> type:
    """Return the part called `name`: the subclass of `base` in the file of that name.

    No other part is imported, so that a run depends on what it names and no more.

    Raises:
        SettingsError: if there is none, naming the nearest.
    """
    known = list_modules(package)
    if name not in known:
        raise SettingsError(f"{where}: {name!r} is not there, {suggest_name(name, known)}")
    home = f"{package}.{name}"
    for value in vars(importlib.import_module(home)).values():
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == home:
            return value
    raise TypeError(f"{home} has no {base.__name__}")
