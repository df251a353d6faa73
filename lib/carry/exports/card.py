"""Model cards: what an exported model does, how well, how it is known, and where that ends.

The numbers come from the result tables and the certificates that the pipeline has written; the text
is that of card.md.jinja.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from carry.certificates.committed import describe_certificate
from carry.certificates.files import read_certificate
from carry.certificates.verification import hash_weights
from carry.config import paths
from carry.config.settings import SettingsError
from carry.config.templates import fill_template
from carry.data.problem_sets import to_table
from carry.data.tables import read_parquet
from carry.evaluation import trained_models
from carry.evaluation.intervals import add_interval, format_percent
from carry.evaluation.regions import (
    LEARNED,
    add_region,
    add_unseen_regions,
    score_worst_trained_size,
)
from carry.exports import CARD, check_folder, write_model
from carry.models.parameter_counts import count_network_parameters
from carry.models.system import System
from carry.randomness import stream

TEMPLATE = Path(__file__).parent / "card.md.jinja"
GROUP = ["start", "set", "region", "far"]  # one line of the card
# Settings of a run that say which it is, and what is done with its weights.
NOT_SHOWN = {"name", "study", "scale", "analyses", "certify", "publish"}


def export_model(system: System, folder: str | Path, with_snapshots: bool = False) -> Path:
    """Write a trained model, its settings and its model card to a folder, and return the folder.

    Args:
        with_snapshots: also write its weights during training.

    Raises:
        SettingsError: for a folder with files of another origin, for damaged results, and for a
            model without the snapshots that are asked for.
    """
    folder = Path(folder)
    check_folder(folder)
    snapshots = _find_snapshots(system) if with_snapshots else None
    scores, certificate = score_model(system, _read_cells(system)), find_certificate(system)
    steps = [*trained_models.read_snapshots(snapshots)] if snapshots else []
    card = make_card(system, scores, certificate, steps)
    write_model(system, folder, snapshots)
    paths.write_file(folder / CARD, card)
    return folder


def score_model(system: System, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy of a model by start of ids and kind of problems, and that of its row.

    Columns: `start`, `set` and `region` of the problems, their sizes `low_size` to `high_size`,
    `n` problems of which `exact` are right, `accuracy` with Wilson's interval `low` to `high`
    (95%), and the `median`, `least` and `most` accuracy of the row's `seeds`. Far sizes have a line
    each. `learned` says whether the model has learned its worst trained size from this start; it is
    missing if that is unknown. It is empty if the seed has no results in the `cells` of the row.
    """
    if cells.empty:
        return cells
    cells = add_region(cells)
    if system.run.data_set is not None:
        cells = add_unseen_regions(cells, {system.run.name: system.run.trained_lengths()})
    size = cells[["i", "j"]].max(axis=1)
    cells = cells.assign(size=size, far=size.where(cells["set"] == "far", 0))
    sizes = cells.groupby(GROUP, sort=False)["size"].agg(low_size="min", high_size="max")
    counts = cells.groupby([*GROUP, "seed"], sort=False)[["n", "exact"]].sum().reset_index()
    counts = add_interval(counts)
    spread = counts.groupby(GROUP, sort=False)["accuracy"].agg(
        median="median", least="min", most="max", seeds="size"
    )
    own = cells[cells["seed"] == system.seed].assign(row=system.run.name)
    learned = score_worst_trained_size(own).set_index("start")["learned"]
    scores = counts[counts["seed"] == system.seed].drop(columns="seed")
    scores = scores.join(sizes, on=GROUP).join(spread, on=GROUP).join(learned, on="start")
    return scores.drop(columns="far")


def find_certificate(system: System) -> dict[str, Any] | None:
    """Return the entry of exactly these weights in the certificate of their row, or None."""
    path = paths.certificate_file(system.run.name)
    if not path.exists():
        return None
    seeds, weights = read_certificate(path)["seeds"], hash_weights(system)
    return next((seed for seed in seeds if seed.get("weights") == weights), None)


def make_card(
    system: System,
    scores: pd.DataFrame,
    certificate: dict[str, Any] | None,
    snapshots: Sequence[int] = (),
) -> str:
    """Return the model card as Markdown, with the metadata of model hubs in front as YAML.

    Each accuracy of `score_model` is a result of the metadata's `model-index`. The certificate is
    that of this seed (`find_certificate`). `snapshots` are the steps whose weights are there too.

    >>> from carry.experiments.resolve import make_run
    >>> system = System(make_run({"task": {"name": "addition"}, "model": {"width": 8}}))
    >>> card = make_card(system, pd.DataFrame(), None)
    >>> [line for line in card.splitlines() if line.startswith("## ")]
    ['## Use', '## Accuracy', '## Exactness', '## Limits', '## Settings']
    """
    run = system.run
    ids = [str(pair["ids"]) for pair in run.positions]
    values = {
        "name": f"{run.name}, seed {system.seed}",
        "tags": [*dict.fromkeys(["arithmetic", "length-generalization", run.task["name"], *ids])],
        "kind": type(system.network).__name__.lower(),
        "parameters": count_network_parameters(system.network),
        "task": system.task,
        "size": system.task.unit.format(run.training.digits),
        "run": run,
        "seed": system.seed,
        "question": _ask_question(system),
        "scores": scores.to_dict("records"),
        "certificate": certificate and describe_certificate(certificate),
        "exact": certificate is not None and certificate["verdict"] == "exact",
        "learned": LEARNED,
        "has_learned": _has_learned(scores),
        "largest_ids": [system.largest_id(index) for index in range(len(system.schemes))],
        "settings": run.model_dump(mode="json", exclude=NOT_SHOWN, exclude_defaults=True),
        "percent": format_percent,
        "steps": snapshots,
    }
    return fill_template(TEMPLATE.read_text(encoding="utf-8"), values)


def _find_snapshots(system: System) -> Path:
    """Return the file with the snapshots of a model; refuse one that has none."""
    run, seed = system.run, system.seed
    path = trained_models.find_snapshots(run, seed)
    if not path.exists():
        state = "is in git without" if run.training.snapshot_every else "is trained without"
        raise SettingsError(
            f"export --snapshots: seed {seed} of {run.name} {state} snapshots; expected a row with "
            "training.snapshot_every that is trained here"
        )
    return path


def _read_cells(system: System) -> pd.DataFrame:
    """Return the results of a row by cell, without any where it is not evaluated."""
    run = system.run
    path = paths.results_folder(run.study) / "cells.parquet"
    if not path.exists():
        return pd.DataFrame()
    cells = read_parquet(path, f"results.{run.study}", "it as git has it")
    return cells[(cells["row"] == run.name) & (cells["scale"] == run.scale)]


def _ask_question(system: System) -> str:
    """Return the operands of one small question of the task, as arguments of `ask`."""
    problem = system.task.draw(1, min(3, system.run.training.digits), stream(0, "model card"))
    table = to_table("card", torch.zeros(1, 2), problem, system.task)
    return ", ".join(f'"{operand}"' for operand in table["operands"][0].split())


def _has_learned(scores: pd.DataFrame) -> bool:
    """Return whether the model has learned its trained sizes from any start, as far as known."""
    known = scores["learned"].dropna() if len(scores) else scores
    return known.empty or bool(known.any())
