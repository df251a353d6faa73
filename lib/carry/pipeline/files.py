"""Files that the pipeline publishes, and files that it removes because their row is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

from carry.config import paths, profiles
from carry.pipeline.stages import STAGES


def publish_weights(profile: str, row: str) -> Path:
    """Copy the weights of a row to reports/models/ROW, which is in git, and return that folder.

    One seed serves the notebooks. A certified row has all its seeds there, so that anyone can
    verify its certificates.
    """
    source = paths.data_path(profile, "runs", row)
    target = paths.reports_path(profile, "models", row)
    seeds = "seed_*" if row in STAGES["certify"].rows(profile) else "seed_0"
    for path in (source / "run.json", *sorted(source.glob(f"{seeds}.safetensors"))):
        with paths.write_atomically(target / path.name) as draft:
            shutil.copyfile(path, draft)
    return target


def prune_results(profile: str) -> list[Path]:
    """Delete the files of rows that the profile no longer has, and return their paths.

    Later stages read whole folders: without pruning they would go on reporting a removed row.
    The rows that remain are written to rows.txt, on which those stages depend.
    """
    settings = profiles.load_profile(profile)
    kept: dict[Path, set[str]] = {
        paths.reports_path(profile, "models"): {*settings["models"], *settings["certificates"]},
    }
    for stage in STAGES.values():
        if stage.section is None:
            continue
        rows = set(stage.rows(profile))
        for folder in (stage.executed(profile), *stage.folders(profile)):
            kept.setdefault(folder, set()).update(rows)
    kept[paths.reports_path(profile, "results", profile)] |= {paths.ANALYSES, paths.VARIANTS}
    removed = [
        path
        for folder, rows in kept.items()
        for path in sorted(folder.glob("*"))
        if path.name.split(".")[0] not in rows
    ]
    for path in removed:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    # The stages of figures depend on this folder, also in a profile without certificates.
    paths.reports_path(profile, "certificates").mkdir(parents=True, exist_ok=True)
    with paths.write_atomically(paths.data_path(profile, "rows.txt")) as draft:
        rows = STAGES["evaluate"].rows(profile)
        draft.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return removed
