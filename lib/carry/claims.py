"""What each work claims, and what our tables say about it: claims.yaml becomes a ledger.

    - id: abacus_in_distribution
      paper: mcleish2024
      section: A.4.2
      statement: Abacus adds numbers of the training lengths without error, or nearly so.
      paper_value: 100% or very close to it
      measure: {rows: [addition_abacus], where: {region: in distribution}, statistic: worst_seed}
      holds_if: ">= 0.99"

`measure` picks cells of the result tables and sums them up. With `compare`, the same is done for
another row (or start, or place), and the claim is about the difference: of rows that were trained
to the same length, or it is not tested. What cannot be measured here has `not_tested` instead, with
the reason; `parameters` are millions of them, counted in rows of the profile `paper`; a
`construction` is the model of a proof, put to the test; and rows that a claim names as `learnt`
must have learnt what they were trained on, or it is not tested. A claim holds only if all of its
interval does:

    statistic               the number                  its interval
    median_over_seeds       the median of the seeds     from the lowest seed to the highest, widened
                                                        to Wilson's for all of them together
    pooled                  all seeds counted together  Wilson's, 95%
    worst_seed, best_seed   that seed's accuracy        Wilson's, 95%, of that seed
    worst_cell              the median of the seeds,    the same, of that cell's problems
                            in the cell where it is
                            least
    errors                  wrong answers, all seeds    that count itself: the claim is about these
                                                        problems, not about others
    seeds_above             the share of seeds that     Wilson's, 95%, of that many seeds (of a
                            reach an accuracy           difference: Newcombe's, 95%)
    a difference            of two other numbers        every seed of one against every seed of the
                                                        other, widened to Newcombe's, 95%, of all

The range of three seeds holds the median of all seeds three times in four, no more. If two rows
were alike, all three seeds of one would lead all three of the other once in twenty.
"""

from __future__ import annotations

import json
import operator
import re
from collections import Counter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd
from pydantic import field_validator, model_validator
from statsmodels.stats.proportion import confint_proportions_2indep

from carry import params, paths, run
from carry.analysis import by_hand
from carry.analysis import construction as theorem
from carry.evaluation.halved import without_failed
from carry.evaluation.intervals import LEVEL, wilson
from carry.evaluation.regions import with_region
from carry.figures import load as results
from carry.models.constructions.adder import Codes
from carry.models.size import weights
from carry.run import Pair
from carry.settings import Settings, SettingsError, nearest

FILE = paths.ROOT / "claims.yaml"
PAPERS = Literal["mcleish2024", "cho2025", "fraknoi2024", "ibrahimli2024", "carry"]
STATISTICS = Literal[
    "pooled", "median_over_seeds", "worst_seed", "best_seed", "worst_cell", "errors", "seeds_above"
]
# What is right of n: the response; its first token; its digits, where it has more; or the last of
# them, given the truth before it (of parity with its steps, the answer).
COUNTS = Literal["exact", "first_right", "digits_right", "last_right"]
VERDICTS = ("holds", "fails", "undecided", "not tested")
SIGNS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
CONDITION = re.compile(r"(>=|>|<=|<)\s*(-?\d+(?:\.\d+)?)")

LEARNT = 0.9  # of the problems as large as in training

METHOD = (
    "A claim holds, or fails, only if all of its interval does. For a median over seeds that runs "
    "from the lowest seed to the highest; for a difference it sets every seed of one row against "
    "every seed of the other; neither is narrower than that of all problems together."
)


class Where(Settings):
    """Which cells: all that agree with what is given.

    `region` is one of the grid's two or "far"; without it and without a `set`, `digits` (of both
    operands) are those of the sets of equal lengths. `beyond`: so many digits more than trained;
    `grid`: the longest operands of the grid, where a region's accuracy depends on it; `within`: the
    largest i and j.
    """

    set: Literal["grid", "equal", "far", "test", "held out"] | None = None
    region: Literal["in distribution", "out of distribution", "far"] | None = None
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
        ways = (self.measure, self.parameters, self.construction, self.circuits)
        tested = sum(map(bool, ways))
        if tested + bool(self.not_tested) != 1:
            raise ValueError("expected either measure or not_tested, with the reason")
        if tested != bool(self.holds_if):
            raise ValueError("expected measure and holds_if together")
        if self.compare and not self.measure:
            raise ValueError("compare expects a measure")
        if self.compare and self.measure.statistic == "errors":
            raise ValueError("compare expects a measure of accuracy")
        if self.compare and self.compare.row is None and len(self.measure.rows) != 1:
            raise ValueError("compare expects a row, or a measure of one row")
        return self


