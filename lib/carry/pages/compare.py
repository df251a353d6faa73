"""Did I reproduce it? `carry compare` sets the results in reports/ against those of a commit.

My seeds are those whose lines in `runs.parquet` or `cells.parquet` the commit does not have. Their
numbers are those of the README: its columns (`readme.COLUMNS`) from each start of ids, what they
leave out by region, and the headlines. A number is inside if it is not beyond the lowest and the
highest seed of the row in git with the same settings. One seed in git has no range.

Being outside says little by itself: of a new seed that is like k in git, a number is outside with a
probability of up to 2 / (k + 1), of 6 seeds 29%. So all numbers are judged together
(`compute_outside_p`): seeds like those in git are called different with a probability of at most
5%. The test supposes that rows are independent, although rows of one seed have the same training
problems. If each of the first five seeds of each study in git is compared with the others, 4 of 130
are called different, 3%; a number is outside in 100 of the 130. Claims are judged again, from the
tables as they are. The exit code is 1 if numbers or a verdict differ.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import subprocess
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from carry import results
from carry.certificates.files import read_certificate
from carry.claims import judge_claims, load_claims
from carry.config import paths
from carry.config.settings import SettingsError
from carry.data.tables import read_parquet
from carry.evaluation.differences import ALPHA
from carry.evaluation.intervals import format_percent, pool_cells
from carry.evaluation.regions import add_region
from carry.pages.headlines import HEADLINES
from carry.pages.readme import COLUMNS, name_columns
from carry.runs.tables import PLACE

# Columns of cells that tell results apart.
COUNTS = [*PLACE, "start", "set", "i", "j", "n", "exact"]
MAX_CHOICES = 5_000  # of seeds that could be mine; if there are more, this number is sampled
WIDTH = 100
REMEDY = "it as git has it"


class Compared(NamedTuple):
    """My seeds of a row, and those of a commit: `mine` and `theirs` have a column for each number.

    `other` has the settings that differ, where no seed of the commit has mine.
    """

    row: str
    scale: str
    mine: pd.DataFrame
    theirs: pd.DataFrame
    other: Sequence[str] = ()

    @property
    def numbers(self) -> list[str]:
        """Return the numbers that both have, if the commit has a range."""
        return [*self.mine] if len(self.theirs) > 1 else []

    def find_outside(self, name: str) -> pd.Series:
        """Return how far each of my seeds is beyond the range of a number, below it negative."""
        mine, theirs = self.mine[name], self.theirs[name]
        return (mine - theirs.max()).clip(lower=0) + (mine - theirs.min()).clip(upper=0)


def compare_results(revision: str = "HEAD") -> int:
    """Print how my results differ from those of a commit; return 1 if they are not reproduced.

    That is: numbers differ by more than chance, a verdict differs, or seeds are missing.

    Raises:
        SettingsError: without git, and for a commit that does not exist or has no results.
    """
    commit = find_commit(revision)
    rows, missing = list(compare_rows(commit)), list(list_missing(commit))
    for text in missing:
        print(f"{text} in {revision}, not in reports/results")
    if not rows:
        print(f"Nothing{' else' * bool(missing)} differs: each seed in reports/results is as in "
              f"{revision}.")  # fmt: skip
        return 1 if missing else 0
    for row in rows:
        print(*describe_row(row, revision), sep="\n", end="\n\n")
    print(f"verdicts, in {revision} and yours, where they differ:", flush=True)
    verdicts = [*compare_certificates(commit, rows), *compare_claims(commit)]  # takes 15 seconds
    differ = [f"  {name}: {old}, yours {new}" for name, old, new in verdicts if old != new]
    print(*(differ or ["  none"]), sep="\n", end="\n\n")
    text, reproduced = conclude(rows, verdicts, revision)
    print(textwrap.fill(text, WIDTH, break_on_hyphens=False))
    print("To undo what is not committed: git checkout reports README.md dvc.lock")
    return 0 if reproduced and not missing else 1


# ---- What differs --------------------------------------------------------------------------------


def find_commit(revision: str) -> str:
    """Return the hash of a commit of this project.

    Raises:
        SettingsError: as `compare_results`.
    """
    place = f"compare.revision: {json.dumps(revision)}"
    try:
        reason = "" if (git := _run_git("rev-parse", "--git-dir")).returncode == 0 else git.stderr
    except FileNotFoundError:
        reason = b"git is not installed"
    if reason:
        reason = reason.decode(errors="replace").strip().splitlines()[0].removeprefix("fatal: ")
        raise SettingsError(f"compare: {reason}; expected a clone, whose commits have results")
    found = _run_git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if found.returncode:
        raise SettingsError(f"{place} is unknown; expected a commit, such as HEAD~1")
    commit = found.stdout.decode().strip()
    if read_committed(commit, "reports/claims.json") is None:
        raise SettingsError(
            f"{place} has no reports/claims.json; expected a commit of this project"
        )
    return commit


def read_committed(commit: str, path: str) -> bytes | None:
    """Return a file of the project as a commit has it; None without it."""
    done = _run_git("show", f"{commit}:./{path}")  # ./: in the project's folder
    return None if done.returncode else done.stdout


def _run_git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *words], cwd=paths.ROOT, capture_output=True)


def compare_rows(commit: str) -> Iterator[Compared]:
    """Yield the rows of which seeds differ from a commit's, by study."""
    for folder in sorted(paths.results_folder("").glob("*/")):
        files = [folder / f"{name}.parquet" for name in ("runs", "cells")]
        theirs = [read_committed(commit, paths.display_path(path)) for path in files]
        if all(map(Path.exists, files)) and theirs != [path.read_bytes() for path in files]:
            mine = [read_parquet(path, f"results.{folder.name}", REMEDY) for path in files]
            known = [
                table.iloc[:0] if content is None else pd.read_parquet(io.BytesIO(content))
                for table, content in zip(mine, theirs, strict=True)
            ]
            yield from _compare_study(*mine, *known)


