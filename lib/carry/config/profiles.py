"""Read params.yaml (which rows exist) and the profiles (which of them run, and how large)."""

from __future__ import annotations

import marshal
import warnings
from functools import cache
from pathlib import Path
from typing import Any, Literal

import ruamel.yaml
from pydantic import Field

from carry.config import paths
from carry.config.paths import ANALYSES, ROOT, VARIANTS
from carry.config.settings import (
    PROBLEM_SET_NAME,
    Settings,
    SettingsError,
    check_name,
    describe,
    shorten,
    suggest_name,
)

DEEPEST = 20  # nested levels of a YAML file: deeper ones exhaust the stack
MOST_VALUES = 1_000_000  # values of a YAML file after its aliases are expanded

Sections = dict[str, dict[str, Any] | None]


Works = Literal[
    "overview", "mcleish2024", "cho2025", "fraknoi2024", "ibrahimli2024", "every_length"
]
Chosen = dict[str, Literal["all"] | list[str]]  # rows of each study


class Params(Settings):
    """The sections of params.yaml."""

    base: dict[str, Any]
    runs: Sections = Field(min_length=1)
    studies: dict[str, list[str]] = Field(min_length=1)
    problems: Sections = Field(min_length=1)
    variants: Sections = {}

    def check(self, where: str) -> None:
        """Refuse names that cannot be paths, and settings of one row that all rows would have.

        Every row must be in one study.
        """
        _check_names(self, ("runs", "variants"), where)
        _check_shared(self.base, f"{where}: base")
        self._check_studies(f"{where}: studies")

    def _check_studies(self, where: str) -> None:
        homes: dict[str, str] = {}
        for study, rows in self.studies.items():
            check_name(study, where)
            if study in (ANALYSES, VARIANTS):  # folders among the results of studies
                raise SettingsError(f"{where}: {study!r} is reserved; expected another name")
            if not rows:
                raise SettingsError(f"{where}.{study}: no rows; expected at least one")
            for row in rows:
                if row not in self.runs:
                    hint = suggest_name(row, self.runs)
                    raise SettingsError(f"{where}.{study}: row {describe(row)} is unknown, {hint}")
                if row in homes:
                    raise SettingsError(
                        f"{where}.{study}: row {row!r} is in {homes[row]!r} too; "
                        "expected one study for each row"
                    )
                homes[row] = study
        for row in self.runs:
            if row not in homes:
                raise SettingsError(f"{where}: row {row!r} is in no study; expected it in one")


class Profile(Settings):
    """The sections of a profile; dvc.yaml reads the paths and the lists of studies too."""

    profile: str
    root: str | None = None
    reports: str | None = None
    results: str | None = None
    order: list[str] = []
    scale: dict[str, Any]
    train: Chosen
    rows: Sections = {}
    problems: Sections
    analyse: dict[str, dict[str, str | list[str]]] = {}
    variant_sets: Sections = {}
    certify: Chosen = {}
    models: Chosen = {}
    figures: list[Works] = []
    others: str | None = None
    counterparts: dict[str, str] = {}

    def check(self, where: str) -> None:
        """Refuse names that cannot be paths, and paths of another profile."""
        _check_names(self, ("rows", "variant_sets"), where)
        _check_shared(self.scale, f"{where}: scale")
        name = Path(where).parent.name
        expected = {
            "profile": name,
            "root": "." if name == "cpu" else "../..",
            "reports": "reports" if name == "cpu" else f"data/{name}/reports",
            "results": "reports" if name in paths.COMMITTED else f"data/{name}/reports",
        }
        for key, value in expected.items():
            if getattr(self, key) not in (value, None):
                raise SettingsError(
                    f"{where}: {key}: {describe(getattr(self, key))} does not fit the folder; "
                    f"expected {value!r}"
                )


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML 1.2 file of mappings, lists, texts, numbers, booleans and nulls.

    Raises:
        SettingsError: for a syntax error, a duplicate key, or a value of another type.
    """
    return marshal.loads(_parse_file(_read_text(path), _file_name(path)))


def _file_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        find_params()  # outside of a project no file is there, which is the clearer error
        raise
    except UnicodeDecodeError as error:
        raise SettingsError(f"{_file_name(path)}: {error}; expected text in UTF-8") from None


def parse_yaml(text: str, where: str) -> Any:
    """Parse YAML 1.2 (1e-3 is a number) with plain values: no dates, no sets, keys are text.

    Raises:
        SettingsError: for a syntax error, a duplicate key, or a value of another type.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ruamel.yaml.error.YAMLWarning)  # an anchor used twice
            parsed = ruamel.yaml.YAML(typ="safe", pure=True).load(text)
    except ruamel.yaml.error.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}" if mark else ""
        problem = shorten(error.problem or error.context)
        raise SettingsError(f"{where}{line}: {problem}; expected valid YAML") from None
    except RecursionError:
        raise SettingsError(f"{where}: nested too deeply; expected {DEEPEST} levels") from None
    except (
        ruamel.yaml.error.YAMLError,
        ruamel.yaml.error.YAMLWarning,
        ValueError,
        TypeError,
    ) as error:
        problem = shorten(str(error).strip().split("\n")[0])  # such as a date that does not exist
        raise SettingsError(f"{where}: {problem}; expected valid YAML") from None
    _check_plain(parsed, where, DEEPEST, [MOST_VALUES])
    return parsed


