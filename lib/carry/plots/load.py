"""Read what evaluation has written, all rows of a profile in one table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from carry.config import paths, profiles, run_settings
from carry.config.settings import SettingsError
from carry.evaluation.intervals import add_interval, pool_cells, wilson_interval
from carry.evaluation.mistakes import KINDS
from carry.evaluation.regions import REGIONS, add_region

# Tables that only some rows write, with the columns that they have if no row does.
OPTIONAL = {
    "recurrences": [
        "row", "profile", "seed", "trained", "start", "digits", "recurrences_trained",
        "recurrence", "place", "n", "correct", "accuracy", "low", "high", "same",
    ],
    "answers": [
        "row", "profile", "seed", "trained", "start", "digits", "recurrences_trained",
        "recurrence", "slot", "place", "due", "said",
    ],
    "steps": [
        "row", "profile", "seed", "trained", "start", "set", "digits", "step", "n", "correct",
        "first_wrong", "accuracy", "low", "high",
    ],
    "attention": [
        "row", "profile", "seed", "i", "j", "n", "layer", "head", "query", "key", "weight",
    ],
    "heads": ["row", "profile", "seed", "i", "j", "n", "layer", "head", "needed", "share"],
    "tokens": ["row", "profile", "seed", "i", "j", "n", "at", "token", "number", "place"],
    # Of analyses (see `carry.analyses`).
    "separations": [
        "row", "profile", "seed", "trained", "size", "heads", "n", "learned", "separation",
    ],
    "ratios": ["row", "profile", "seed", "head", "w01", "w02", "n", "separation"],
    "outputs": ["row", "profile", "seed", "head", "zeros", "ones", "twos", "x", "y"],
    "by_hand": ["row", "profile", "seed", "head", "w01", "w02", "n", "separation"],
    "subtasks": [
        "row", "profile", "seed", "trained", "step", "subtask", "place", "n", "correct",
        "accuracy", "low", "high",
    ],
    "cascades": [
        "row", "profile", "seed", "trained", "step", "cascade", "n", "exact", "accuracy", "low",
        "high",
    ],
    "progress": [
        "row", "profile", "seed", "step", "set", "n", "correct", "norm", "loss", "restricted",
        "excluded", "accuracy", "low", "high",
    ],
    "spectrum": ["row", "profile", "seed", "step", "matrix", "frequency", "share"],
    "circles": ["row", "profile", "seed", "step", "frequency", "number", "x", "y"],
    "key_frequencies": ["row", "profile", "seed", "n", "frequency", "share", "explained"],
    "nearness": ["row", "profile", "seed", "step", "kind", "n", "cosine", "low", "high"],
    "lens": [
        "row", "profile", "seed", "trained", "digits", "activation", "place", "n", "correct",
        "sure", "accuracy", "low", "high",
    ],
    "probes": [
        "row", "profile", "seed", "trained", "digits", "activation", "step", "n", "correct",
        "commonest", "of", "accuracy", "low", "high",
    ],
    "ablations": [
        "row", "profile", "seed", "trained", "digits", "subtask", "n", "correct", "layer", "head",
        "accuracy", "low", "high",
    ],
    "patches": [
        "row", "profile", "seed", "trained", "digits", "activation", "token", "role", "n",
        "flipped", "restored", "place",
    ],
    "confirmed": [
        "row", "profile", "seed", "trained", "digits", "activation", "token", "role", "n",
        "flipped", "restored", "twins", "accuracy", "low", "high", "place",
    ],
    "depths": [
        "row", "profile", "seed", "trained", "recurrences_trained", "digits", "place", "carry",
        "cascade", "n", "taken", "taken_spread", "depth", "depth_spread", "correct", "accuracy",
        "low", "high",
    ],
    "rounds": [
        "row", "profile", "seed", "trained", "recurrences_trained", "digits", "recurrences", "n",
        "exact", "accuracy", "low", "high",
    ],
    "losses": [
        "row", "profile", "seed", "trained", "step", "digits", "n", "loss", "exact", "seen",
        "accuracy", "low", "high",
    ],
    "order": [
        "row", "profile", "seed", "trained", "step", "digits", "place", "n", "correct", "accuracy",
        "low", "high",
    ],
    "written": [
        "row", "profile", "seed", "trained", "digits", "kind", "n", "count", "accuracy", "low",
        "high",
    ],
    "parts": [
        "row", "profile", "seed", "trained", "part", "n", "exact", "digits", "accuracy", "low",
        "high",
    ],
    "lines": [
        "row", "profile", "seed", "trained", "digits", "characters", "sums", "n", "exact",
        "accuracy", "low", "high",
    ],
    "verdicts": [
        "row", "profile", "seed", "trained", "verdict", "contexts", "wrong", "context", "due",
        "said", "problem", "right", "written",
    ],
    "learned": [
        "row", "profile", "seed", "trained", "step", "contexts", "wrong", "n", "exact", "accuracy",
        "low", "high",
    ],
    "disturbed": [
        "row", "profile", "seed", "trained", "noise", "contexts", "wrong", "n", "exact",
        "accuracy", "low", "high",
    ],
    "reach": [
        "row", "profile", "seed", "trained", "i", "j", "n", "exact", "accuracy", "low", "high",
        "wrong", "tokens",
    ],
    "looks": ["row", "profile", "seed", "head", "where", "share", "n"],
    "without": [
        "row", "profile", "seed", "head", "n", "right", "carry", "accuracy", "low", "high",
    ],
    "carries": ["row", "profile", "seed", "below", "written", "possible", "carry", "none", "n"],
    "read": [
        "row", "profile", "seed", "where", "what", "n", "right", "accuracy", "low", "high",
    ],
}  # fmt: skip

LIMITS = [
    "case", "window", "problems", "contexts", "context", "one", "then", "other", "or_then",
]  # fmt: skip

# What certificates say (see `carry.certificates`), a row for each seed.
CERTIFIED = [
    "row", "profile", "seed", "trained", "parameters", "verdict", "contexts", "wrong", "open",
    "margin", "error",
]  # fmt: skip

# Tables of ablations (see `carry.variants.jobs`), whose variants are no rows of a profile.
ABLATED = {
    "lengths": [
        "ablation", "group", "variant", "row", "profile", "seed", "trained", "times", "digits", "n",
        "exact", *KINDS, "near", "accuracy", "low", "high",
    ],
    "training": [
        "ablation", "group", "variant", "row", "profile", "seed", "trained", "parameters", "steps",
        "steps_to_999", "exact", "loss", "core_seconds", "verdict", "contexts", "wrong",
    ],
}  # fmt: skip

# What a notebook adds to `attention`, `heads` and `tokens` under this name: that of the model of
# Theorem 4.1, which is no row, and is drawn beside any.
BY_HAND = "construction"


class Tables(NamedTuple):
    """What figures are drawn from: the result tables of a profile, and counts of weights.

    cells, places: accuracy by lengths, and by place of digits
    curves: learning curves
    recurrences, answers: of looped rows, what is right after each recurrence, and one answer
    sizes: how many weights a model has; not a result, so that only its notebook adds it
    footing: accuracy by lengths in another profile, which is in git; added by its notebook, too
    steps: of scratchpads, accuracy by the number written
    separations, ratios, outputs, by_hand: of heads, what they tell apart and where they look
    subtasks, cascades: accuracy over training by what digits take, and by how far carries go
    progress: of modular addition, what is known of pairs, trained and held out, by step
    spectrum, circles, key_frequencies: the waves that it is known by
    nearness: how near to each other equal sums are
    losses, order, written: of equally long numbers, losses by length and digits right by place over
        training, and what whole answers look like in the end
    parts: of rows that mix sub-tasks, how many responses to each are right in the end
    lens, probes, ablations, patches, confirmed: of equally long sums, what is known layer by layer,
        what answers are without a head, and where a carry lives
    depths, rounds: of adaptive rows, how deep digits go, and accuracy where they may go deeper
    lines: of sums inside a line, by what stands around them
    verdicts, learned, disturbed: of models that are not right everywhere, in how many contexts
        they are wrong: in the end, over training, with noise
    certificates: what is proved of a row's seeds; and what no window can decide (`limits`); added
        by their notebooks
    reach: of rows read relatively, problems a thousand times as long as those of training
    looks, without, carries, read: of local adders, where heads look, what is wrong without one,
        what adds a carry, and what a linear map tells
    variants, trainings: of ablations, accuracy by length and how training went (`lengths` and
        `training` of `ablated`); added by their notebook
    attention, heads, tokens: where heads look on average, how much of it is needed, and at what
    widths, sharpness: of the model of Theorem 4.1, added by its notebook
    majority_range: of the noisy majority set by hand, what is wrong by N and length; and of
        circuits set by hand (`circuit_steps`, `circuit_bits`) one chain of thought, and what is
        wrong by bits; added by their notebook
    """

    cells: pd.DataFrame
    places: pd.DataFrame
    curves: pd.DataFrame
    recurrences: pd.DataFrame
    answers: pd.DataFrame
    sizes: pd.DataFrame = pd.DataFrame(columns=["layers", "recurrences", "weights"])
    footing: pd.DataFrame = pd.DataFrame(columns=["row", "rate", "exact"])
    steps: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["steps"])
    attention: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["attention"])
    heads: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["heads"])
    tokens: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["tokens"])
    separations: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["separations"])
    ratios: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["ratios"])
    outputs: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["outputs"])
    by_hand: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["by_hand"])
    subtasks: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["subtasks"])
    cascades: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["cascades"])
    progress: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["progress"])
    spectrum: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["spectrum"])
    circles: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["circles"])
    key_frequencies: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["key_frequencies"])
    nearness: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["nearness"])
    losses: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["losses"])
    order: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["order"])
    written: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["written"])
    parts: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["parts"])
    lens: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["lens"])
    probes: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["probes"])
    ablations: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["ablations"])
    patches: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["patches"])
    confirmed: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["confirmed"])
    depths: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["depths"])
    rounds: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["rounds"])
    lines: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["lines"])
    verdicts: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["verdicts"])
    learned: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["learned"])
    disturbed: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["disturbed"])
    certificates: pd.DataFrame = pd.DataFrame(columns=CERTIFIED)
    limits: pd.DataFrame = pd.DataFrame(columns=LIMITS)
    reach: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["reach"])
    looks: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["looks"])
    without: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["without"])
    carries: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["carries"])
    read: pd.DataFrame = pd.DataFrame(columns=OPTIONAL["read"])
    variants: pd.DataFrame = pd.DataFrame(columns=ABLATED["lengths"])
    trainings: pd.DataFrame = pd.DataFrame(columns=ABLATED["training"])
    widths: pd.DataFrame = pd.DataFrame(columns=["written", "codes_are", "n", "wrong"])
    sharpness: pd.DataFrame = pd.DataFrame(columns=["sequence", "dtype", "scale", "n", "wrong"])
    majority_range: pd.DataFrame = pd.DataFrame(columns=["large", "length", "n", "wrong"])
    circuit_steps: pd.DataFrame = pd.DataFrame(columns=["step", "wire", "first", "second", "said"])
    circuit_bits: pd.DataFrame = pd.DataFrame(columns=["circuit", "bits", "fraction", "n", "wrong"])

    def of(self, wanted: list[str]) -> Tables:
        """Return the tables of some rows alone, in the order given, and what is `BY_HAND`."""
        kept = [*wanted, BY_HAND]
        return self._replace(**{name: pick(getattr(self, name), kept) for name in WRITTEN})

    def beside(self, more: Mapping[str, pd.DataFrame]) -> Tables:
        """Return the tables with more rows in those that are named."""
        both = {name: [getattr(self, name), table] for name, table in more.items()}
        return self._replace(
            **{name: pd.concat([of for of in pair if not of.empty], ignore_index=True)
               for name, pair in both.items()}
        )  # fmt: skip


WRITTEN = ("cells", "places", "curves", *OPTIONAL)


def tables(profile: str) -> Tables:
    """Return the result tables of all rows of a profile.

    Raises:
        SettingsError: for the first file that is not there.
    """
    return Tables(**{name: read(profile, name) for name in WRITTEN})


def empty() -> Tables:
    """Return the tables of no row, for what is added to them.

    >>> rows(empty().cells)
    []
    """
    none = pd.DataFrame(columns=["row"])
    optional = {name: pd.DataFrame(columns=OPTIONAL[name]) for name in OPTIONAL}
    return Tables(**dict.fromkeys(("cells", "places", "curves"), none), **optional)


def read(profile: str, name: str) -> pd.DataFrame:
    """Return one table (such as `cells`) of all rows that a profile names.

    The rows come from the profile, since a row that is gone may have left its files behind. A row
    that has not written one of the `OPTIONAL` tables is not in it.
    """
    parts = []
    if not run_settings.list_rows(profile):
        raise SettingsError(f"rows: profile {profile!r} has none; expected at least one")
    for row in run_settings.list_rows(profile):
        folder, file = paths.reports_path(profile, "results", profile), f"{name}.parquet"
        places = [folder / row / file, folder / paths.ANALYSES / row / file]
        there = [pd.read_parquet(path) for path in places if path.exists()]
        if there:
            parts += there
        elif name not in OPTIONAL:
            raise SettingsError(
                f"results.{row}: {paths.display_path(places[0])} is not there; expected the evaluate "
                f"stage of profile {profile!r} to have run"
            )
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=OPTIONAL[name])


def ablated(profile: str, name: str) -> pd.DataFrame:
    """Return one of the tables `ABLATED` of all ablations that a profile names.

    Raises:
        SettingsError: for the first file that is not there.
    """
    parts = []
    for ablation in profiles.load_profile(profile)["variant_sets"]:
        folder = paths.reports_path(profile, "results", profile, paths.VARIANTS, ablation)
        path = folder / f"{name}.parquet"
        if not path.exists():
            raise SettingsError(
                f"variant_sets.{ablation}: {paths.display_path(path)} is not there; expected the ablate "
                f"stage of profile {profile!r} to have run"
            )
        parts.append(pd.read_parquet(path))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=ABLATED[name])


def certified(profile: str) -> pd.DataFrame:
    """Return what the certificates of a profile say, a row for each seed.

    Raises:
        SettingsError: for the first certificate that is not there.
    """
    rows = []
    for row in profiles.load_profile(profile)["certificates"]:
        path = paths.reports_path(profile, "certificates") / f"{row}.json"
        if not path.exists():
            raise SettingsError(
                f"certificates.{row}: {paths.display_path(path)} is not there; expected the certify stage "
                f"of profile {profile!r} to have run"
            )
        found = json.loads(path.read_text())
        rows += [{**{name: found[name] for name in ("row", "profile", "trained", "parameters")},
                  **of} for of in found["seeds"]]  # fmt: skip
    return pd.DataFrame(rows).reindex(columns=CERTIFIED)


def committed(profile: str) -> pd.DataFrame:
    """Return the cells of a profile whose results are in git, with each row's learning `rate`.

    Rows of which there are none are not in it.
    """
    parts = []
    for row in run_settings.list_rows(profile):
        path = paths.ROOT.joinpath("reports", "results", profile, row, "cells.parquet")
        if path.exists():
            rate = run_settings.load_run(row, profile).training.learning_rate
            parts.append(pd.read_parquet(path).assign(rate=rate))
    return pd.concat(parts, ignore_index=True) if parts else Tables._field_defaults["footing"]


def pick(table: pd.DataFrame, wanted: list[str]) -> pd.DataFrame:
    """Return some rows of a table, in the order given.

    >>> pick(pd.DataFrame({"row": ["a", "b", "c"]}), ["c", "a"])["row"].tolist()
    ['c', 'a']
    """
    here = table[table["row"].isin(wanted)]
    return here.sort_values("row", key=lambda name: name.map(wanted.index), kind="stable")


def rows(table: pd.DataFrame) -> list[str]:
    """Return the rows of a table in the order of the profile."""
    return list(table["row"].unique())


def over_seeds(table: pd.DataFrame, keys: list[str], hits: str = "exact") -> pd.DataFrame:
    """Return mean accuracy over seeds, with Wilson's interval of all their problems together.

    >>> two = pd.DataFrame({"i": 1, "seed": [0, 1], "n": 4, "exact": [4, 2], "accuracy": [1, 0.5]})
    >>> over_seeds(two, ["i"]).round(2).loc[0].tolist()
    [1.0, 0.75, 8.0, 6.0, 2.0, 0.41, 0.93]
    """
    of = {name: (name, "sum") for name in ("n", hits)}
    of = {"accuracy": ("accuracy", "mean"), **of, "seeds": ("seed", "nunique")}
    found = table.groupby(keys, sort=False).agg(**of).reset_index()
    low, high = wilson_interval(found[hits], found["n"])
    return found.assign(low=low, high=high)


def at_least(known: pd.Series, levels: np.ndarray, hits: str, **names: object) -> pd.DataFrame:
    """Return how many (`hits`) of `n` accuracies reach each level, with the share and its interval.

    >>> found = at_least(pd.Series([0.5, 0.9, 1.0]), np.array([0.6, 1.0]), "models")
    >>> found[["at least", "models"]].values.tolist()
    [[0.6, 2.0], [1.0, 1.0]]
    """
    reach = (known.to_numpy()[:, None] >= levels).sum(0)
    counted = {**names, "at least": levels, hits: reach, "n": len(known)}
    return add_interval(pd.DataFrame(counted), hits)


def lengths(table: pd.DataFrame) -> dict[str, int]:
    """Return the length that each row of a table was trained to."""
    return table.groupby("row", sort=False)["trained"].first().to_dict()


def tested(cells: pd.DataFrame) -> dict[str, int]:
    """Return the largest size that the grid of each row has."""
    grid = cells[cells["set"] == "grid"]
    return grid.groupby("row", sort=False)["i"].max().to_dict()


def starts(cells: pd.DataFrame) -> dict[str, str]:
    """Return for each row the start that serves it better in distribution, 1 if that may be chance.

    What lies beyond the training lengths has no say, or it would be chosen by what it measures;
    and a sum or two must not decide (the intervals of 95% have to be apart). Where a task has no
    grid, equal lengths decide.
    """
    cells = add_region(cells)
    inside = cells["row"].isin(cells.loc[cells["set"] == "grid", "row"])
    kind = inside.map({True: "grid", False: "equal"})
    known = cells[(cells["set"] == kind) & (cells["region"] == REGIONS[0])]
    pooled = pool_cells(known, ["row", "start"]).set_index(["row", "start"])
    low, high = (
        pooled[end].unstack("start").reindex(columns=["1", "middle"]) for end in ("low", "high")
    )
    better = low["middle"] > high["1"].fillna(-1)
    return {row: "middle" if better.get(row, False) else "1" for row in rows(cells)}


def at_start(table: pd.DataFrame, start: str | Mapping[str, str]) -> pd.DataFrame:
    """Return what was measured from one start, or from each row's own (as `starts` gives them)."""
    wanted = table["row"].map(start) if isinstance(start, Mapping) else start
    return table[table["start"] == wanted]
