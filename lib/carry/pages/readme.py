"""The numbers that prose quotes: written by the pipeline, filled into README.md from there.

The text between two markers is replaced; everything else in the file stays as it is:

    <!-- numbers:footing -->...<!-- /numbers -->                           six schemes, one footing
    <!-- numbers:headlines -->...<!-- /numbers -->                         the papers', in one pass
    <!-- numbers:addition_relative.100 digits -->...<!-- /numbers -->      one number of one row
    <!-- numbers:addition_relative.100 digits.basis -->...<!-- /numbers -->   its n and seeds
    <!-- numbers:claims -->...<!-- /numbers -->                            claims by verdict
    <!-- numbers:untested -->...<!-- /numbers -->                          claims without a test
    <!-- numbers:certificates -->...<!-- /numbers -->                      certified rows
    <!-- numbers:badges -->...<!-- /numbers -->                            pictures of two counts
    <!-- numbers:works.cho2025 -->...<!-- /numbers -->                     a work's counts
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from carry import claims, results
from carry.claims.claim_settings import OWN_CLAIMS, PAPERS
from carry.claims.items import load_items, name_answers, summarise_claims
from carry.config import paths
from carry.config.settings import SettingsError, suggest_name
from carry.evaluation.intervals import seed_interval
from carry.evaluation.regions import add_region
from carry.labels import name_certified_row
from carry.pages import headlines
from carry.pages.headlines import format_percent
from carry.plots import style

# Six schemes on one footing.
FOOTING_ROWS = (
    "addition_nope", "addition_learned", "addition_rope", "addition_fire",
    "addition_abacus_short", "addition_coupled_short",
)  # fmt: skip

OWN_ROW = "addition_relative"

TIMES = {1.6: "1.6 times as long", 2: "twice as long", 3: "three times as long"}  # as in training
LENGTHS = (100, 200, 1000)
FEW_CONTEXTS = 10_000  # of a certified row
COLUMNS = ["in distribution", *TIMES.values(), *(f"{length} digits" for length in LENGTHS)]
BADGES = "badges"  # the folder of their pictures in reports/
BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img">
<title>{text}</title>
<rect width="{width}" height="20" rx="3" fill="#444444"/>
<path d="M{middle} 0h{rest}a3 3 0 0 1 3 3v14a3 3 0 0 1 -3 3h-{rest}z" fill="#0173B2"/>
<g fill="#FFFFFF" font-family="Verdana, DejaVu Sans, sans-serif" font-size="11">
<text x="6" y="14" textLength="{first}">{label}</text>
<text x="{start}" y="14" textLength="{second}">{value}</text>
</g>
</svg>
"""
MARKER = re.compile(r"(<!-- numbers:(.+?) -->)(.*?)(<!-- /numbers -->)", re.DOTALL)