class Found(NamedTuple):
    """What was measured for one row: a number, its interval, and how much it rests on."""

    measured: float
    low: float
    high: float
    n: int
    seeds: int


class Missing(Exception):
    """The tables do not hold what a claim asks for; the text says what is missing."""


def load(path: Path = FILE) -> list[Claim]:
    """Return the claims of a file, checked.

    Raises:
        SettingsError: for an unknown key, row, statistic or region, or an id that comes twice.
    """
    given = params.read(path)
    for key in given:
        if key not in ("planned", "claims"):
            raise SettingsError(f"{key}: unknown setting, {nearest(key, ['planned', 'claims'])}")
    if not isinstance(given.get("claims"), list):
        raise SettingsError("claims: missing; expected a list of claims")
    known = [*params.load()["runs"], *given.get("planned", [])]
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
        kinds = (("compare", Other), ("construction", Construction), ("circuits", Circuits))
        for name, kind in kinds:
            if isinstance(parsed.get(name), dict):
                parsed[name] = kind.parse(parsed[name], f"{place}.{name}")
    claim = Claim.parse(parsed, place)
    named = [*claim.parameters, *claim.learnt, *(claim.measure.rows if claim.measure else [])]
    named += [claim.compare.row] if claim.compare and claim.compare.row else []
    for row in named:
        if row not in known:
            raise SettingsError(f"{place}: row {row!r} is not there, {nearest(row, known)}")
    if claim.compare:
        _other(claim, f"{place}.compare.where")
    return claim


def _other(claim: Claim, where: str = "compare.where") -> tuple[str, Where]:
    """Return row and cells of what a claim is compared with: its own, but for what is given."""
    own = claim.measure.where.model_dump(exclude_none=True)
    row = claim.compare.row or claim.measure.rows[0]
    return row, Where.parse({**own, **claim.compare.where}, where)


def judge(
    claims: list[Claim],
    cells: pd.DataFrame,
    profile: str,
    places: pd.DataFrame | None = None,
    curves: pd.DataFrame | None = None,
) -> list[dict[str, Any]]:
    """Return a record for each claim, from the result cells of a profile.

    `places`: accuracy by place, for claims that count the last; `curves`: learning curves, which
    say which models have more heads left than they were to have.
    """
    cells = without_failed(with_region(with_last(cells, places)), curves, profile)
    longest = cells[["i", "j"]].max(axis=1)
    grid = cells["row"].map(longest[cells["set"] == "grid"].groupby(cells["row"]).max())
    cells = cells.assign(beyond=longest - cells["trained"], grid=grid)
    starts = results.starts(cells)
    return [_record(claim, cells, starts, profile) for claim in claims]


def with_last(cells: pd.DataFrame, places: pd.DataFrame | None) -> pd.DataFrame:
    """Return cells with a column `last_right`, for equal lengths; missing for others.

    >>> cells = pd.DataFrame({"row": "a", "seed": 0, "start": "1", "set": ["grid", "equal"],
    ...                       "i": 2, "j": 2})
    >>> places = pd.DataFrame({"row": "a", "seed": 0, "start": "1", "set": "equal", "digits": 2,
    ...                        "place": [0, 1], "correct": [9, 7]})
    >>> with_last(cells, places)["last_right"].tolist()
    [nan, 7.0]
    """
    if places is None:
        return cells.assign(last_right=float("nan"))
    keys = ["row", "seed", "start", "set", "digits"]
    last = places.loc[places.groupby(keys)["place"].idxmax(), [*keys, "correct"]]
    last = last.rename(columns={"correct": "last_right"}).rename(columns={"digits": "i"})
    return cells.merge(last, how="left", on=["row", "seed", "start", "set", "i"])