def list_missing(commit: str) -> Iterator[str]:
    """Yield the rows of a commit, with their seeds, that reports/results does not have."""
    folder = paths.display_path(paths.results_folder(""))
    studies = _run_git("ls-tree", "-d", "--name-only", f"{commit}:./{folder}").stdout.decode()
    for study in studies.splitlines():
        path = paths.results_folder(study) / "runs.parquet"
        content = read_committed(commit, paths.display_path(path))
        if content is None or (path.exists() and content == path.read_bytes()):
            continue
        theirs = pd.read_parquet(io.BytesIO(content), columns=PLACE)
        if path.exists():
            mine = read_parquet(path, f"results.{study}", REMEDY)[PLACE]
            theirs = theirs[~pd.MultiIndex.from_frame(theirs).isin(pd.MultiIndex.from_frame(mine))]
        for (row, scale), seeds in theirs.groupby(["row", "scale"], sort=False)["seed"]:
            yield f"{row} ({scale}): {_join('seed', seeds)}"


def _compare_study(
    my_runs: pd.DataFrame,
    my_cells: pd.DataFrame,
    their_runs: pd.DataFrame,
    their_cells: pd.DataFrame,
) -> Iterator[Compared]:
    changed = {
        *_list_changed(my_runs, their_runs, [*my_runs]),
        *_list_changed(my_cells, their_cells, COUNTS),
    }
    places = pd.MultiIndex.from_frame(my_runs[PLACE])
    runs = my_runs[places.isin(changed)]
    for (row, scale, settings), seeds in runs.groupby(["row", "scale", "settings"], sort=False):
        known = their_runs[(their_runs["row"] == row) & (their_runs["scale"] == scale)]
        like = known[known["settings"] == settings]
        parts = [
            score_numbers(cells[(cells["row"] == row) & (cells["scale"] == scale)
                                & cells["seed"].isin(part["seed"])])
            for cells, part in ((my_cells, seeds), (their_cells, like))
        ]  # fmt: skip
        both = pd.concat(parts, keys=["mine", "theirs"]).dropna(axis="columns")
        mine, theirs = (both[both.index.get_level_values(0) == part] for part in ("mine", "theirs"))
        others = [] if len(like) or known.empty else known["settings"].iloc[-1:]
        other = [text for old in others for text in _list_other_settings(settings, old)]
        yield Compared(row, scale, mine.droplevel(0), theirs.droplevel(0), other)


