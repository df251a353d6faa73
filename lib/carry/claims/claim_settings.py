"""The settings of claims, read from one YAML file for each work; an unknown key is an error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator, model_validator

from carry.config import paths, profiles
from carry.config.run_settings import Pair
from carry.config.settings import Settings, SettingsError, suggest_name
from carry.models.constructions.adder import Codes
from carry.plots import load as results

FOLDER = paths.ROOT / "claims"
# The order of the ledger: these files, others by name, then the project's claims.
PAPERS = ("mcleish2024", "cho2025", "fraknoi2024", "ibrahimli2024")
OWN_CLAIMS = "carry"
STATISTICS = Literal[
    "pooled", "median_over_seeds", "worst_seed", "best_seed", "worst_cell", "errors", "seeds_above"
]
# What is correct in n responses: the whole response; its first token; its digits, if it has more
# than digits; or its last digit, given the correct tokens before it (for parity with steps, this is
# the answer).
COUNTS = Literal["exact", "first_right", "digits_right", "last_right"]
CONDITION = re.compile(r"(>=|>|<=|<)\s*(-?\d+(?:\.\d+)?)")
ADDED_COLUMNS = ("beyond", "from_top")  # of analysis tables, see `AnalysisMeasure`


class CellFilter(Settings):
    """The cells of a measure: those that agree with each value.

    `region` is a region of the grid, or "far"; rows that train on several separate lengths also
    have "interpolation" and "extrapolation", in the set of equal lengths. Without `region` and
    `set`, `digits` (of both operands) selects from the sets of equal lengths. `beyond` is the
    number of digits above the longest in training; `grid` is the longest operand of the grid, for
    regions whose accuracy depends on it; `within` has the largest i and j.
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
    def _selects_cells(self) -> CellFilter:
        if not self.set and not self.region and self.digits is None and self.beyond is None:
            raise ValueError("no cells are named, expected a set, a region, digits or beyond")
        return self


class Measure(Settings):
    """A statistic over the selected cells of each row.

    In a comparison of several rows, the first row is used that was trained to the same length as
    the other row.
    """

    rows: list[str]
    where: CellFilter
    statistic: STATISTICS = "median_over_seeds"
    above: float | None = None  # the accuracy that seeds have to reach
    count: COUNTS = "exact"

    @model_validator(mode="after")
    def _has_level(self) -> Measure:
        if (self.statistic == "seeds_above") != (self.above is not None):
            raise ValueError(
                f"above {self.above} does not fit statistic {self.statistic!r}, expected both or "
                "neither of above and seeds_above"
            )
        return self


class AnalysisMeasure(Settings):
    """A count in an analysis of a row: the rows of its `table` that agree with `where`.

    `count` is the column of hits among `n`, for each seed. A list stands for any of its values. Two
    columns are added: `beyond`, the number of digits above the longest in training, and
    `from_top`, the number of places below the most significant digit of the operands.
    """

    row: str
    table: str
    count: str
    where: dict[str, Any] = {}


class Comparison(Settings):
    """The other side of a difference: the measure of another row, of other cells, or of a count."""

    row: str | None = None
    where: dict[str, Any] = {}
    count: COUNTS | None = None


class Construction(Settings):
    """Sums for the model of Theorem 4.1 (cho2025); its wrong tokens are counted.

    `cells` are the digits of the operands, with one model for each cell; `tokens` is the least
    number of response tokens of each cell; `codes` selects the ids with a code (see
    `constructions.adder`).
    """

    cells: list[Pair]
    tokens: int
    codes: Codes = "spare"


class RandomCircuits(Settings):
    """Random circuits for the model of Theorem 3.4 (fraknoi2024); its wrong gates are counted.

    `count` circuits have up to `gates` gates, and are tested on several input `strings` each.
    """

    count: int
    gates: int
    strings: int = 3


class Certified(Settings):
    """The seeds of a row whose certificate is exact at every length."""

    row: str


class Claim(Settings):
    """One claim; `scale` says how our check differs from the paper's.

    The claim is not tested unless each row of `requires_learned` reaches an accuracy of
    `LEARNED_ACCURACY` in distribution (the median of the seeds). `paper` is the name of the file.
    """

    id: str
    paper: str
    section: str
    statement: str
    paper_value: str
    scale: str = ""
    measure: Measure | None = None
    analysis: AnalysisMeasure | None = None
    certified: Certified | None = None
    parameters: dict[str, int] = {}
    construction: Construction | None = None
    circuits: RandomCircuits | None = None
    requires_learned: list[str] = []
    compare: Comparison | None = None
    holds_if: str = ""
    not_tested: str = ""

    @field_validator("holds_if")
    @classmethod
    def _is_a_condition(cls, text: str) -> str:
        if text and not CONDITION.fullmatch(text):
            raise ValueError(f'{text!r} is not a condition, expected one such as ">= 0.99"')
        return text

    @model_validator(mode="after")
    def _is_complete(self) -> Claim:
        measures = (self.measure, self.analysis, self.certified, self.parameters,
                    self.construction, self.circuits)  # fmt: skip
        tested = sum(map(bool, measures))
        if tested + bool(self.not_tested) != 1:
            raise ValueError("expected either measure or not_tested, with the reason")
        if tested != bool(self.holds_if):
            raise ValueError("expected measure and holds_if together")
        if self.compare and not self.measure and not self.analysis:
            raise ValueError("compare expects a measure")
        if self.compare and self.measure:
            if self.measure.statistic == "errors":
                raise ValueError("compare expects a measure of accuracy")
            if self.compare.row is None and len(self.measure.rows) != 1:
                raise ValueError("compare expects a row, or a measure of one row")
        return self

    def list_rows(self) -> list[str]:
        """Return all rows that the claim names."""
        rows = [*self.parameters, *self.requires_learned]
        rows += self.measure.rows if self.measure else []
        rows += [self.compare.row] if self.compare and self.compare.row else []
        return rows + [part.row for part in (self.analysis, self.certified) if part]