@cache
def _parse_file(text: str, where: str) -> bytes:
    """Parse a file once; `marshal` copies the result ten times as fast as `deepcopy`."""
    parsed = parse_yaml(text, where)
    if not isinstance(parsed, dict):
        raise SettingsError(f"{where}: {describe(parsed)} is not valid; expected a mapping")
    return marshal.dumps(parsed)


def _check_plain(value: Any, where: str, depth: int, budget: list[int]) -> None:
    """Refuse dates, sets, keys that are not text, huge integers, and aliases without end."""
    budget[0] -= 1
    if depth == 0 or budget[0] < 0:
        raise SettingsError(
            f"{where}: too much is nested; expected {DEEPEST} levels and {MOST_VALUES} values"
        )
    separator = ": " if depth == DEEPEST else "."
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise SettingsError(
                    f"{where}: key {describe(key)} is not text; expected a name, or quotes"
                )
            _check_plain(item, f"{where}{separator}{shorten(key)}", depth - 1, budget)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_plain(item, f"{where}{separator}{index}", depth - 1, budget)
    elif isinstance(value, int) and value.bit_length() > 63:
        raise SettingsError(
            f"{where}: an integer of {value.bit_length()} bits; expected at most 63"
        )
    elif value is not None and not isinstance(value, (str, int, float)):
        raise SettingsError(
            f"{where}: {describe(value)} is a {type(value).__name__}; expected a number or a text"
        )


def _check_names(sections: Params | Profile, names: tuple[str, str], where: str) -> None:
    for section in names:
        for name in getattr(sections, section):
            check_name(name, f"{where}: {section}")
    for name in sections.problems:
        check_name(name, f"{where}: problems", PROBLEM_SET_NAME)


def _check_shared(settings: dict[str, Any], where: str) -> None:
    for key in ("like", "label", "data_set"):
        if key in settings:
            raise SettingsError(f"{where}: {key}: not for all rows; expected it in a row alone")


@cache
def _parse_sections(kind: type[Params | Profile], text: str, where: str) -> bytes:
    """Parse and check a file once."""
    parsed = _parse_file(text, where)
    try:
        sections = kind.parse(marshal.loads(parsed), "")
    except SettingsError as error:
        raise SettingsError(f"{where}: {str(error).removeprefix('.')}") from None
    sections.check(where)
    return parsed


def _read_sections(kind: type[Params | Profile], path: Path) -> dict[str, Any]:
    return marshal.loads(_parse_sections(kind, _read_text(path), _file_name(path)))


