"""What is claimed, as claims.yaml has it: each key is checked, and an unknown one is an error."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator, model_validator

from carry.config import paths, profiles
from carry.config.run_settings import Pair
from carry.config.settings import Settings, SettingsError, suggest_name
from carry.models.constructions.adder import Codes
from carry.plots import load as results

FILE = paths.ROOT / "claims.yaml"
PAPERS = Literal["mcleish2024", "cho2025", "fraknoi2024", "ibrahimli2024", "carry"]
STATISTICS = Literal[
    "pooled", "median_over_seeds", "worst_seed", "best_seed", "worst_cell", "errors", "seeds_above"
]
# What is right of n: the response; its first token; its digits, where it has more; or the last of
# them, given the truth before it (of parity with its steps, the answer).
COUNTS = Literal["exact", "first_right", "digits_right", "last_right"]
CONDITION = re.compile(r"(>=|>|<=|<)\s*(-?\d+(?:\.\d+)?)")


class Where(Settings):
    """Which cells: all that agree with what is given.

    `region` is one of the grid's two or "far", or of rows that were trained on some lengths alone
    "interpolation" or "extrapolation", of equal lengths; without it and without a `set`, `digits`
    (of both operands) are those of the sets of equal lengths. `beyond`: so many digits more than
    trained; `grid`: the longest operands of the grid, where a region's accuracy depends on it;
    `within`: the largest i and j.
    """

    set: Literal["grid", "equal", "far", "test", "held out"] | None = None
    region: (
        Literal["in distribution", "out of distribution", "far", "interpolation", "extrapolation"]
        | None
    ) = None
    digits: int | None = None
    i: int | None = None
    j: int | None = None
    beyond: int | None = None
    grid: int | None = None
    within: Pair | None = None
    trained: int | None = None
    start: Literal["1", "middle", "best"] = "best"

    @model_validator(mode="after")
    def _says_where(self) -> Where:
        if not self.set and not self.region and self.digits is None and self.beyond is None:
            raise ValueError("no cells are named, expected a set, a region, digits or beyond")
        return self


class Measure(Settings):
    """What is measured: a statistic over the chosen cells of each row.

    In a comparison of several rows, the first that was trained as long as the other is taken.
    """

    rows: list[str]
    where: Where
    statistic: STATISTICS = "median_over_seeds"
    above: float | None = None  # the accuracy that seeds have to reach
    count: COUNTS = "exact"

    @model_validator(mode="after")
    def _says_above_what(self) -> Measure:
        if (self.statistic == "seeds_above") != (self.above is not None):
            raise ValueError(f"above {self.above} does not fit statistic {self.statistic!r}, "
                             "expected both or neither of above and seeds_above")  # fmt: skip
        return self


class Look(Settings):
    """What an analysis of a row has counted: the rows of its `table` that agree with `where`.

    `hits` counts of `n`, for each seed. A list stands for any of its values. Two columns are added:
    `beyond`, how many digits more than trained, and `from_top`, places below the operands' highest.
    """

    row: str
    table: str
    hits: str
    where: dict[str, Any] = {}


class Other(Settings):
    """What it is compared with: the same measure of another row, at other places, or of a count."""

    row: str | None = None
    where: dict[str, Any] = {}
    count: COUNTS | None = None


class Construction(Settings):
    """Sums that the model of Theorem 4.1 (cho2025) is put to: what is wrong of them is counted.

    `cells`: operands and their digits, each with a model of its own; `tokens`: how many response
    tokens of each cell, at least; `codes`: which ids have a code (see `constructions.adder`).
    """

    cells: list[Pair]
    tokens: int
    codes: Codes = "spare"


class Circuits(Settings):
    """Random circuits that the model of Theorem 3.4 (fraknoi2024) works out: wrong gates count.

    `count` of them, of up to so many `gates`, on `strings` of inputs each.
    """

    count: int
    gates: int
    strings: int = 3


class Certified(Settings):
    """Which seeds of a row have a certificate that says they are right at every length."""

    row: str


class Claim(Settings):
    """One claim; `scale` says how our check differs from the paper's, if it does.

    `learnt`: rows of which `LEARNT` have to be right in distribution (the median of the seeds), or
    the claim is not tested.
    """

    id: str
    paper: PAPERS
    section: str
    statement: str
    paper_value: str
    scale: str = ""
    measure: Measure | None = None
    look: Look | None = None
    certified: Certified | None = None
    parameters: dict[str, int] = {}
    construction: Construction | None = None
    circuits: Circuits | None = None
    learnt: list[str] = []
    compare: Other | None = None
    holds_if: str = ""
    not_tested: str = ""

    @field_validator("holds_if")
    @classmethod
    def _is_a_condition(cls, text: str) -> str:
        if text and not CONDITION.fullmatch(text):
            raise ValueError(f'{text!r} is not a condition, expected one such as ">= 0.99"')
        return text

    @model_validator(mode="after")
    def _is_whole(self) -> Claim:
        ways = (self.measure, self.look, self.certified, self.parameters, self.construction,
                self.circuits)  # fmt: skip
        tested = sum(map(bool, ways))
        if tested + bool(self.not_tested) != 1:
            raise ValueError("expected either measure or not_tested, with the reason")
        if tested != bool(self.holds_if):
            raise ValueError("expected measure and holds_if together")
        if self.compare and not self.measure and not self.look:
            raise ValueError("compare expects a measure")
        if self.compare and self.measure:
            if self.measure.statistic == "errors":
                raise ValueError("compare expects a measure of accuracy")
            if self.compare.row is None and len(self.measure.rows) != 1:
                raise ValueError("compare expects a row, or a measure of one row")
        return self


def load(path: Path = FILE) -> list[Claim]:
    """Return the claims of a file, checked.

    Raises:
        SettingsError: for an unknown key, row, statistic or region, or an id that comes twice.
    """
    given = profiles.read_yaml(path)
    for key in given:
        if key not in ("planned", "claims"):
            raise SettingsError(
                f"{key}: unknown setting, {suggest_name(key, ['planned', 'claims'])}"
            )
    if not isinstance(given.get("claims"), list):
        raise SettingsError("claims: missing; expected a list of claims")
    known = [*profiles.load_params()["runs"], *given.get("planned", [])]
    claims = [_claim(of, index, known) for index, of in enumerate(given["claims"])]
    for name, count in Counter(claim.id for claim in claims).items():
        if count > 1:
            raise SettingsError(f"claims: id {name!r} comes {count} times, expected once")
    return claims


def _claim(given: Any, index: int, known: list[str]) -> Claim:
    name = given.get("id", index) if isinstance(given, dict) else index
    place = f"claims.{name}"
    parsed = dict(given) if isinstance(given, dict) else given
    if isinstance(parsed, dict):  # part by part, so that an unknown key is named with its nearest
        if isinstance(parsed.get("measure"), dict):
            of = dict(parsed["measure"])
            if isinstance(of.get("where"), dict):
                of["where"] = Where.parse(of["where"], f"{place}.measure.where")
            parsed["measure"] = Measure.parse(of, f"{place}.measure")
        kinds = (("compare", Other), ("construction", Construction), ("circuits", Circuits),
                 ("look", Look), ("certified", Certified))  # fmt: skip
        for name, kind in kinds:
            if isinstance(parsed.get(name), dict):
                parsed[name] = kind.parse(parsed[name], f"{place}.{name}")
    claim = Claim.parse(parsed, place)
    named = [*claim.parameters, *claim.learnt, *(claim.measure.rows if claim.measure else [])]
    named += [claim.compare.row] if claim.compare and claim.compare.row else []
    named += [of.row for of in (claim.look, claim.certified) if of]
    for row in named:
        if row not in known:
            raise SettingsError(f"{place}: row {row!r} is not there, {suggest_name(row, known)}")
    if claim.look and claim.look.table not in results.OPTIONAL:
        hint = suggest_name(claim.look.table, results.OPTIONAL)
        raise SettingsError(f"{place}.look.table: {claim.look.table!r} is not there, {hint}")
    if claim.compare and claim.measure:
        compared(claim, f"{place}.compare.where")
    return claim


def compared(claim: Claim, where: str = "compare.where") -> tuple[str, Where]:
    """Return row and cells of what a claim is compared with: its own, but for what is given."""
    own = claim.measure.where.model_dump(exclude_none=True)
    row = claim.compare.row or claim.measure.rows[0]
    return row, Where.parse({**own, **claim.compare.where}, where)
