"""Typed settings. A value that does not fit raises an error of one line."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import pkgutil
import re
import reprlib
from collections.abc import Collection, Iterable
from numbers import Integral, Real
from typing import Any, TypeVar, get_args

import pydantic

Kind = TypeVar("Kind", bound="Settings")

LONGEST_MESSAGE = 499  # characters of a refusal: it stays readable in a terminal
MOST_NAMES = 10  # names that a refusal lists
LARGEST_INTEGER = 10**9  # no size or count of the papers is larger; ids must fit 32 bits

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

    def _render_traceback_(self) -> list[str]:
        """Return what a cell of a notebook shows: IPython asks for it."""
        return [str(self)]


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
    >>> suggest_name("parity", ["charity", "parity_by_steps"])
    "did you mean 'parity_by_steps'? (known: charity, parity_by_steps)"
    >>> suggest_name("zzz", ["b", "a"])
    'expected one of a, b'
    """
    wanted, names = str(name)[:100], sorted(map(str, choices))
    if not names:
        return "expected none"
    nearest, more = names, len(names) - MOST_NAMES
    if more > 0:
        nearest = sorted(difflib.get_close_matches(wanted, names, n=MOST_NAMES, cutoff=0.0))
    listing = ", ".join(nearest) + (f" and {more} more" if more > 0 else "")
    longer = [name for name in names if wanted and name.startswith(wanted)]
    similar = difflib.get_close_matches(wanted, longer or names, n=1, cutoff=0.0 if longer else 0.6)
    if similar:
        return f"did you mean '{similar[0]}'? (known: {listing})"
    return f"expected one of {listing}"


def check_known(name: object, choices: Collection[object], where: str) -> None:
    """Refuse a name that is not among the choices, with a hint.

    >>> check_known("abcus", ["abacus", "index"], "ids")
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: ids: 'abcus' is unknown, did you mean 'abacus'? (known: \
abacus, index)
    """
    if not isinstance(name, str) or name not in choices:
        raise SettingsError(f"{where}: {describe(name)} is unknown, {suggest_name(name, choices)}")


def check_number(where: str, value: object, least: float, most: float) -> None:
    """Refuse what is no number from `least` to `most`, both included; two integers: a whole one.

    >>> check_number("share", 0.5, 0.0, 1.0)
    >>> check_number("digits", 40, 1, 34)
    Traceback (most recent call last):
        ...
    carry.config.settings.SettingsError: digits: 40 does not fit; expected a whole number from 1 \
to 34

    Raises:
        SettingsError: with the range.
    """
    is_whole = isinstance(least, int) and isinstance(most, int)
    if not isinstance(value, Integral if is_whole else Real) or not least <= value <= most:
        noun = "a whole number" if is_whole else "a number"
        raise SettingsError(
            f"{where}: {describe(value)} does not fit; expected {noun} from {least} to {most}"
        )


def check_name(name: object, where: str) -> None:
    """Refuse a name that cannot be part of a path and of a shell command."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_]{1,100}", name):
        raise SettingsError(
            f"{where}: {describe(name)} is not a name; expected 1 to 100 characters: letters, "
            "digits and _"
        )


def match_words(pattern: str, expected: str) -> pydantic.AfterValidator:
    """Return a validator of a text that refuses another one with what is `expected`, in words."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{describe(text)} does not fit, expected {expected}")
        return text

    return pydantic.AfterValidator(check)


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

        Settings within settings are parsed first, so that errors name their place.

        Raises:
            SettingsError: for the first key or value that does not fit.
        """
        if not isinstance(values, dict):
            raise SettingsError(f"{where}: {describe(values)} is not valid; expected a mapping")
        for key in values:  # before the values, since a misspelt key also makes a key missing
            if key not in cls.model_fields:
                hint = suggest_name(key, cls.model_fields)
                raise SettingsError(f"{where}.{key}: unknown setting, {hint}")
        for key, value in values.items():
            kind = cls.model_fields[key].annotation
            if type(None) in get_args(kind):
                kind = get_args(kind)[0]
            inside = isinstance(kind, type) and issubclass(kind, Settings)
            if inside and not isinstance(value, kind | None):
                values = {**values, key: kind.parse(value, f"{where}.{key}")}
        try:
            return cls.model_validate(values)
        except pydantic.ValidationError as error:
            raise SettingsError(_explain(error.errors(), values, where)) from None

    @pydantic.field_validator("*")
    @classmethod
    def _check_integer(cls, value: Any) -> Any:
        """Refuse integers that no size can have: they overflow tensors or exhaust memory."""
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and number > LARGEST_INTEGER:
                raise ValueError(f"{number} is too large; expected at most {LARGEST_INTEGER}")
        return value


def _explain(errors: list[Any], values: Any, where: str) -> str:
    """Return one line about the first of pydantic's errors."""
    first, path = errors[0], _path(errors[0]["loc"], values)
    place, value = ".".join([where, *map(str, path)]), describe(first["input"])
    if first["type"] == "value_error":  # raised by a validator of this package
        return f"{place}: {first['ctx']['error']}"
    if first["type"] == "missing":
        return f"{place}.{first['loc'][-1]}: missing; expected a value"
    if first["type"] == "literal_error" and len(errors) == 1:
        choices = first["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        return f"{place}: {value} is not a choice, {suggest_name(first['input'], choices)}"
    if first["type"] == "extra_forbidden":
        return f"{place}: unknown setting; expected none"
    # The members of a union have one error each, at the same path.
    expected = []
    for error in errors:
        if _path(error["loc"], values) == path:
            text = error["msg"].removeprefix("Input should be ").removeprefix("a valid ").lower()
            text = re.sub(r"^(\w+) should have (.*?)( after validation.*)?$", r"a \1 with \2", text)
            expected.append(text)
    return f"{place}: {value} does not fit, expected {' or '.join(dict.fromkeys(expected))}"


def _path(place: Iterable[Any], values: Any) -> list[Any]:
    """Return the keys and indices of an error's place, without the names of a union's members."""
    path = []
    for part in place:
        with contextlib.suppress(LookupError, TypeError):
            values = values[part]
            path.append(part)
    return path


def list_modules(package: str) -> list[str]:
    """Return the names of the modules in a package.

    >>> list_modules("carry.positions")
    ['abacus', 'coupled', 'index', 'randomized', 'restarted']
    """
    folder = importlib.import_module(package).__path__
    return sorted(module.name for module in pkgutil.iter_modules(folder))


def choose_class(package: str, base: type, name: Any, where: str) -> type:
    """Return the subclass of `base` in the module `name` of a package, or `name` if it is one.

    No other module is imported, so that a run depends only on the modules that it names.

    Raises:
        SettingsError: for an unknown name; names the most similar.
    """
    if isinstance(name, type) and issubclass(name, base):  # of a notebook, to be tried
        return name
    check_known(name, list_modules(package), where)
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
