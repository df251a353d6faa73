"""Move the results of the former profiles to one folder for each study, with their settings.

Run once on the former layout: `python tests/golden/migrate.py`.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections import defaultdict
from pathlib import Path

import pandas as pd

from carry.analyses import faults, locality
from carry.config import paths
from carry.data.tables import write_tables
from carry.evaluation.mistakes import KINDS
from carry.evaluation.scoring import COLUMNS as SCORES
from carry.experiments import load_rows
from carry.experiments.resolve import list_rows, load_run
from carry.experiments.run import Run
from carry.models.identity import describe_run
from carry.training.jobs import COLUMNS as CURVES

OLD = paths.REPORTS / "results"
PROFILES = ("full", "baselines", "long", "tuning", "gpu")  # the first has precedence
# Rows that two profiles have: for variants of them, on fewer problems.
LEFT_OUT = {("baselines", "addition_relative"), ("tuning", "addition_coupled")}
ORIGIN = ["device", "python", "torch", "numpy", "commit"]
TIMES = ["seconds", "core_seconds"]
RENAMED = {"profile": "scale"}
# Rows in place of the former sets of variants: the name of the reference, and the first id.
SETS = {
    "addition_relative": ("ablation", "1"),
    "far_abacus": ("selection_abacus", "all"),
    "far_coupled": ("selection_coupled", "all"),
    "farther_abacus": ("selection_abacus_2", "all"),
    "farther_coupled": ("selection_coupled_2", "all"),
}


def main() -> None:
    rows = load_rows()
    golden = json.loads(gzip.decompress((Path(__file__).parent / "rows.json.gz").read_bytes()))
    tables: dict[str, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    analyses: dict[str, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    taken: dict[tuple, str] = {}  # which profile a row and scale come from, by table
    timed = []
    for profile in PROFILES:
        folder = OLD / profile
        for file in sorted(folder.glob("*/*.parquet")) + sorted(
            folder.glob("analyses/*/*.parquet")
        ):
            table = pd.read_parquet(file)
            if "row" not in table:
                continue
            for row, part in table.groupby("row", sort=False):
                if row not in rows or row not in golden[profile] or (profile, row) in LEFT_OUT:
                    print("left out:", profile, row, file.stem)
                    continue
                scale = "long" if profile == "long" and "long" in rows[row].scales else "laptop"
                if profile == "gpu":
                    scale = "gpu"
                if taken.setdefault((row, scale, file.stem), profile) != profile:
                    print("second:", profile, row, file.stem)
                    continue
                part = part.assign(profile=scale).rename(columns=RENAMED)
                kind = "analyses" if file.parent.parent.name == "analyses" else "results"
                (tables if kind == "results" else analyses)[rows[row].study][file.stem].append(part)
        if (folder / "runs.csv").exists():
            timed.append(pd.read_csv(folder / "runs.csv"))
    times = pd.concat(timed).drop_duplicates(["row", "seed"], keep="last")
    times = times.set_index(["row", "seed"])[TIMES].to_dict("index")
    shutil.rmtree(OLD / "cpu")
    for study, by_name in analyses.items():
        joined = {name: pd.concat(parts, ignore_index=True) for name, parts in by_name.items()}
        write_tables(joined, paths.analyses_folder(study))
    for study, by_name in tables.items():
        joined = {name: pd.concat(parts, ignore_index=True) for name, parts in by_name.items()}
        seeds = joined["cells"][["row", "scale", "seed"]].drop_duplicates()
        curves = joined["curves"]
        curves = curves.reindex(columns=[*dict.fromkeys([*curves, *ORIGIN])])
        lines = []
        for row, scale, seed in seeds.itertuples(index=False, name=None):
            line = describe_run(find_trained_run(row, scale), seed)
            own = curves[(curves["row"] == row) & (curves["scale"] == scale)]
            own = own[own["seed"] == seed]
            line |= {name: own[name].iloc[0] if len(own) else None for name in ORIGIN}
            line |= times.get((row, seed), {}) if scale != "gpu" else {}
            lines.append(line)
        joined["runs"] = pd.DataFrame(lines)
        joined["curves"] = curves.drop(columns=[name for name in ORIGIN if name in curves])
        write_tables(joined, paths.results_folder(study))
    move_variants()
    for profile in PROFILES:
        shutil.rmtree(OLD / profile, ignore_errors=True)
    for kind in ("models", "certificates"):
        for profile in ("cpu", "full", "long"):
            top = paths.REPORTS / kind / profile
            for path in sorted(top.glob("*/*")):
                target = paths.REPORTS / kind / path.name
                if profile != "cpu":
                    path.rename(target)
            shutil.rmtree(top, ignore_errors=True)
    for path in (paths.REPORTS / "models").glob("*/run.json"):
        path.unlink()


def find_trained_run(row: str, scale: str) -> Run:
    """Return the run whose results are in git."""
    run = load_run(row, scale)
    if (row, scale) == ("multiplication_coupled_scratchpad", "laptop"):
        # Trained with one layer (commit c0582619); the row has had two since.
        return run.model_copy(update={"model": {**run.model, "layers": 1}})
    return run


def move_variants() -> None:
    """Move the tables of sets of variants to those of rows."""
    found: dict[str, list] = defaultdict(list)
    for name, (reference, start) in SETS.items():
        (folder,) = OLD.glob(f"*/variants/{name}")
        for path in sorted(folder.glob("*.parquet")):
            if path.stem != "choices":
                table = pd.read_parquet(path)
                changed = reference + "_" + table["group"] + "_" + table["variant"].astype(str)
                changed = changed.where(table["group"] != "reference", reference)
                table["row"] = changed.map(lambda text: re.sub(r"\W", "_", text))
                found[path.stem].append(table.assign(scale="laptop", start=start))
    lengths, band, trained = (pd.concat(found[kind]) for kind in ("lengths", "band", "training"))
    # Kinds of mistakes in the band, and correct parts of responses, were not kept.
    cells = pd.concat([lengths[lengths["n"] > 0], band])
    cells = cells.assign(set="far", i=cells["digits"], j=cells["digits"])
    # Of a learning curve, the first of the last scores that are 1, and the last score.
    first = trained.dropna(subset="steps_to_999").assign(exact=1.0, loss=None)
    first["step"] = first["steps_to_999"].astype(int)
    curves = pd.concat([first, trained.assign(step=trained["steps"])])
    curves = curves.drop_duplicates(["row", "seed", "step"], keep="last")
    local = lengths.dropna(subset="local_attention").assign(n=locality.PROBLEMS)
    verdicts = trained.dropna(subset="verdict").fillna({"wrong": 0})
    for study in ("ablations", "selection"):
        results = {
            "cells": select(cells, study, SCORES["cells"], "digits"),
            "curves": select(curves, study, CURVES["curves"], "step"),
        }
        times = select(trained.assign(seconds=float("nan")), study, ("row", "seed", *TIMES))
        results["runs"] = pd.DataFrame([
            {**describe_run(load_run(row), seed), **dict(zip(TIMES, of, strict=True)),
             **dict.fromkeys(ORIGIN)}
            for row, seed, *of in times.itertuples(index=False, name=None)
        ])  # fmt: skip
        write_tables(results, paths.results_folder(study))
    tables = {
        "locality": select(
            local.rename(columns={"local_attention": "share"}), "ablations",
            locality.COLUMNS["locality"], "digits"),
        "verdicts": select(verdicts, "ablations", faults.COLUMNS["verdicts"]),
    }  # fmt: skip
    write_tables(tables, paths.analyses_folder("ablations"))


def select(table: pd.DataFrame, study: str, columns: tuple[str, ...], *by: str) -> pd.DataFrame:
    """Return some columns of the rows of a study, in the order of the study."""
    ranks = {row: index for index, row in enumerate(list_rows(study))}
    part = table[table["row"].isin(ranks)]
    part = part.assign(rank=part["row"].map(ranks)).sort_values(["rank", "seed", *by])
    part = part.reindex(columns=columns).reset_index(drop=True)
    counts = {name: int for name in (*KINDS, "contexts", "wrong")
              if name in part and part[name].notna().all()}  # fmt: skip
    return part.astype(counts)


if __name__ == "__main__":
    main()
