"""The settings of claims, read from one YAML file for each work; an unknown key is an error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from carry import results
from carry.config import paths
from carry.config.settings import (
    Settings,
    SettingsError,
    check_known,
    match_words,
    suggest_name,
)
from carry.config.yaml_files import read_yaml
from carry.experiments import load_rows
from carry.experiments.run import Pair
from carry.models.constructions.adder import Codes

FOLDER = paths.ROOT / "claims"
ITEMS = FOLDER / "items.yaml"  # what the works number, by work, see `carry.pages.items`: no claims
OWN_CLAIMS = "carry"
STATISTICS = Literal[
    "mean_over_seeds", "worst_seed", "best_seed", "errors",
    "share_of_seeds", "share_of_cells", "half_length", "mean_value",
]  # fmt: skip
OF_THRESHOLD = ("share_of_seeds", "share_of_cells")  # these count what reaches `above`
NOT_SHARES = ("half_length", "mean_value")  # numbers of any unit, not shares of problems
# Statistics with the seed as their unit, so that two rows can be compared.
COMPARABLE = ("mean_over_seeds", *NOT_SHARES, *OF_THRESHOLD)
# What is correct in n responses: the whole response; its first token; or its last digit, given the
# correct tokens before it (for parity with steps, this is the answer). Or of n wrong responses,
# those that end too early or too late.
COUNTS = Literal["exact", "first_right", "last_right", "wrong_length"]
CONDITION = r"(>=|>|<=|<)\s*(-?\d+(?:\.\d+)?)"
Condition = Annotated[str, match_words(f"({CONDITION})?", "a sign and a number, as '>= 0.99'")]
ADDED_COLUMN = "beyond"  # of analysis tables, see `AnalysisMeasure`


def split_condition(text: str) -> tuple[str, float]:
    """Return the sign and the threshold of a condition.

    >>> split_condition(">= 0.99")
    ('>=', 0.99)
    """
    sign, threshold = re.fullmatch(CONDITION, text).groups()
    return sign, float(threshold)


class CellFilter(Settings):
    """The cells of a measure: those that agree with each value.

    `region` is a region of the grid, or "far"; rows that train on several separate lengths also
    have "interpolation" and "extrapolation", in the set of equal lengths. Without `region` and
    `set`, `digits` (of both operands) selects from the sets of equal lengths. `beyond` is the
    number of digits above the longest in training; `within` has the largest i and j; both are
    larger than `longer_than`. `start` is the
    protocol of the first id: 1 as in the papers, or the mean of next-token probabilities over all.
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
    within: Pair | None = None
    longer_than: int | None = None
    trained: int | None = None
    start: Literal["1", "all"] = "1"


class Measure(Settings):
    """A statistic over the selected cells of each row; `carry.claims` lists the statistics."""

    rows: Annotated[list[str], Field(min_length=1)]
    where: CellFilter
    statistic: STATISTICS = "mean_over_seeds"
    above: float | None = None  # the accuracy that seeds, or cells, have to reach
    count: COUNTS = "exact"


class AnalysisMeasure(Settings):
    """A count in an analysis of a row: the rows of its `table` that agree with `where`.

    `count` is the column of hits among `n`, for each seed; or a condition on a column, as
    "separation > 0.95", of which each row of the table is a hit or a miss; or, for `mean_value`,
    the column itself. In `where` a list stands for any of its values, and a text as "> 0.95" is a
    condition. `beyond` is the number of digits above the longest in training. A table with several
    starts is read from start 1, unless `where` has another.
    """

    row: str
    table: str
    count: str
    where: dict[str, Any] = {}
    statistic: Literal["mean_over_seeds", "worst_seed", "best_seed", "errors", "mean_value"] = (
        "mean_over_seeds"
    )

    def split_count(self) -> tuple[str, str]:
        """Return the column of `count` and its condition, which is empty for a plain column."""
        column, _, condition = self.count.partition(" ")
        return column, condition

    @model_validator(mode="after")
    def _counts_by_a_condition(self) -> AnalysisMeasure:
        condition = self.split_count()[1]
        if condition and not re.fullmatch(CONDITION, condition):
            raise ValueError("expected a column, or a column, a sign and a number, in count")
        return self


class Comparison(Settings):
    """The other side of a difference: the measure of another row, of other cells, or of a count.

    Within one row the seeds of both sides are pairs. `errors_times` multiplies the errors of the
    other side, so that 0.5 stands for half of them.
    """

    row: str | None = None
    where: dict[str, Any] = {}
    count: COUNTS | None = None
    errors_times: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0


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