def _record(
    claim: Claim, cells: pd.DataFrame, starts: dict[str, str], profile: str
) -> dict[str, Any]:
    record = {
        "id": claim.id,
        "paper": claim.paper,
        "section": claim.section,
        "statement": claim.statement,
        "paper_value": claim.paper_value,
        "scale": claim.scale,
        "row": None,
        "compared_with": None,
        "holds_if": claim.holds_if or None,
        "statistic": _statistic(claim),
        "measured": None,
        "interval": None,
        "n": 0,
        "seeds": 0,
        "profile": profile,
        "verdict": "not tested",
        "reason": claim.not_tested or None,
    }
    if claim.not_tested:
        return record
    if claim.parameters:
        return {**record, **_count_parameters(claim)}
    if claim.construction or claim.circuits:
        return {**record, **_count_errors(claim)}
    try:
        rows = [_comparable(claim, cells)] if claim.compare else claim.measure.rows
        _check_learnt(claim, cells, starts)
        found = [(row, _found(claim, row, cells, starts)) for row in rows]
    except Missing as missing:
        return {**record, "reason": str(missing)}
    # Of several rows, the one that speaks most against the claim speaks for all.
    order = ["fails", "undecided", "holds"]
    sign = -1 if claim.holds_if.startswith("<") else 1
    row, of = min(found, key=lambda pair: (order.index(_verdict(claim, pair[1])),
                                           sign * pair[1].measured))  # fmt: skip
    shown = {"measured": round(of.measured, 6), "interval": [round(of.low, 6), round(of.high, 6)]}
    if claim.compare:
        record["compared_with"] = claim.compare.row or row
    verdict = _verdict(claim, of)
    return {**record, **shown, "row": row, "n": of.n, "seeds": of.seeds, "verdict": verdict}


def _count_parameters(claim: Claim) -> dict[str, Any]:
    """Return what a record says of rows that have other than the stated millions of parameters."""
    wrong = 0
    for row, millions in claim.parameters.items():
        wrong += round(weights(run.load(row, "paper")) / 1e6) != millions
    found = Found(wrong, wrong, wrong, len(claim.parameters), 0)
    return {
        "measured": wrong,
        "interval": [wrong, wrong],
        "row": ", ".join(claim.parameters),
        "n": found.n,
        "profile": "paper",
        "verdict": _verdict(claim, found),
    }


def _count_errors(claim: Claim) -> dict[str, Any]:
    """Return what a record says of tokens, or gates, that a construction has wrong."""
    if asked := claim.construction:
        tested = theorem.sampled([(i, j) for i, j in asked.cells], asked.tokens, asked.codes)
    else:
        some = claim.circuits
        tested = by_hand.random_circuits(some.count, some.gates, strings=some.strings)
    wrong, n = int(tested["wrong"].sum()), int(tested["n"].sum())
    return {
        "measured": wrong,
        "interval": [wrong, wrong],
        "row": "construction",
        "n": n,
        "verdict": _verdict(claim, Found(wrong, wrong, wrong, n, 0)),
    }


def _statistic(claim: Claim) -> str | None:
    if claim.parameters or claim.construction or claim.circuits:
        return "errors"
    if claim.measure is None:
        return None
    return claim.measure.statistic + (", difference" if claim.compare else "")


def _verdict(claim: Claim, of: Found) -> str:
    """Say whether all of the interval fulfils the condition, none of it, or some.

    >>> some = Claim(id="", paper="carry", section="", statement="", paper_value="",
    ...              measure=Measure(rows=["x"], where=Where(digits=1)), holds_if=">= 0.9")
    >>> for low, high in [(0.9, 1.0), (0.8, 1.0), (0.0, 0.5)]:
    ...     print(_verdict(some, Found(0.9, low, high, n=9, seeds=3)))
    holds
    undecided
    fails
    """
    sign, threshold = CONDITION.fullmatch(claim.holds_if).groups()
    ends = {SIGNS[sign](end, float(threshold)) for end in (of.low, of.high)}
    return "undecided" if len(ends) == 2 else "holds" if ends.pop() else "fails"


def _comparable(claim: Claim, cells: pd.DataFrame) -> str:
    """Return the first row of a claim that was trained as long as the one it is compared with.

    Raises:
        Missing: if there is none.
    """
    other, _ = _other(claim)
    trained = cells.groupby("row")["trained"].first()
    if other not in trained:
        raise Missing(f"row {other} is not in this profile")
    known = [row for row in claim.measure.rows if row in trained]
    if not known:
        raise Missing(f"row {claim.measure.rows[0]} is not in this profile")
    for row in known:
        if trained[row] == trained[other]:
            return row
    lengths = f"{trained[known[0]]} and {trained[other]} digits"
    raise Missing(f"rows {known[0]} and {other} were trained to {lengths} in this profile")