def _list_changed(mine: pd.DataFrame, theirs: pd.DataFrame, columns: list[str]) -> list[tuple]:
    """Return the places, row, scale and seed, with a line that the other table does not have."""
    known = pd.concat([theirs, mine], ignore_index=True)[columns].duplicated()[len(theirs) :]
    return list(mine.loc[~known.to_numpy(), PLACE].drop_duplicates().itertuples(index=False))


def _list_other_settings(mine: str, theirs: str) -> list[str]:
    """Return the settings in which two runs differ.

    >>> _list_other_settings('{"training": {"steps": 5}}', '{"training": {"steps": 9}, "x": 1}')
    ['training.steps 5, not 9', 'x as by default, not 1']
    """
    sides = [pd.json_normalize(json.loads(text)).to_dict("records")[0] for text in (mine, theirs)]
    found = []
    for name in dict.fromkeys(itertools.chain(*sides)):
        one, other = (json.dumps(side[name]) if name in side else "as by default" for side in sides)
        if one != other:
            found.append(f"{name} {one}, not {other}")
    return found


def score_numbers(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the README's numbers of the seeds of one row: a line by seed, a column for each.

    >>> table = pd.DataFrame({"row": "a", "scale": "laptop", "seed": [0, 1, 0], "trained": 5,
    ...     "start": "1", "set": "equal", "i": [10, 10, 7], "j": [10, 10, 7], "n": 4, "exact": 3})
    >>> score_numbers(table).fillna(0.0).to_dict("list")
    {'twice as long': [0.75, 0.75], 'out of distribution': [0.75, 0.0]}
    """
    cells = cells[cells["exact"].notna()]
    columns, regions = name_columns(cells), add_region(cells)["region"]
    if (columns == COLUMNS[0]).any():  # which other problems of trained lengths must not be
        regions = regions.mask(regions == COLUMNS[0])
    cells = cells.assign(column=columns.fillna(regions)).dropna(subset="column")
    seeds = pool_cells(cells, ["start", "column", "seed"])
    numbers = {}
    for start in sorted(seeds["start"].unique()):
        own = seeds[seeds["start"] == start].set_index(["column", "seed"])["accuracy"]
        known = set(own.index.unique(0))
        names = [name for name in COLUMNS if name in known]
        for name in [*names, *sorted(known - {*COLUMNS}, reverse=True)]:
            numbers[name if start == "1" else f"{name}, start {start}"] = own[name]
    for headline in HEADLINES:
        chosen = headline.select(cells)
        if len(chosen) and headline.problems.replace(",", "") not in COLUMNS:
            numbers[headline.problems] = headline.score_seeds(chosen)
    return pd.DataFrame(numbers)


def compare_certificates(commit: str, rows: Sequence[Compared]) -> Iterator[tuple[str, str, str]]:
    """Yield each certificate of my seeds: its name, the commit's verdict and mine.

    `make repro` certifies what it trains in data/certificates; `carry run` replaces those in git.
    """
    for row in rows:
        name = paths.display_path(paths.certificate_file(row.row))
        content = read_committed(commit, name)
        new = paths.ROOT / "data" / "certificates" / f"{row.row}.json"
        new = new if new.exists() else paths.certificate_file(row.row)
        if content is None or not new.exists() or row.other:
            continue
        mine, theirs = read_certificate(new), json.loads(content)
        known = {seed["seed"]: seed["verdict"] for seed in theirs["seeds"]}
        for seed in mine["seeds"]:
            if seed["seed"] in known and seed["seed"] in row.mine.index:
                yield (
                    f"certificate of {row.row}, seed {seed['seed']}",
                    known[seed["seed"]],
                    seed["verdict"],
                )


def compare_claims(commit: str) -> list[tuple[str, str, str]]:
    """Return the claims that a commit has as well, with what it and my results have seen."""
    theirs = json.loads(read_committed(commit, "reports/claims.json") or b"[]")
    known = {claim["id"]: claim["seen"] for claim in theirs if "seen" in claim}
    mine = judge_claims(load_claims(), results.open_results(), results.read_certificates())
    return [(of["id"], known[of["id"]], of["seen"]) for of in mine if of["id"] in known]


# ---- The test ------------------------------------------------------------------------------------


def compute_outside_p(rows: Sequence[Compared]) -> tuple[float, float]:
    """Return the p of as many numbers of my seeds outside as there are, and the least p possible.

    If my seeds of a row and those of the commit are drawn alike, any of them could as well be mine.
    So p is the probability of as many numbers outside, or more, if mine are chosen at random among
    all seeds of each row, independently. It is exact, whatever the seeds are like and however the
    numbers of a row hang together. The least p says whether so few seeds can show a difference.

    >>> mine, theirs = pd.DataFrame({"x": [0.1]}), pd.DataFrame({"x": [0.8, 0.9]})
    >>> outlier = Compared("a", "laptop", mine, theirs)
    >>> [round(p, 3) for p in compute_outside_p([outlier])]  # the lowest, or the highest, of three
    [0.667, 0.667]
    >>> [round(p, 3) for p in compute_outside_p([outlier] * 10)]
    [0.017, 0.017]
    """
    outside, most, least = 0, 0, 1.0
    chances = np.ones(1)  # of 0, 1, 2, ... numbers outside, in all rows
    for row in rows:
        if not row.numbers:
            continue
        counts = _count_outside(
            pd.concat([row.mine, row.theirs])[row.numbers].to_numpy(), len(row.mine)
        )
        own = np.bincount(counts) / len(counts)
        chances, outside, most = np.convolve(chances, own), outside + counts[0], most + counts.max()
        least *= own[-1]
    return float(min(1.0, chances[outside:].sum())), float(least)


def _count_outside(values: np.ndarray, mine: int) -> np.ndarray:
    """Return how many numbers would be outside for each choice of my seeds, the first is the real.

    Args:
        values: a line for each seed, first mine, and a column for each number.
        mine: how many seeds.
    """
    seeds = len(values)
    if math.comb(seeds, mine) <= MAX_CHOICES:
        choices = np.array(list(itertools.combinations(range(seeds), mine)))
    else:
        draws = np.random.default_rng(0).random((MAX_CHOICES, seeds)).argsort(axis=1)
        draws[0] = np.arange(seeds)
        choices = draws[:, :mine]
    is_mine = np.zeros((len(choices), seeds), dtype=bool)
    np.put_along_axis(is_mine, choices, values=True, axis=1)
    counts = np.zeros(len(choices), dtype=int)
    for number in values.T:
        lowest = np.where(is_mine, np.inf, number).min(axis=1, keepdims=True)
        highest = np.where(is_mine, -np.inf, number).max(axis=1, keepdims=True)
        counts += (is_mine & ((number < lowest) | (number > highest))).sum(axis=1)
    return counts


# ---- In words ------------------------------------------------------------------------------------


def describe_row(row: Compared, revision: str) -> list[str]:
    """Return lines of 100 columns: which seeds of a row are mine, and each of its numbers."""
    mine, theirs = row.mine, row.theirs
    title = f"{row.row} ({row.scale}): your {_join('seed', mine.index)}, "
    if len(theirs):
        title += f"{len(theirs)} in {revision}" + ", which is no range" * (len(theirs) == 1)
    else:
        title += f"not compared: {revision} has no seed with these settings"
        title += f" ({'; '.join(row.other)})" if row.other else ""
    lines = [("percent", "yours", "in git", "")]
    for name in mine if len(theirs) else ():
        ranges = [_format_range(seeds[name]) for seeds in (mine, theirs)]
        beyond = row.find_outside(name)
        outside = f"{(beyond != 0).sum()} of {len(beyond)} outside"
        if len(beyond) == 1:
            outside = _format_difference(beyond.iloc[0])
        lines.append((name, *ranges, outside if beyond.any() else "inside"))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ["  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    return [*textwrap.wrap(title, WIDTH, subsequent_indent="  "), *(table if lines[1:] else ())]


def conclude(
    rows: Sequence[Compared], verdicts: Sequence[tuple[str, str, str]], revision: str
) -> tuple[str, bool]:
    """Return the sentences that say whether the results are reproduced, and whether they are.

    >>> row = Compared("a", "laptop", pd.DataFrame({"x": [0.5]}), pd.DataFrame({"x": [0.1, 0.9]}))
    >>> text, reproduced = conclude([row], [("a claim", "holds", "fails")], "HEAD")
    >>> text[text.index(", ") :], reproduced
    (', but 1 of 1 verdicts differ.', False)
    """
    beyond = [(row.row, name, far) for row in rows for name in row.numbers
              for far in row.find_outside(name)]  # fmt: skip
    outside = [number for number in beyond if number[2]]
    same = sum(old == new for _, old, new in verdicts)
    p, least = compute_outside_p(rows)
    word = "Reproduced" if same == len(verdicts) else "Reproduced in part"
    if not beyond or (outside and least > ALPHA):
        word = "Undecided"
    if p <= ALPHA:
        word = "Not reproduced"
    judged = len({name for name, *_ in beyond})
    text = f"{word}: {len(beyond) - len(outside)} of {len(beyond)} numbers of {judged} "
    text += f"row{'s' * (judged != 1)} are inside the range of the seeds in {revision}, "
    if not beyond:
        text = f"{word}: no row of yours has two seeds with its settings in {revision}, "
    if same == len(verdicts):
        text += f"and all {same} verdicts are the same."
    else:
        text += f"but {len(verdicts) - same} of {len(verdicts)} verdicts differ."
    if outside:
        row, name, far = max(outside, key=lambda number: abs(number[2]))
        text += (
            f" The largest difference: {row}, {name}, {_format_difference(far, ' points')} the "
            "range."
            " If yours differ by chance alone, as many are outside, or more, with a probability "
            f"of {format_percent(p)}%; {100 * ALPHA:.0f}% or less counts as a difference."
        )
    if outside and word == "Undecided":
        text += " So few seeds cannot show a difference: train more of them (`carry run ROW`)."
    return text, p > ALPHA and same == len(verdicts)


def _format_range(shares: pd.Series) -> str:
    low, high = _format_share(shares.min()), _format_share(shares.max())
    return low if low == high else f"{low} to {high}"


def _format_share(share: float) -> str:
    """Return a share in percent, to 1/100; only one without any error is written as 100.

    >>> [_format_share(share) for share in (0.0, 0.00001, 0.135, 0.99999, 1.0)]
    ['0', '<0.01', '13.5', '>99.99', '100']
    """
    text = f"{100 * share:.2f}".rstrip("0").rstrip(".")
    return {"100": ">99.99", "0": "<0.01"}.get(text, text) if 0 < share < 1 else text


def _format_difference(share: float, unit: str = "") -> str:
    return f"{_format_share(abs(share))}{unit} {'above' if share > 0 else 'below'}"


def _join(noun: str, numbers: Iterable[int]) -> str:
    """Return numbers in words.

    >>> _join("seed", [3]), _join("seed", [0, 1, 2])
    ('seed 3', 'seeds 0, 1 and 2')
    """
    words = [str(number) for number in numbers]
    text = " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    return f"{noun}{'s' * (len(words) > 1)} {text}"
