"""Typed settings. A value that does not fit raises an error of one line."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
import reprlib
from collections.abc import Iterable
from typing import Any, Literal, TypeVar, get_args, get_origin

import pydantic

Kind = TypeVar("Kind", bound="Settings")

LONGEST_MESSAGE = 499  # characters of a refusal: it stays readable in a terminal
LONGEST_LISTING = 200  # characters of the names that a refusal lists
MOST_NAMES = 10  # names that a refusal lists
LARGEST_INTEGER = 10**9  # no size or count of the papers is larger; ids must fit 32 bits

# A name becomes part of a path and of a shell command, so it has no other characters.
NAME = re.compile(r"[A-Za-z0-9_]{1,100}")
PROBLEM_SET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80
_short.maxlevel, _short.maxdict, _short.maxlist, _short.maxtuple = 3, 3, 6, 6


class SettingsError(ValueError):
    """A setting cannot be used; the text is one line with place, value and expectation."""

    def __init__(self, message: object = "") -> None:
        text = " ".join(str(message).split())
        if len(text) > LONGEST_MESSAGE:  # the end holds the expectation
            text = f"{text[: LONGEST_MESSAGE - 205]} ... {text[-200:]}"
        super().__init__(text)


def describe(value: object) -> str:
    """Return the `repr` of a value, shortened to fit an error message.

    >>> describe("x" * 1000)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'"
    """
    return _short.repr(value)


def suggest_name(name: object, choices: Iterable[object]) -> str:
    """Return a hint with the name that is most similar to `name`, and the choices or the nearest.

    >>> suggest_name("abcus", ["abacus", "index"])
    "did you mean 'abacus'? (known: abacus, index)"
    >>> suggest_name("zzz", ["b", "a"])
    'expected one of a, b'
    """
    wanted, names = str(name)[:100], sorted(map(str, choices))
    if not names:
        return "expected none"
    similar = difflib.get_close_matches(wanted, names, n=1)
    nearest = names
    if len(names) > MOST_NAMES:
        nearest = sorted(difflib.get_close_matches(wanted, names, n=MOST_NAMES, cutoff=0.0))
    while len(nearest) > 1 and len(", ".join(nearest)) > LONGEST_LISTING:
        nearest = nearest[:-1]
    listing = ", ".join(nearest)
    if len(nearest) < len(names):
        listing += f" and {len(names) - len(nearest)} more"
    if similar:
        return f"did you mean '{similar[0]}'? (known: {listing})"
    return f"expected one of {listing}"


def check_name(name: object, where: str, pattern: re.Pattern[str] = NAME) -> None:
    """Refuse a name that cannot be part of a path and of a shell command.

    Raises:
        SettingsError: for a name that `pattern` does not match.
    """
    if not isinstance(name, str) or not pattern.fullmatch(name):
        allowed = "letters, digits and _"
        if pattern is PROBLEM_SET_NAME:
            allowed = "letters, digits, _ and -, without - at the start"
        raise SettingsError(
            f"{where}: {describe(name)} is not a name; expected 1 to 100 characters: {allowed}"
        )


class Settings(pydantic.BaseModel):
    """Typed settings: frozen and strict; an unknown key is an error and floats are finite.

    >>> class Window(Settings):
    ...     width: int = 1
    >>> Window.parse({"widht": 2}, "runs.mine")
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: runs.mine.widht: unknown setting, did you mean 'width'? \
(known: width)
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )

    @classmethod
    def parse(cls: type[Kind], values: Any, where: str) -> Kind:
        """Validate `values` and return the settings; errors name the place `where`.

        Raises:
            SettingsError: for the first key or value that does not fit.
        """
        if not isinstance(values, dict):
            raise SettingsError(f"{where}: {describe(values)} is not valid; expected a mapping")
        for key in values:  # before the values, since a misspelt key also makes a key missing
            if key not in cls.model_fields:
                hint = suggest_name(key, cls.model_fields)
                raise SettingsError(f"{where}.{shorten(key)}: unknown setting, {hint}")
        _check_integers(values, where)
        try:
            return cls.model_validate(values)
        except pydantic.ValidationError as error:
            raise SettingsError(_explain(cls, error.errors(), values, where)) from None