def find_params() -> Path:
    """Return the file params.yaml.

    Raises:
        SettingsError: outside of a project, where the installed package finds none.
    """
    file = ROOT / "params.yaml"
    if not file.is_file():
        raise SettingsError(
            f"params.yaml: not in {ROOT} or a folder above it; expected the working directory in "
            "a clone of the project before Python imports carry"
        )
    return file


def load_params() -> dict[str, Any]:
    """Return params.yaml: the rows and problem sets that are compared, without their scale.

    Raises:
        SettingsError: for invalid YAML, sections of another type, or names that are not allowed.
    """
    return _read_sections(Params, find_params())


def find_study(row: str) -> str:
    """Return the study of a row.

    >>> find_study("addition_relative")
    'addition_schemes'

    Raises:
        SettingsError: for an unknown row.
    """
    homes = _find_homes(_read_text(find_params()))
    if not isinstance(row, str) or row not in homes:
        raise SettingsError(f"runs: {describe(row)} is unknown, {suggest_name(row, homes)}")
    return homes[row]


@cache
def _find_homes(params: str) -> dict[str, str]:
    studies = marshal.loads(_parse_sections(Params, params, "params.yaml"))["studies"]
    return {row: study for study, rows in studies.items() for row in rows}


def find_profiles() -> dict[str, Path]:
    """Return the files of the profiles by name.

    >>> sorted(find_profiles())
    ['baselines', 'cpu', 'full', 'gpu', 'long', 'notebook', 'paper', 'smoke', 'tuning']
    """
    files = sorted(find_params().parent.glob("profiles/*/profile.yaml"))
    return {path.parent.name: path for path in files}


def load_profile(profile: str) -> dict[str, Any]:
    """Return a profile with its studies resolved.

    The result has these keys: `scale` for all rows; `studies`, the trained rows of each study;
    `rows`, the scale of each trained row, in the order of studies; `order`, the rows that slices
    of time train first (`carry.pipeline.slices`); `analyses` by row;
    `certificates` and `models`, lists of rows; `variant_sets`, `problems` and `figures`; `others`,
    the profile whose committed results stand for rows that this one does not train, or None; and
    `counterparts`, its row with which each of some rows of other profiles is compared.

    Raises:
        SettingsError: for an unknown profile, or one that is not valid.
    """
    files = find_profiles()
    if not isinstance(profile, str) or profile not in files:
        raise SettingsError(
            f"profile: {describe(profile)} is unknown, {suggest_name(profile, files)}"
        )
    texts = _read_text(files[profile]), _read_text(find_params())
    return marshal.loads(_resolve_profile(*texts, _file_name(files[profile])))


@cache
def _resolve_profile(text: str, params: str, where: str) -> bytes:
    """Return a profile with the rows of its studies in place of the names of studies."""
    profile = marshal.loads(_parse_sections(Profile, text, where))
    homes = marshal.loads(_parse_sections(Params, params, "params.yaml"))["studies"]
    studies = _choose_rows(profile["train"], homes, f"{where}: train")
    trained = [row for rows in studies.values() for row in rows]
    _check_others(profile, where)
    scales = profile.get("rows") or {}
    certified = _choose_rows(profile.get("certify") or {}, studies, f"{where}: certify")
    analyses: dict[str, Any] = {}
    for study, names in (profile.get("analyse") or {}).items():
        _choose_rows({study: list(names)}, studies, f"{where}: analyse")
        analyses |= names
    published = _choose_rows(profile.get("models") or {}, studies, f"{where}: models")
    order = profile.get("order") or []
    counterparts = profile.get("counterparts") or {}
    named = {"rows": scales, "order": order, "counterparts": counterparts.values()}
    for key, rows in named.items():
        for row in rows:
            if row not in trained:
                hint = suggest_name(row, trained)
                raise SettingsError(f"{where}: {key}: {describe(row)} is not trained here, {hint}")
    return marshal.dumps(
        {
            "profile": profile["profile"],
            "order": order,
            "scale": profile["scale"],
            "studies": studies,
            "rows": {row: scales.get(row) or {} for row in trained},
            "problems": profile["problems"],
            "analyses": analyses,
            "variant_sets": profile.get("variant_sets") or {},
            "certificates": [row for rows in certified.values() for row in rows],
            "models": [row for rows in published.values() for row in rows],
            "figures": profile.get("figures") or [],
            "counterparts": counterparts,
            "others": profile.get("others"),
        }
    )


