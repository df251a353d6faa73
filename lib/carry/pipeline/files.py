"""Files that the pipeline publishes, and files that it removes because their study is gone."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from carry.config import paths, profiles
from carry.config.settings import SettingsError, describe, suggest_name
from carry.pipeline.stages import STAGES


def publish_weights(profile: str, study: str) -> list[Path]:
    """Copy the weights that a profile publishes of a study, and return their folders.

    One seed serves the notebooks. A certified row has all its seeds there, so that anyone can
    verify its certificates.

    Raises:
        SettingsError: for a study without published weights.
    """
    settings = profiles.load_profile(profile)
    certified = settings["certificates"]
    studies = {profiles.find_study(row): None for row in settings["models"]}
    if study not in studies:
        raise SettingsError(f"models: study {describe(study)} has none in profile {profile!r}, "
                            f"{suggest_name(study, studies)}")  # fmt: skip
    folders = []
    for row in settings["models"]:
        if profiles.find_study(row) != study:
            continue
        source = paths.run_folder(profile, study, row)
        target = paths.models_folder(profile, study, row)
        seeds = "seed_*" if row in certified else "seed_0"
        copy_files([source / "run.json", *sorted(source.glob(f"{seeds}.safetensors"))], target)
        folders.append(target)
    return folders


def copy_files(files: Iterable[Path], folder: Path) -> None:
    """Copy files into a folder, each atomically."""
    for file in files:
        with paths.write_atomically(folder / file.name) as draft:
            shutil.copyfile(file, draft)


def prune_results(profile: str) -> list[Path]:
    """Delete results of studies, sets and rows that a profile no longer has; return their paths.

    Later stages read whole folders, and DVC leaves the files of a stage that is gone. The results
    of a removed row go when the stage of its study writes its files again.
    """
    removed = []
    for stage in STAGES.values():
        if stage.parameter is None:
            continue
        kept = stage.items(profile)
        executed = sorted(stage.executed(profile).glob("*"))
        code = paths.data_path(profile, "code", "pipeline", stage.name)
        present = [*executed, *stage.list_results(profile), *sorted(code.glob("*"))]
        removed += [path for path in present if path.name.split(".")[0] not in kept]
    trained = STAGES["train"].items(profile)
    for folder in (paths.data_path(profile, "runs"), paths.data_path(profile, "code", "figures")):
        kept = trained if folder.name == "runs" else profiles.load_profile(profile)["figures"]
        present = sorted(folder.glob("*"))
        removed += [path for path in present if path.name.split(".")[0] not in kept]
    settings = profiles.load_profile(profile)
    for stage, rows in {
        **dict.fromkeys(("train", "evaluate"), settings["rows"]),
        "analyse": settings["analyses"],
        "certify": settings["certificates"],
    }.items():
        present = sorted(paths.jobs_folder(profile, stage).glob("*"))
        removed += [path for path in present if path.name not in rows]  # results that jobs keep
    for path in removed:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    # Stages of figures depend on these folders, also in a profile that writes nothing there.
    for folder in (
        paths.results_path(profile, "results"),
        paths.results_path(profile, "certificates"),
        paths.reports_path(profile, "figures"),
    ):
        folder.mkdir(parents=True, exist_ok=True)
    return removed