class RandomAutomata(Settings):
    """Random automata for Corollary 3.5 (fraknoi2024); wrong steps of their circuits are counted.

    `count` automata of up to `states` states read words of `length` letters, of `letters` kinds.
    """

    count: int
    states: int
    letters: int
    length: int


class ThesisRuns(Settings):
    """The paired runs of ibrahimli2024 (see `carry.evaluation.thesis_runs`): mix against add.

    Only pairs of which both have learned the trained lengths count if `learned`. The `score` is
    exact match, or the logarithm of the loss.
    """

    length: Literal["trained_lengths", "8", "10", "11"] = "8"
    score: Literal["exact", "loss"] = "exact"
    learned: bool = False


class Claim(Settings):
    """One claim; `items` are those of `claims/items.yaml`, and `paper` is the name of the file.

    `scale` says how our check differs, and `protocol` how its protocol does, if it is another one.
    `margin` makes a comparison a test of no difference. If the statistic was chosen after a look at
    some seeds, only those from `first_seed` count. `certified` is the row whose certified seeds
    count.
    """

    id: str
    paper: str
    section: str
    items: list[str] = []
    statement: str
    paper_value: str
    scale: str = ""
    protocol: str = ""
    measure: Measure | None = None
    analysis: AnalysisMeasure | None = None
    certified: str | None = None
    parameters: dict[str, int] = {}
    construction: Construction | None = None
    circuits: RandomCircuits | None = None
    automata: RandomAutomata | None = None
    thesis_runs: ThesisRuns | None = None
    compare: Comparison | None = None
    holds_if: Condition = ""
    margin: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    first_seed: Annotated[int, Field(ge=0)] = 0
    not_tested: str = ""

    @model_validator(mode="after")
    def _fits_together(self) -> Claim:
        measures = (self.measure, self.analysis, self.certified, self.parameters,
                    self.construction, self.circuits, self.automata, self.thesis_runs)  # fmt: skip
        tested, compared, statistic = sum(map(bool, measures)), self.compare, self.statistic()
        measure, where = self.measure, self.measure and self.measure.where
        two_starts = compared and self.is_order_of_rows() and "start" in compared.where
        needs_threshold = statistic in OF_THRESHOLD
        is_share = statistic not in (None, "errors", *NOT_SHARES)
        threshold = self.condition()[1] if self.holds_if else 0.0
        least = -1.0 if compared or self.thesis_runs else 0.0
        rules = [
            (not where or where.set or where.region or where.digits or where.beyond is not None
             or statistic == "half_length",
             "a set, a region, digits or beyond in measure.where"),
            (not measure or needs_threshold == (measure.above is not None),
             f"measure.above {'with' if needs_threshold else 'without'} {statistic!r}"),
            (tested + bool(self.not_tested) == 1, "either measure or not_tested, with the reason"),
            (tested == bool(self.holds_if) + (self.margin is not None),
             "measure and holds_if together, or margin in its place"),
            (not is_share or least <= threshold <= 1.0,
             f"a threshold from {least:g} to 1 in holds_if"),
            (compared or self.margin is None, "compare next to margin"),
            (not compared or statistic in COMPARABLE,
             f"compare next to a statistic over seeds, not {statistic!r}"),
            (not (compared and measure) or len(measure.rows) == 1,
             "one row in measure.rows next to compare"),
            (not two_starts, "one start for two rows, not compare.where.start"),
        ]  # fmt: skip
        for is_kept, expected in rules:
            if not is_kept:
                raise ValueError(f"expected {expected}")
        return self

    def condition(self) -> tuple[str, float]:
        """Return the sign and the threshold of `holds_if`."""
        return split_condition(self.holds_if)

    def statistic(self) -> str | None:
        """Return the statistic; none without a test."""
        if self.thesis_runs:
            return "mean_over_pairs" if self.thesis_runs.score == "exact" else "loss_over_pairs"
        if self.certified:
            return "seeds_certified"
        if part := self.measure or self.analysis:
            return part.statistic
        return None if self.not_tested else "errors"

    def is_order_of_rows(self) -> bool:
        """Return whether the claim compares two rows, and not one row with itself."""
        return self.compare.row is not None and [self.compare.row] != self.measured_rows()

    def is_paired(self) -> bool:
        """Return whether both sides of a test are of the same seeds, or of pairs of runs."""
        return bool(self.thesis_runs) or not self.is_order_of_rows()

    def is_negative(self) -> bool:
        """Return whether the claim says that models fail: that a level is low."""
        return self.holds_if.startswith("<") and self.statistic() != "errors" and not self.compare

    def is_beyond_training(self) -> bool:
        """Return whether a model has to have learned its trained sizes for the claim.

        Sets of strings, and sums of a trained size that are held out, have no sizes beyond them.
        """
        where = self.measure and self.measure.where
        is_trained_length = where and where.digits and where.digits == where.trained
        return not (where and (where.set in ("test", "held out") or is_trained_length))

    def family(self) -> tuple[str, str]:
        """Return the question to which the claim belongs: the first item, else the section."""
        return self.paper, (self.items or [self.section])[0]

    def measured_rows(self) -> list[str]:
        """Return the rows of the measure, or of the analysis."""
        return self.measure.rows if self.measure else [self.analysis.row] if self.analysis else []

    def list_rows(self) -> list[str]:
        """Return all rows that the claim names, each once."""
        rows = [*self.measured_rows(), self.certified, self.compare and self.compare.row]
        return list(dict.fromkeys(filter(None, [*rows, *self.parameters])))