def summarise_rows(cells: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return accuracy by row, in distribution and at a few equal lengths beyond.

    Each number has the median over `seeds` as its `value`, the lowest and the highest seed as its
    `range`, and the t `interval` (95%) of their mean, within [0, 1]. They are from the row's first
    `start` of ids, 1 as in the papers; `starts` has the same numbers from each other start.
    """
    summaries: dict[str, dict[str, Any]] = {}
    for start, part in cells.groupby("start", sort=False):
        for row, numbers in _summarise_start(part).items():
            if row in summaries:
                summaries[row]["starts"][start] = numbers
            else:
                trained = int(part.loc[part["row"] == row, "trained"].max())
                summaries[row] = {"start": start, "trained": trained, "starts": {}, **numbers}
    return {row: summaries[row] for row in results.list_rows(cells)}


def _summarise_start(cells: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the numbers of each row, from the results of one start."""
    cells = add_region(cells)
    in_distribution = (cells["set"] == "grid") & (cells["region"] == "in distribution")
    equal = (cells["set"] != "grid") & (cells["i"] == cells["j"])
    column = cells["i"].map("{} digits".format).where(equal & cells["i"].isin(LENGTHS))
    times = (cells["i"] / cells["trained"]).map(TIMES)
    column = column.mask(equal & times.notna(), times).mask(in_distribution, COLUMNS[0])
    seeds = cells.assign(column=column).groupby(["row", "column", "seed"])[["exact", "n"]].sum()
    scored = seeds.index.droplevel("seed")
    return {
        row: {
            name: _summarise_seeds(seeds.loc[(row, name)])
            for name in COLUMNS
            if (row, name) in scored
        }
        for row in results.list_rows(cells)
    }


def _summarise_seeds(seeds: pd.DataFrame) -> dict[str, Any]:
    accuracy = seeds["exact"] / seeds["n"]
    ends = seed_interval(accuracy) if len(accuracy) > 1 else None
    return {
        "value": round(float(accuracy.median()), 6),
        "range": [round(float(accuracy.min()), 6), round(float(accuracy.max()), 6)],
        "interval": ends and [round(min(max(end, 0.0), 1.0), 6) for end in ends],
        "n": int(seeds["n"].sum()),
        "seeds": len(seeds),
    }


def write_numbers(profile: str, folder: Path | None = None) -> dict[str, Any]:
    """Write numbers.json next to the ledger of claims, and return its content.

    The same numbers become metrics of DVC: a small file for each row, since `dvc metrics show`
    prints one line for each file.

    Raises:
        SettingsError: if there is no ledger yet.
    """
    folder = folder or paths.reports_path(profile)
    ledger = folder / "claims.json"
    if not ledger.exists():
        raise SettingsError(f"numbers: {ledger.name} does not exist; expected the claims stage")
    records = json.loads(ledger.read_text(encoding="utf-8"))
    numbers = {
        "profile": profile,
        "claims": claims.summarise_verdicts(records),
        "untested": claims.list_untested(records),
        "rows": summarise_rows(results.read_table(profile, "cells")),
        "headlines": headlines.summarise_headlines(),
        "certificates": summarise_certificates(results.read_certificates(profile)),
    }
    contents = {"numbers.json": numbers}
    for name, metrics in select_metrics(numbers["rows"], records).items():
        contents[f"metrics/{name}.json"] = metrics
    for name, content in contents.items():
        with paths.write_atomically(folder / name) as draft:
            draft.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return numbers


def select_metrics(
    rows: dict[str, dict[str, Any]], records: list[dict[str, Any]]
) -> dict[str, dict[str, float]]:
    """Return the metrics of DVC: accuracy of the README's rows, and the claims by verdict.

    Another start than a row's first has metrics of its own, with its name at the end.

    >>> starts = {"all": {"twice as long": {"value": 0.9}}}
    >>> row = {"start": "1", "trained": 10, "twice as long": {"value": 0.125}, "starts": starts}
    >>> metrics = select_metrics({"addition_relative": row}, [{"verdict": "holds"}])
    >>> metrics["addition_relative"], metrics["addition_relative_all"]
    ({'twice_as_long': 0.125}, {'twice_as_long': 0.9})
    >>> metrics["claims"]
    {'holds': 1, 'fails': 0, 'undecided': 0, 'not_tested': 0}
    """
    count = Counter(record["verdict"] for record in records)
    groups = claims.METRICS.items()
    metrics = {"claims": {name: sum(map(count.__getitem__, group)) for name, group in groups}}
    for row, _, start, numbers in list_lines(rows):
        values = {name: numbers[name]["value"] for name in COLUMNS if name in numbers}
        key = row if start == rows[row]["start"] else f"{row}_{start}"
        metrics[key] = {name.replace(" ", "_"): value for name, value in values.items()}
    return metrics


def list_lines(rows: dict[str, dict[str, Any]]) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Return a line for each of the six schemes and ours, and each start of ids.

    A line has the row, its trained length, the start and the numbers, of which there is one at
    least.
    """
    lines = []
    for row in filter(rows.get, (*FOOTING_ROWS, OWN_ROW)):
        starts = {rows[row]["start"]: rows[row], **rows[row].get("starts", {})}
        for start, numbers in starts.items():
            if any(name in numbers for name in COLUMNS):
                lines.append((row, f"{rows[row]['trained']} digits", start, numbers))
    return lines


def summarise_certificates(certificates: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return for each certified row its sizes, its number of `seeds` and how many are `exact`."""
    summaries = {}
    for row, seeds in certificates.groupby("row", sort=False):
        sizes = {name: int(seeds[name].max()) for name in ("trained", "parameters", "contexts")}
        exact = int((seeds["verdict"] == "exact").sum())
        summaries[row] = {**sizes, "exact": exact, "seeds": len(seeds)}
    return summaries


def format_certificates(certificates: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table of certified rows, with the number of certified seeds.

    Rows with fewer than `FEW_CONTEXTS` contexts share a sentence after it.
    """
    names = ["exact at every length", "trained to", "parameters", "contexts", "certified"]
    lines, few = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"], []
    for row, summary in certificates.items():
        seeds = f"{summary['exact']} of {summary['seeds']} seeds"
        if summary["contexts"] < FEW_CONTEXTS:
            few.append(f"{name_certified_row(row)} ({seeds})")
            continue
        counts = [f"{summary[name]:,}" for name in ("trained", "parameters", "contexts")]
        lines.append(f"| {' | '.join([name_certified_row(row), *counts, seeds])} |")
    if few:
        lines += ["", f"With fewer than {FEW_CONTEXTS:,} contexts: {'; '.join(few)}."]
    return "\n".join(lines)


def format_accuracy(rows: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table of the six schemes: median over seeds and range.

    Args:
        rows: the numbers of each row, of `summarise_rows`.
    """
    kept = [line for line in list_lines(rows) if line[0] in FOOTING_ROWS]
    columns = [name for name in COLUMNS if any(name in numbers for *_, numbers in kept)]
    names = ["scheme", "trained to", "start", *columns]
    lines, counts = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"], set()
    for row, trained, start, numbers in kept:
        cells = [format_number(numbers[name]) if name in numbers else "" for name in columns]
        label = style.choose_style(row).label.removesuffix(f", {trained}")  # a column has it
        first = [label, trained, start]
        lines.append(f"| {' | '.join([*first, *cells])} |")
        counts |= {numbers[name]["seeds"] for name in columns if name in numbers}
    seeds = " or ".join(map(str, sorted(counts)))
    lines += ["", f"Exact match: the median of {seeds} seeds, and the range where seeds differ."]
    return "\n".join(lines)


def format_number(number: dict[str, Any]) -> str:
    """Return a number as text; only a share without any error is written as 100%.

    >>> format_number({"value": 0.985, "range": [0.97, 1.0]})
    '98.5% (97.0 to 100)'
    >>> format_number({"value": 1.0, "range": [1.0, 1.0]})
    '100%'
    >>> format_number({"value": 0.99999, "range": [0.99999, 0.99999]})
    '>99.9%'
    """
    low, high = number["range"]
    value = format_percent(number["value"]) + "%"
    return value if low == high else f"{value} ({format_percent(low)} to {format_percent(high)})"


def format_basis(number: dict[str, Any]) -> str:
    """Return the problems and the seeds that a number is from.

    >>> format_basis({"n": 5000, "seeds": 5})
    'n = 5,000, 5 seeds'
    """
    return f"n = {number['n']:,}, {number['seeds']} seeds"


def describe_works(records: list[dict[str, Any]]) -> dict[str, str]:
    """Return for each work how many of its numbered items are covered, and its verdicts.

    >>> record = {"paper": "carry", "verdict": "holds"}
    >>> works = describe_works([record, record, {"paper": "cho2025", "verdict": "fails"}])
    >>> works["carry"]
    'claims: holds 2'
    >>> re.sub(r"\\d+", "N", works["cho2025"])
    'N of N covered; claims: fails'
    """
    items, texts = load_items(), {}
    for work in (*PAPERS, OWN_CLAIMS):
        answers = name_answers(items[items["work"] == work])
        count = sum(answer in ("figure", "printed table") for answer in answers)
        covered = [f"{count} of {len(answers)} covered"] if answers else []
        verdicts = summarise_claims([record for record in records if record["paper"] == work])
        texts[work] = "; ".join([*covered, f"claims: {verdicts}"])
    return texts


def list_badges(
    certificates: dict[str, dict[str, Any]], records: list[dict[str, Any]]
) -> dict[str, tuple[str, str]]:
    """Return the label and the value of each badge, by the name of its file.

    >>> badges = list_badges({"a": {"exact": 2, "seeds": 2}, "b": {"exact": 1, "seeds": 2}}, [])
    >>> badges["claims"], badges["certificates"]
    (('claims of the papers', '0 of 0 hold'), ('exact at every length', '1 row proved'))
    """
    papers = [record["verdict"] for record in records if record["paper"] != OWN_CLAIMS]
    proved = sum(row["exact"] == row["seeds"] for row in certificates.values())
    return {
        "claims": ("claims of the papers", f"{papers.count('holds')} of {len(papers)} hold"),
        "certificates": (
            "exact at every length", f"{proved} {'row' if proved == 1 else 'rows'} proved",
        ),
    }  # fmt: skip


def draw_badge(label: str, value: str) -> str:
    """Return a badge as SVG: a label on grey, then a value on blue.

    >>> "<title>claims: 3 of 4 hold</title>" in draw_badge("claims", "3 of 4 hold")
    True
    """
    first, second = (round(6.4 * len(text)) for text in (label, value))  # of Verdana, 11 px
    middle = first + 12
    sizes = {"width": middle + second + 12, "middle": middle, "start": middle + 6}
    sizes |= {"first": first, "second": second, "rest": second + 9}
    return BADGE.format(**sizes, label=label, value=value, text=f"{label}: {value}")


def _format_badges(badges: dict[str, tuple[str, str]]) -> str:
    """Return the pictures of badges as Markdown; that of the claims leads to the ledger."""
    return " ".join(
        f"[![{label}: {value}](reports/{BADGES}/{name}.svg)]"
        f"({'reports/claims.md' if name == 'claims' else '#results'})"
        for name, (label, value) in badges.items()
    )


def fill_numbers(
    text: str, numbers: dict[str, Any], records: list[dict[str, Any]] | None = None
) -> str:
    """Return a text with everything between its markers replaced by the current numbers.

    Args:
        text: with markers.
        numbers: as in numbers.json.
        records: those of the ledger, which badges and lines of works count.

    Raises:
        SettingsError: for a marker with an unknown name.
    """
    texts = {
        "footing": f"\n{format_accuracy(numbers['rows'])}\n",
        "headlines": f"\n{headlines.format_headlines(numbers.get('headlines', []))}\n",
        "claims": numbers["claims"],
        "untested": f"\n{numbers.get('untested', '')}\n",
        "certificates": f"\n{format_certificates(numbers['certificates'])}\n",
    }
    for row, summary in numbers["rows"].items():
        for name in COLUMNS:
            if name in summary:
                texts[f"{row}.{name}"] = format_number(summary[name])
                texts[f"{row}.{name}.basis"] = format_basis(summary[name])
    if records is not None:
        texts["badges"] = _format_badges(list_badges(numbers["certificates"], records))
    if records is not None and "numbers:works." in text:  # reads all notebooks
        texts |= {f"works.{work}": line for work, line in describe_works(records).items()}

    def replace(match: re.Match) -> str:
        if match[2] not in texts:
            raise SettingsError(
                f"numbers: {match[2]!r} does not exist, {suggest_name(match[2], texts)}"
            )
        return f"{match[1]}{texts[match[2]]}{match[4]}"

    return MARKER.sub(replace, text)


def fill_readme(readme: Path = paths.ROOT / "README.md", profile: str = "cpu") -> Path:
    """Replace the numbers of README.md by the current ones, and return its path.

    They are from numbers.json and claims.json. The badges that it shows are drawn again.
    """
    numbers, records = (
        json.loads(paths.reports_path(profile, name).read_text(encoding="utf-8"))
        for name in ("numbers.json", "claims.json")
    )
    drafts = {readme: fill_numbers(readme.read_text(encoding="utf-8"), numbers, records)}
    for name, (label, value) in list_badges(numbers["certificates"], records).items():
        drafts[paths.reports_path(profile, BADGES, f"{name}.svg")] = draw_badge(label, value)
    for path, content in drafts.items():
        with paths.write_atomically(path) as draft:
            draft.write_text(content, encoding="utf-8")
    return readme


if __name__ == "__main__":
    fill_readme()