def shorten(key: object) -> str:
    """Return a key of a mapping as text of at most 100 characters.

    >>> shorten("width"), len(shorten("x" * 1000))
    ('width', 100)
    """
    text = str(key)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _check_integers(value: Any, where: str) -> None:
    """Refuse integers that no size can have: they overflow tensors or exhaust memory."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_integers(item, f"{where}.{shorten(key)}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_integers(item, f"{where}.{index}")
    elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise SettingsError(
            f"{where}: {describe(value)} is too large; expected at most {LARGEST_INTEGER}"
        )


def _explain(cls: type[Settings], errors: list[Any], values: Any, where: str) -> str:
    """Return one line about the first of pydantic's errors."""
    first, path = errors[0], _path(errors[0], values)
    place = ".".join([where, *map(shorten, path)])
    if first["type"] == "value_error":  # raised by a validator of this package
        return f"{place}: {first['ctx']['error']}"
    # The members of a union have one error each, at the same path.
    expected = [_expectation(error) for error in errors if _path(error, values) == path]
    expectation = " or ".join(dict.fromkeys(expected))
    if first["type"] == "missing":
        return f"{place}: missing; expected {_missing(cls, path)}"
    if first["type"] == "extra_forbidden":
        return f"{place}: unknown setting; expected none"
    value = describe(first["input"])
    if first["type"] == "literal_error" and len(expected) == 1:
        choices = [word.strip(" '") for word in re.split(r", | or ", first["ctx"]["expected"])]
        return f"{place}: {value} is not a choice, {suggest_name(first['input'], choices)}"
    return f"{place}: {value} does not fit, expected {expectation}"


def _path(error: Any, values: Any) -> list[object]:
    """Return the keys and indices of an error without the names of a union's members."""
    path: list[object] = []
    for part in error["loc"]:
        inside = (isinstance(values, dict) and part in values) or (
            isinstance(values, list) and isinstance(part, int) and part < len(values)
        )
        if inside:
            values = values[part]
        if inside or error["type"] == "missing":
            path.append(part)
    return path


def _expectation(error: Any) -> str:
    text = error["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return (
        re.sub(r"^(\w+) should have (.*?)( after validation.*)?$", r"a \1 with \2", text)
        .lower()
        .replace("dictionary", "mapping")
    )


def _missing(cls: type[Settings], path: list[object]) -> str:
    """Return what a missing setting should be: its choices or its type."""
    field = cls.model_fields.get(str(path[-1]))
    if field is None:
        return "a value"
    if get_origin(field.annotation) is Literal:
        return f"one of {', '.join(map(str, get_args(field.annotation)))}"
    if get_origin(field.annotation) is dict:
        return "a mapping"
    return f"a value of type {getattr(field.annotation, '__name__', field.annotation)}"


def list_modules(package: str) -> list[str]:
    """Return the names of the modules in a package.

    >>> list_modules("carry.positions")
    ['abacus', 'coupled', 'index', 'randomized']
    """
    folder = importlib.import_module(package).__path__
    return sorted(module.name for module in pkgutil.iter_modules(folder))


def choose_class(package: str, base: type, name: Any, where: str) -> type:
    """Return the subclass of `base` in the module `name` of a package.

    No other module is imported, so that a run depends only on the modules that it names.

    Raises:
        SettingsError: for an unknown name; names the most similar.
    """
    names = list_modules(package)
    if not isinstance(name, str) or name not in names:
        raise SettingsError(f"{where}: {describe(name)} is unknown, {suggest_name(name, names)}")
    module = f"{package}.{name}"
    for value in vars(importlib.import_module(module)).values():
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == module:
            return value
    raise TypeError(f"{module} has no {base.__name__}")


def label_from_class(kind: type) -> str:
    """Return the words of a class name, the default label of a task, scheme or encoding.

    >>> label_from_class(SettingsError)
    'Settings error'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", kind.__name__).capitalize()