def _check_learnt(claim: Claim, cells: pd.DataFrame, starts: dict[str, str]) -> None:
    """Raise `Missing` for the first row that has not learnt what it was trained on."""
    for row in claim.learnt:
        known = cells[(cells["row"] == row) & (cells["region"] == "in distribution")]
        kind = "grid" if (known["set"] == "grid").any() else "equal"
        where = Where(set=kind, region="in distribution")
        share = _by_seed(cells, row, where, starts)["accuracy"].median()
        if share < LEARNT:
            raise Missing(
                f"row {row} has learnt {share:.1%} of problems as large as in training in this "
                f"profile, less than {LEARNT:.0%}"
            )


def _found(claim: Claim, row: str, cells: pd.DataFrame, starts: dict[str, str]) -> Found:
    statistic, count = claim.measure.statistic, claim.measure.count
    worst = statistic == "worst_cell"
    own = _by_seed(cells.assign(exact=cells[count]), row, claim.measure.where, starts, worst)
    own = _reaching(own, claim.measure.above)
    if not claim.compare:
        return _sum_up(own, statistic)
    cells = cells.assign(exact=cells[claim.compare.count or count])
    other = _reaching(_by_seed(cells, *_other(claim), starts, worst), claim.measure.above)
    one, two = own["accuracy"], other["accuracy"]
    pair = [own["exact"].sum(), own["n"].sum(), other["exact"].sum(), other["n"].sum()]
    low, high = confint_proportions_2indep(*pair, method="newcomb", compare="diff", alpha=1 - LEVEL)
    counted = statistic == "seeds_above"  # seeds are then what is drawn, and no range holds them
    return Found(
        _sum_up(own, statistic).measured - _sum_up(other, statistic).measured,
        float(low) if counted else min(float(low), one.min() - two.max()),
        float(high) if counted else max(float(high), one.max() - two.min()),
        int(pair[1] + pair[3]),
        min(len(own), len(other)),
    )


def _by_seed(
    cells: pd.DataFrame, row: str, where: Where, starts: dict[str, str], worst: bool = False
) -> pd.DataFrame:
    """Return right answers, problems and accuracy of the chosen cells by seed.

    `worst`: of the cell alone where the median of the seeds is least.

    Raises:
        Missing: if there are none.
    """
    chosen = cells[cells["row"] == row]
    if chosen.empty:
        raise Missing(f"row {row} is not in this profile")
    given = where.model_dump(exclude_none=True)
    start = given.pop("start")
    # A row without a table of ids has one start only, which is its best and its middle alike.
    start = starts[row] if start == "best" else start if start in set(chosen["start"]) else "1"
    chosen = chosen[chosen["start"] == start]
    asked = ", ".join(f"{name} {value}" for name, value in given.items())
    if "digits" in given:
        given |= dict.fromkeys("ij", given.pop("digits"))
    if "within" in given:
        for name, most in zip("ij", given.pop("within"), strict=True):
            chosen = chosen[chosen[name] <= most]
    for name, value in given.items():
        chosen = chosen[chosen[name] == value]
    if "set" not in given:  # else the same lengths would count in two sets
        inside = "grid" if "region" in given else "equal"
        chosen = chosen[chosen["set"].isin([inside, "far"])]
    chosen = chosen[chosen["exact"].notna()]  # not all is counted everywhere
    if chosen.empty:
        raise Missing(f"row {row} has no result for {asked} in this profile")
    if worst:
        shares = (chosen["exact"] / chosen["n"]).groupby([chosen["i"], chosen["j"]])
        i, j = shares.agg(["median", "mean"]).sort_values(["median", "mean"]).index[0]
        chosen = chosen[(chosen["i"] == i) & (chosen["j"] == j)]
    by_seed = chosen.groupby("seed")[["exact", "n"]].sum()
    return by_seed.assign(accuracy=by_seed["exact"] / by_seed["n"])


def _reaching(seeds: pd.DataFrame, above: float | None) -> pd.DataFrame:
    """Return for each seed whether it reaches an accuracy, as one problem that is right or not."""
    if above is None:
        return seeds
    reached = (seeds["accuracy"] >= above).astype(int)
    return seeds.assign(exact=reached, n=1, accuracy=reached.astype(float))