def read_items(path: Path = ITEMS) -> dict[str, list[dict[str, Any]]]:
    """Return the unchecked items of each work.

    >>> list(read_items())
    ['mcleish2024', 'cho2025', 'fraknoi2024', 'ibrahimli2024']

    Raises:
        SettingsError: for a file that is no list of items for each work.
    """
    content = read_yaml(path)
    lists = content.values() if isinstance(content, dict) else [None]
    if not all(isinstance(of, list) and all(isinstance(one, dict) for one in of) for of in lists):
        raise SettingsError("items: expected a list of items for each work")
    return content


def list_claim_files(folder: Path = FOLDER) -> list[Path]:
    """Return the files of a folder: in the order of `ITEMS`, others by name, then our own."""
    papers = [*read_items()]
    others = sorted(
        {path.stem for path in folder.glob("*.yaml")} - {*papers, OWN_CLAIMS, "items", "errata"}
    )
    files = [folder / f"{name}.yaml" for name in (*papers, *others, OWN_CLAIMS)]
    return [path for path in files if path.exists()]


class ClaimFile(Settings):
    """The content of a file; its claims are parsed one by one, to be named in errors."""

    claims: list[dict[str, Any]]


def load_claims(folder: Path = FOLDER) -> list[Claim]:
    """Return the checked claims of all files of a folder; the file's name is the paper.

    Raises:
        SettingsError: for an unknown key, row, item, statistic, region, table or column, and for
            an id that occurs twice.
    """
    claims: dict[str, Claim] = {}
    items = read_items()
    for path in list_claim_files(folder):
        place = f"claims.{path.stem}"
        for index, settings in enumerate(ClaimFile.parse(read_yaml(path), place).claims):
            claim = _parse_claim(settings, f"claims.{settings.get('id', index)}", path.stem)
            known = [item.get("item") for item in items.get(path.stem, [])]
            for item in claim.items:
                check_known(item, known, f"claims.{claim.id}.items")
            if claim.id in claims:
                raise SettingsError(
                    f"{place}: id {claim.id!r} occurs twice, also in "
                    f"{claims[claim.id].paper}.yaml; expected once"
                )
            claims[claim.id] = claim
    if not claims:
        raise SettingsError("claims: no files with claims; expected claims/PAPER.yaml")
    return list(claims.values())


def _parse_claim(settings: dict[str, Any], place: str, paper: str) -> Claim:
    if "paper" in settings:
        raise SettingsError(f"{place}.paper: unknown setting; the paper is the file's name")
    claim = Claim.parse({**settings, "paper": paper}, place)
    for row in claim.list_rows():
        if row not in load_rows():
            raise SettingsError(f"{place}: unknown row {row!r}, {suggest_name(row, load_rows())}")
    if claim.analysis:
        declared, table = results.find_declared_columns(), claim.analysis.table
        check_known(table, declared, f"{place}.analysis.table")
        columns = [*declared[table], ADDED_COLUMN]
        compared = claim.compare.where if claim.compare else {}
        for column in (claim.analysis.split_count()[0], *claim.analysis.where, *compared):
            if column not in columns:
                hint = suggest_name(column, columns)
                raise SettingsError(f"{place}.analysis: unknown column {column!r}, {hint}")
    elif claim.compare:
        find_comparison(claim, f"{place}.compare.where")
    return claim


def find_comparison(claim: Claim, where: str = "compare.where") -> tuple[str, CellFilter]:
    """Return the row and the cells of a comparison: the claim's, unless it gives others."""
    cells = claim.measure.where.model_dump(exclude_none=True)
    row = claim.compare.row or claim.measure.rows[0]
    return row, CellFilter.parse({**cells, **claim.compare.where}, where)