def _check_others(profile: dict[str, Any], where: str) -> None:
    others, files, chain = profile.get("others"), find_profiles(), [profile["profile"]]
    while others is not None:
        if others not in files or others in chain:
            hint = "expected another profile" if others in files else suggest_name(others, files)
            problem = "leads back to it" if others in files else "is unknown"
            raise SettingsError(f"{where}: others: {describe(others)} {problem}, {hint}")
        chain.append(others)
        others = read_yaml(files[others]).get("others")


def _choose_rows(chosen: dict[str, Any], studies: dict[str, list[str]], where: str) -> dict:
    """Return the chosen rows of each study, in the order of both lists of studies."""
    for study, rows in chosen.items():
        if study not in studies:
            hint = suggest_name(study, studies)
            raise SettingsError(f"{where}: study {describe(study)} is unknown, {hint}")
        if not rows:
            raise SettingsError(f"{where}.{study}: no rows; expected at least one, or `all`")
        for row in [] if rows == "all" else rows:
            if row not in studies[study]:
                raise SettingsError(
                    f"{where}.{study}: row {describe(row)} is not in it, "
                    f"{suggest_name(row, studies[study])}"
                )
    return {
        study: [row for row in studies[study] if rows == "all" or row in rows]
        for study, rows in chosen.items()
    }


def find_sources(profile: str, section: str = "rows") -> dict[str, str]:
    """Return the profile whose results each row has: this one, or the first of its `others`.

    The `others` of that profile are the next, and so on.

    Args:
        profile: the name of a profile.
        section: `rows`, or other names that results have: `analyses`, `certificates` or
            `variant_sets`. A row that is trained here has no certificate or analysis of `others`.

    >>> sources = find_sources("cpu")
    >>> [sources[row] for row in ("addition_relative", "addition_coupled", "addition_abacus_fire")]
    ['cpu', 'full', 'baselines']
    """
    settings = load_profile(profile)
    sources = dict.fromkeys(settings[section], profile)
    if settings["others"] is None:
        return sources
    trained = () if section == "variant_sets" else settings["rows"]
    others = find_sources(settings["others"], section)
    return {
        name: profile if name in sources else others[name]
        for name in dict.fromkeys([*others, *sources])
        if name in sources or name not in trained
    }


def load_problem_set(name: str, profile: str, where: str = "problems") -> dict[str, Any]:
    """Return the settings of a problem set at the scale of a profile.

    >>> load_problem_set("1-3_digit", "cpu")["lengths"]
    [1, 2, 3]

    Raises:
        SettingsError: for an unknown problem set; names the most similar.
    """
    problem_sets = load_params()["problems"]
    if not isinstance(name, str) or name not in problem_sets:
        hint = suggest_name(name, problem_sets)
        raise SettingsError(f"{where}: {describe(name)} is unknown, {hint}")
    scale = load_profile(profile).get("problems", {}).get(name)
    return merge_settings(problem_sets[name], scale, where=f"problems.{name}")


def merge_settings(*layers: dict[str, Any] | None, where: str = "settings") -> dict[str, Any]:
    """Merge mappings key by key; later layers win, and lists are replaced.

    >>> merge_settings({"model": {"width": 64, "layers": 1}}, {"model": {"layers": 2}})
    {'model': {'width': 64, 'layers': 2}}

    Raises:
        SettingsError: for a value in place of a mapping, which would drop the mapping's settings.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in (layer or {}).items():
            before = merged.get(key)
            if not isinstance(before, dict):
                merged[key] = value
            elif isinstance(value, dict):
                merged[key] = merge_settings(before, value, where=f"{where}.{key}")
            else:
                raise SettingsError(
                    f"{where}.{key}: {describe(value)} would replace a mapping; expected a mapping"
                )
    return merged