def _sum_up(seeds: pd.DataFrame, statistic: str) -> Found:
    right, n, accuracy = int(seeds["exact"].sum()), int(seeds["n"].sum()), seeds["accuracy"]
    if statistic == "errors":
        return Found(n - right, n - right, n - right, n, len(seeds))
    if statistic in ("worst_seed", "best_seed"):
        one = seeds.loc[accuracy.idxmin() if statistic == "worst_seed" else accuracy.idxmax()]
        low, high = (float(end[0]) for end in wilson([one["exact"]], [one["n"]]))
        return Found(float(one["accuracy"]), low, high, int(one["n"]), len(seeds))
    low, high = (float(end[0]) for end in wilson([right], [n]))
    if statistic in ("pooled", "seeds_above"):
        return Found(right / n, low, high, n, len(seeds))
    ends = min(low, float(accuracy.min())), max(high, float(accuracy.max()))
    return Found(float(accuracy.median()), *ends, n, len(seeds))


def write(profile: str, folder: Path | None = None) -> list[dict[str, Any]]:
    """Test all claims on the results of a profile; write claims.json, claims.md and metrics.json.

    Returns:
        the records, as claims.json has them.
    """
    folder = folder or paths.reports(profile)
    cells, places, curves = (results.read(profile, of) for of in ("cells", "places", "curves"))
    records = judge(load(), cells, profile, places, curves)
    for name, text in {
        "claims.json": _json(records),
        "claims.md": page(records),
        "metrics.json": _json(metrics(records, cells)),
    }.items():
        with paths.atomically(folder / name) as draft:
            draft.write_text(text, encoding="utf-8")
    return records


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def metrics(records: list[dict[str, Any]], cells: pd.DataFrame) -> dict[str, Any]:
    """Return what `dvc metrics show` shows: the verdicts, and accuracy by row and region."""
    count = Counter(record["verdict"] for record in records)
    found = {"claims": {verdict.replace(" ", "_"): count[verdict] for verdict in VERDICTS}}
    cells = with_region(results.at_start(cells, results.starts(cells)))
    cells = cells[cells["set"] != "equal"]
    summed = cells.groupby(["row", "region"], sort=False)[["exact", "n"]].sum()
    for (row, region), of in summed.iterrows():
        share = round(float(of["exact"] / of["n"]), 4)
        found.setdefault(row, {})[region.replace(" ", "_")] = share
    return found


def page(records: list[dict[str, Any]]) -> str:
    """Return the ledger as Markdown: a table for each work."""
    lines = ["# Claims", "", f"{summary(records)}. {METHOD}", ""]
    for paper in dict.fromkeys(record["paper"] for record in records):
        lines += [f"## {paper}", "", *_table([r for r in records if r["paper"] == paper]), ""]
    return "\n".join(lines)


def summary(records: list[dict[str, Any]]) -> str:
    """Return how many claims have each verdict.

    >>> summary([{"verdict": "holds"}, {"verdict": "not tested"}, {"verdict": "holds"}])
    '3 claims: 2 hold, 0 fail, 0 undecided, 1 not tested'
    """
    count = Counter(record["verdict"] for record in records)
    words = {"holds": "hold", "fails": "fail", "undecided": "undecided", "not tested": "not tested"}
    parts = [f"{count[verdict]} {word}" for verdict, word in words.items()]
    return f"{len(records)} claims: {', '.join(parts)}"


def _table(records: list[dict[str, Any]]) -> list[str]:
    lines = ["| verdict | claim | section | its value | measured here |", "|---|---|---|---|---|"]
    for record in records:
        statement = f"`{record['id']}` {record['statement']}"
        cells = [f"**{record['verdict']}**", statement, record["section"], record["paper_value"]]
        lines.append(f"| {' | '.join([*cells, shown(record)])} |")
    return lines


def shown(record: dict[str, Any]) -> str:
    """Return what was measured, with all it rests on, or why nothing was."""
    if record["verdict"] == "not tested":
        return record["reason"]
    low, high = record["interval"]
    if record["statistic"] == "errors":
        text = f"{record['measured']:.0f} errors"
    elif "difference" in record["statistic"]:
        number = [f"{100 * value:+.1f}" for value in (record["measured"], low, high)]
        text = f"{number[0]} points ({number[1]} to {number[2]})"
    else:
        text = f"{record['measured']:.1%} ({low:.1%} to {high:.1%})"
    rests = record["row"]
    if record["compared_with"]:
        other = record["compared_with"]
        rests += f" against {other if other != rests else 'itself elsewhere'}"
    rests += f", {record['statistic'].removesuffix(', difference').replace('_', ' ')}"
    rests += f", n = {record['n']:,}, {record['seeds']} seeds"
    scale = f". {record['scale']}" if record["scale"] else ""
    return f"{text}; wanted {record['holds_if']}; {rests}{scale}"