# The keys of a claim that are mappings; parsed one by one, to name an unknown key by its place.
PARTS: dict[str, type[Settings]] = {
    "measure": Measure,
    "analysis": AnalysisMeasure,
    "certified": Certified,
    "construction": Construction,
    "circuits": RandomCircuits,
    "compare": Comparison,
}


def list_claim_files(folder: Path = FOLDER) -> list[Path]:
    """Return the files of a folder in the order of the ledger."""
    others = sorted({path.stem for path in folder.glob("*.yaml")} - {*PAPERS, OWN_CLAIMS})
    files = [folder / f"{name}.yaml" for name in (*PAPERS, *others, OWN_CLAIMS)]
    return [path for path in files if path.exists()]


def load_claims(folder: Path = FOLDER) -> list[Claim]:
    """Return the checked claims of all files of a folder; the file's name is the paper.

    Raises:
        SettingsError: for an unknown key, row, statistic, region, table or column, and for an id
            that occurs twice.
    """
    claims: dict[str, Claim] = {}
    for path in list_claim_files(folder):
        for claim in _load_file(path):
            if claim.id in claims:
                raise SettingsError(
                    f"claims.{path.stem}: id {claim.id!r} occurs twice, also in "
                    f"{claims[claim.id].paper}.yaml; expected once"
                )
            claims[claim.id] = claim
    if not claims:
        raise SettingsError("claims: no files with claims; expected claims/PAPER.yaml")
    return list(claims.values())


def _load_file(path: Path) -> list[Claim]:
    settings, place = profiles.read_yaml(path), f"claims.{path.stem}"
    for key in settings if isinstance(settings, dict) else []:
        if key != "claims":
            raise SettingsError(f"{place}.{key}: unknown setting, {suggest_name(key, ['claims'])}")
    if not isinstance(settings, dict) or not isinstance(settings.get("claims"), list):
        raise SettingsError(f"{place}: claims missing; expected a list of claims")
    runs = list(profiles.load_params()["runs"])
    return [
        _parse_claim(claim, index, path.stem, runs)
        for index, claim in enumerate(settings["claims"])
    ]


def _parse_claim(settings: Any, index: int, paper: str, runs: list[str]) -> Claim:
    if not isinstance(settings, dict):
        raise SettingsError(f"claims.{paper}.{index}: {settings!r} is not a mapping")
    place, parsed = f"claims.{settings.get('id', index)}", dict(settings)
    if "paper" in parsed:
        raise SettingsError(f"{place}.paper: unknown setting; the paper is the file's name")
    for name, kind in PARTS.items():
        part = parsed.get(name)
        if isinstance(part, dict):
            if name == "measure" and isinstance(part.get("where"), dict):
                cells = CellFilter.parse(part["where"], f"{place}.measure.where")
                part = {**part, "where": cells}
            parsed[name] = kind.parse(part, f"{place}.{name}")
    claim = Claim.parse({**parsed, "paper": paper}, place)
    for row in claim.list_rows():
        if row not in runs:
            raise SettingsError(f"{place}: unknown row {row!r}, {suggest_name(row, runs)}")
    if claim.analysis:
        _check_analysis(claim, place)
    if claim.compare and claim.measure:
        find_comparison(claim, f"{place}.compare.where")
    return claim


def _check_analysis(claim: Claim, place: str) -> None:
    """Refuse a table or a column that no analysis declares."""
    tables = results.find_declared_columns()
    name = claim.analysis.table
    if name not in tables:
        raise SettingsError(
            f"{place}.analysis.table: unknown table {name!r}, {suggest_name(name, tables)}"
        )
    columns = [*tables[name], *ADDED_COLUMNS]
    compared = claim.compare.where if claim.compare else {}
    for column in (claim.analysis.count, *claim.analysis.where, *compared):
        if column not in columns:
            raise SettingsError(
                f"{place}.analysis: unknown column {column!r}, {suggest_name(column, columns)}"
            )


def find_comparison(claim: Claim, where: str = "compare.where") -> tuple[str, CellFilter]:
    """Return the row and the cells of a comparison: the claim's, unless it gives others."""
    cells = claim.measure.where.model_dump(exclude_none=True)
    row = claim.compare.row or claim.measure.rows[0]
    return row, CellFilter.parse({**cells, **claim.compare.where}, where)
