"""Write the goldens: what the change to experiments as objects must leave as it is.

rows.json        all settings of each row at each profile
problems.json    all problem sets of each profile, the set of each row, and the rows of each stage
hashes.json      by what it is: problem sets, and for each row the weights before the first step,
                 its fixed data set, its first two batches with their ids, and committed weights

They stay in git until the change is complete. Run it as `python tests/golden/write.py`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from pathlib import Path

import pandas as pd
import torch

from carry.config import paths, profiles, run_settings
from carry.data import problem_sets
from carry.data.training_batches import TrainingBatches
from carry.models.system import System
from carry.randomness import stream

FOLDER = Path(__file__).parent
LARGE = ("gpu", "paper")  # their models and data sets are too large for a laptop
# What a profile chooses.
CHOICES = ("studies", "analyses", "certificates", "models", "variant_sets", "figures",
           "counterparts", "order")  # fmt: skip


def digest(*tensors: torch.Tensor | None) -> str:
    """Return a hash of tensors with their types and shapes."""
    total = hashlib.sha256()
    for tensor in tensors:
        if tensor is not None:
            total.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            total.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()[:16]


def hash_row(run: run_settings.Run, profile: str) -> dict[str, str]:
    """Return the hashes of what a run starts from."""
    large = profile in LARGE or (run.training.examples or 0) > 1_000_000
    system = System(run, device="meta" if large else "cpu")
    hashes = {}
    if not large:
        state = system.network.state_dict()
        hashes["weights"] = digest(*(state[name] for name in sorted(state)))
        training = run.training
        batches = TrainingBatches(run, system.task, system.format, stream(0, "problems"))
        if batches.problems is not None:
            problems = batches.problems
            hashes["data"] = digest(problems.operands, problems.answer, batches.sub_tasks)
        draws = stream(0, "ids")
        for index in range(2):
            batch = batches.next(training.batch)
            if training.packing and index:
                batch, ids = system.pack(batch, draws)
            else:
                ids = system.train_ids(batch, draws)
            hashes[f"batch {index}"] = digest(batch.tokens, *ids)
    return hashes


def list_problems() -> dict[str, dict]:
    """Return by profile all problem sets, the set of each row, and what the profile chooses."""
    chosen = {name: profiles.load_profile(name) for name in profiles.find_profiles()}
    return {
        "sets": {
            profile: {
                name: problem_sets.load_problem_set(name, profile).model_dump()
                for name in settings["problems"]
            }
            for profile, settings in chosen.items()
        },
        "rows": {
            profile: {
                row: problem_sets.get_problem_set_name(run_settings.load_run(row, profile))
                for row in run_settings.list_rows(profile)
            }
            for profile in chosen
        },
        "profiles": {
            profile: {key: settings[key] for key in CHOICES} for profile, settings in chosen.items()
        },
    }


def write_packed(name: str, content: dict, **options: bool) -> None:
    """Write JSON, compressed to the same bytes each time."""
    with gzip.GzipFile(FOLDER / f"{name}.json.gz", "w", mtime=0) as file:
        file.write(json.dumps(content, indent=1, **options).encode())


def main() -> None:
    rows, hashes = {}, {"problems": {}, "rows": {}, "files": {}}
    for profile in profiles.find_profiles():
        rows[profile] = {}
        for row in run_settings.list_rows(profile):
            run = run_settings.load_run(row, profile)
            rows[profile][row] = {**run.model_dump(), "label": run.label}
            hashes["rows"][f"{profile} {row}"] = hash_row(run, profile)
        print(profile, len(rows[profile]), file=sys.stderr)
        for name in profiles.load_profile(profile)["problems"]:
            if profile not in LARGE:
                settings = problem_sets.load_problem_set(name, profile)
                table = problem_sets.draw_problem_set(name, settings)
                values = pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes()
                key = hashlib.sha256(values).hexdigest()[:16]
                hashes["problems"][f"{profile} {name}"] = key
    for path in sorted((paths.ROOT / "reports").rglob("*.safetensors")):
        key = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        hashes["files"][path.relative_to(paths.ROOT).as_posix()] = key
    write_packed("rows", rows, sort_keys=True)
    write_packed("problems", list_problems())
    (FOLDER / "hashes.json").write_text(json.dumps(hashes, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
