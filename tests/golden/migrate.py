"""Move the results of the former profiles to one folder for each study, with their settings.

Run once on the former layout: `python tests/golden/migrate.py`.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections import defaultdict
from pathlib import Path

import pandas as pd

from carry.config import paths
from carry.data.tables import write_tables
from carry.experiments.resolve import load_rows, load_run
from carry.runs.settings import describe_run

OLD = paths.REPORTS / "results"
PROFILES = ("full", "baselines", "long", "tuning", "gpu")  # the first has precedence
# Rows that two profiles have: for variants of them, on fewer problems.
LEFT_OUT = {("baselines", "addition_relative"), ("tuning", "addition_coupled")}
ORIGIN = ["device", "python", "torch", "numpy", "commit"]
RENAMED = {"profile": "scale"}


def main() -> None:
    rows = load_rows()
    golden = json.loads(gzip.open(Path(__file__).parent / "rows.json.gz").read())
    tables: dict[str, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    analyses: dict[str, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    taken: dict[tuple, str] = {}  # which profile a row and scale come from, by table
    timed = []
    for profile in PROFILES:
        folder = OLD / profile
        for file in sorted(folder.glob("*/*.parquet")) + sorted(folder.glob("analyses/*/*.parquet")):
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
    times = times.set_index(["row", "seed"])[["seconds", "core_seconds"]].to_dict("index")
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
            line = describe_run(load_run(row, scale), seed)
            own = curves[(curves["row"] == row) & (curves["scale"] == scale)]
            own = own[own["seed"] == seed]
            line |= {name: own[name].iloc[0] if len(own) else None for name in ORIGIN}
            line |= times.get((row, seed), {}) if scale != "gpu" else {}
            lines.append(line)
        joined["runs"] = pd.DataFrame(lines)
        joined["curves"] = curves.drop(columns=[name for name in ORIGIN if name in curves])
        write_tables(joined, paths.results_folder(study))
    for profile in PROFILES:
        for folder in sorted((OLD / profile / "variants").glob("*")):
            shutil.copytree(folder, OLD / "variants" / folder.name, dirs_exist_ok=True)
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


if __name__ == "__main__":
    main()
