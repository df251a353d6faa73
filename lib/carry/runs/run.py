"""Train, evaluate, analyse and certify: as stages of the pipeline, or rows by name."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from carry import analyses
from carry.certificates import contexts
from carry.certificates.files import write_certificate
from carry.certificates.jobs import certify_runs
from carry.config import params, paths
from carry.config.settings import SettingsError, check_known
from carry.data import problem_sets
from carry.evaluation.intervals import format_percent, pool_cells
from carry.evaluation.jobs import evaluate_runs
from carry.evaluation.regions import add_region, add_unseen_regions
from carry.evaluation.trained_models import find_weights
from carry.experiments import load_rows
from carry.experiments.resolve import describe_scales, list_rows, load_run, name_place
from carry.experiments.run import Run
from carry.jobs import run_jobs, store
from carry.models.system import System
from carry.processes import count_cores
from carry.runs import tables
from carry.training.jobs import DEADLINE, list_training_jobs, train_runs
from carry.training.loop import OutOfTime

LEAST_SECONDS = 60.0  # before the end of the time, for a seed to begin or to be scored
NOTEBOOK = "notebook"  # the scale of a stage's notebook that is opened on its own


# ---- Stages --------------------------------------------------------------------------------------


def choose_runs(scale: str | None = None) -> list[Run]:
    """Return the runs that params.yaml trains, at its scale and with its seeds; all are checked.

    With the scale `notebook` they are all rows that have it. A study or a row that does not exist,
    and a study without a row at the scale are refused, as is a setting that does not fit.
    """
    if scale == NOTEBOOK:
        return [load_run(row, NOTEBOOK) for row in list_rows(scale=NOTEBOOK)]
    chosen = params.load_params()
    runs = [run for study in chosen.train for run in _choose_rows(study, chosen)]
    # Rows of the file that are not trained: figures read their settings.
    others = {name: load_rows()[name].scales for name in (*chosen.rows, *chosen.override)}
    check_runs([*runs, *(load_run(name, next(iter(of))) for name, of in others.items() if of)])
    return runs


def _choose_rows(study: str, chosen: params.Params) -> list[Run]:
    """Return the runs of a study that params.yaml trains."""
    place = f"params.yaml.train.{study}"
    check_known(study, {row.study for row in load_rows().values()}, "params.yaml.train")
    every = [row.name for row in load_rows().values() if row.study == study]
    rows = list_rows(study, chosen.scale)
    named = rows if chosen.train[study] == "all" else chosen.train[study]
    for row in named:
        check_known(row, every, place)
    runs = [load_run(row, chosen.scale) for row in rows if row in named]
    if not runs:
        raise SettingsError(f"{place}: no row has the scale {chosen.scale!r}; expected one of "
                            f"{describe_scales(study)}")  # fmt: skip
    return [
        run.model_copy(update={"seeds": min(run.seeds, chosen.seeds or run.seeds)}) for run in runs
    ]


def check_runs(runs: Sequence[Run]) -> None:
    """Refuse the first run with a setting that does not fit, before any work starts."""
    for run in runs:
        with name_place(run.name):
            system = System(run, device="meta")
            list_training_jobs(run, [])
            _check_problem_set(run)
            analyses.load_analyses(run)
            if run.certify:
                contexts.require_bounded_contexts(system)


def _check_problem_set(run: Run) -> None:
    """Refuse a run without problems on which it is scored, and say where these are written."""
    try:
        problem_sets.check_problem_set(run)
    except SettingsError as error:
        raise SettingsError(f"{error}; all sets: lib/carry/experiments/problems.py") from None


def choose_trained(scale: str | None = None) -> list[Run]:
    """Return the runs of `choose_runs`.

    Those of the scale `notebook` have the settings of the weights in git, and their own evaluation
    and seeds: a notebook that is opened on its own scores the weights in git on few problems.
    """
    runs = choose_runs(scale)
    if scale != NOTEBOOK:
        return runs
    return [
        load_run(run.name).model_copy(
            update={name: getattr(run, name) for name in ("scale", "seeds", "evaluation")}
        )
        for run in runs
    ]


def train(runs: Sequence[Run]) -> pd.DataFrame:
    """Train runs; copy the results to data/trained, and return the learning curves."""
    curves = train_runs(runs, label="training")
    if runs[0].scale != NOTEBOOK:
        shutil.rmtree(paths.TRAINED, ignore_errors=True)
        for run in runs:
            for job, _ in list_training_jobs(run):
                shutil.copytree(job.place, paths.TRAINED / run.name / job.place.name)
    return curves


def _copy_weights(run: Run, seeds: int, folder: Path) -> None:
    for seed in range(seeds):
        source = find_weights(run, seed)
        with paths.write_atomically(folder / source.name) as draft:
            shutil.copyfile(source, draft)


def evaluate(runs: Sequence[Run]) -> dict[str, pd.DataFrame]:
    """Score runs, and add their tables and settings to those of their studies in git."""
    if runs[0].scale == NOTEBOOK:
        return evaluate_runs(runs, label="evaluation")
    return _score(runs, None, "evaluation")


def analyse(runs: Sequence[Run]) -> dict[str, pd.DataFrame]:
    """Run the analyses of runs, and add their tables to those of their studies in git."""
    if runs[0].scale == NOTEBOOK:
        return analyses.analyse_runs(runs, "analyses")
    return _analyse(runs, "analyses")


def certify(runs: Sequence[Run]) -> dict[str, dict]:
    """Certify the runs that say so, and return the certificates.

    They are written to data/certificates: those in git belong to the weights in git.
    """
    certificates = _certify([run for run in runs if run.certify], "certificates")
    if runs[0].scale != NOTEBOOK:
        folder = paths.ROOT / "data" / "certificates"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for row, certificate in certificates.items():
            write_certificate(folder / f"{row}.json", certificate)
    return certificates


def _certify(runs: Sequence[Run], label: str) -> dict[str, dict]:
    weights = {}
    for run in runs:
        weights[run.name] = run, [find_weights(run, seed) for seed in range(run.seeds)]
    return certify_runs(weights, label) if runs else {}


def _score(runs: Sequence[Run], seeds: Sequence[int] | None, label: str) -> dict[str, pd.DataFrame]:
    """Score runs, and add their tables to those of their studies in git.

    Seeds with other settings than these leave the tables: a row has one set of settings.
    """
    curves = train_runs(runs, seeds, label)  # is kept
    scored = {**evaluate_runs(runs, seeds, label), "curves": curves}
    trained = [
        (run, seed, job)
        for run in runs
        for job, trained in list_training_jobs(run, seeds)
        for seed in trained
        if seeds is None or seed in seeds
    ]
    scored["runs"] = tables.describe_runs(trained)
    seeds_of = [(run, seed) for run, seed, _ in trained]
    outdated = []
    for run in runs:
        outdated += [(run, seed) for seed in tables.list_outdated(run)]
        new = {seed for of, seed in seeds_of if of is run}
        if left := sorted(tables.list_outdated(run) - new):
            print(f"{run.name}: {_name_seeds(left)} had other settings, and left the tables")
    _add_tables(scored, seeds_of + outdated, paths.results_folder)
    _add_tables({}, outdated, paths.analyses_folder)
    return scored


def _analyse(runs: Sequence[Run], label: str) -> dict[str, pd.DataFrame]:
    runs = [run for run in runs if run.analyses]
    found = analyses.analyse_runs(runs, label) if runs else {}
    seeds = [(run, seed) for run in runs for seed in range(run.seeds)]
    _add_tables(found, seeds, paths.analyses_folder)
    return found


def _add_tables(
    found: dict[str, pd.DataFrame],
    seeds: Sequence[tuple[Run, int]],
    folder: Callable[[str], Path],
) -> None:
    """Add tables of seeds of runs to those in git, each line to the folder of its study."""
    studies = {run.name: run.study for run, _ in seeds}
    for study in dict.fromkeys(studies.values()):
        own = {name: table[table["row"].map(studies) == study] for name, table in found.items()}
        places = {(run.name, run.scale, seed) for run, seed in seeds if run.study == study}
        tables.add_lines(own, folder(study), places)


# ---- Rows by name --------------------------------------------------------------------------------


def run_rows(
    names: Sequence[str],
    scale: str = "laptop",
    seeds: Sequence[int] | None = None,
    minutes: float | None = None,
) -> None:
    """Train and score what has no results in git, and add it there; then analyse and certify.

    Every row gets its first seed before any row gets its second.

    Args:
        names: rows or studies.
        seeds: only these seeds (default: all of each row).
        minutes: stop at a checkpoint after this time (default: when all is done); the next call
            goes on from there.

    Raises:
        SettingsError: for an unknown name, scale or seed, and for a setting that does not fit.
    """
    paths.require_writable()
    runs = list(find_runs(names, scale))
    check_runs(runs)
    for run in runs:
        for seed in set(seeds or ()) - {*range(run.seeds)}:
            raise SettingsError(f"{run.name}: no seed {seed}; expected 0 to {run.seeds - 1}")
    end = time.time() + 60 * minutes if minutes else None
    if end:
        os.environ[DEADLINE] = str(end)  # workers are started after this
    try:
        while batch := _choose_seeds(runs, seeds):
            if end and end - time.time() < LEAST_SECONDS:
                break
            _train_and_score(batch, end)
    except OutOfTime as error:
        print(error, flush=True)
    finally:
        os.environ.pop(DEADLINE, None)
    for run in runs:
        missing = _list_missing(run, seeds)
        if not missing and seeds is None:
            _finish(run)
        done = "all seeds" if seeds is None else _name_seeds(seeds)
        state = f"missing: {', '.join(map(str, missing))}" if missing else done
        print(f"{run.name}: {state} in {paths.display_path(paths.results_folder(run.study))}")


def find_runs(names: Sequence[str], scale: str) -> Iterator[Run]:
    """Yield the runs of rows and studies at a scale; other names are refused."""
    rows = load_rows()
    studies = dict.fromkeys(row.study for row in rows.values())
    for name in names:
        if name in studies:
            chosen = list_rows(name, scale)
            if not chosen:
                raise SettingsError(f"run: no row of {name!r} has the scale {scale!r}; "
                                    f"expected one of {describe_scales(name)}")  # fmt: skip
            yield from (load_run(row, scale) for row in chosen)
        else:
            check_known(name, [*rows, *studies], "run")
            yield load_run(name, scale)


def _list_missing(run: Run, seeds: Sequence[int] | None) -> list[int]:
    done = tables.list_done(run)
    return [seed for seed in (range(run.seeds) if seeds is None else seeds) if seed not in done]


def _choose_seeds(runs: Sequence[Run], seeds: Sequence[int] | None) -> list[tuple[Run, list[int]]]:
    """Return what runs at once: the lowest missing seed of each row, and more for idle cores.

    Seeds that are trained as one computation are never parted.
    """
    missing = {run.name: _list_missing(run, seeds) for run in runs}
    levels = sorted({seed for waiting in missing.values() for seed in waiting})
    chosen: dict[str, list[int]] = {run.name: [] for run in runs}
    for level in levels:
        if sum(map(len, chosen.values())) >= (count_cores() if level > levels[0] else 1):
            break
        for run in runs:
            if level in missing[run.name] and level not in chosen[run.name]:
                batched = run.training.batched_seeds
                chosen[run.name] += missing[run.name] if batched else [level]
    return [(run, chosen[run.name]) for run in runs if chosen[run.name]]


def _train_and_score(batch: Sequence[tuple[Run, list[int]]], end: float | None) -> None:
    """Train seeds of several rows side by side; add the results of each as it ends."""
    jobs = [job for run, seeds in batch for job, _ in list_training_jobs(run, seeds)]
    run_jobs(jobs, f"{len(batch)} rows" if len(batch) > 1 else batch[0][0].name)
    for run, seeds in batch:
        if end and end - time.time() < LEAST_SECONDS:
            return
        cells = _score([run], seeds, run.name)["cells"]
        print(f"{run.name}: {_name_seeds(seeds)}: {describe_accuracy(cells, run)}", flush=True)


def _name_seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def describe_accuracy(cells: pd.DataFrame, run: Run) -> str:
    """Return the accuracy of a run in and out of distribution, from the first start.

    The regions are those of `carry.evaluation.regions`.

    >>> cells = pd.DataFrame({"row": "mine", "start": "1", "set": ["grid", "far"], "i": [3, 99],
    ...                       "j": [3, 99], "trained": 5, "n": 20, "exact": [20, 3]})
    >>> describe_accuracy(cells, Run(name="mine"))
    'in distribution 100%, far 15.0%'
    """
    cells = add_region(cells[cells["start"] == cells["start"].iloc[0]])
    if run.data_set is not None:
        cells = add_unseen_regions(cells, {run.name: run.trained_lengths()})
    regions = pool_cells(cells, ["region"])
    shares = regions[["region", "accuracy"]].itertuples(index=False)
    return ", ".join(f"{region} {format_percent(share)}%" for region, share in shares)


def _finish(run: Run) -> None:
    """Analyse and certify a run of which all seeds are there, if they were trained here.

    Weights and certificates in git are those of the scale `laptop`.
    """
    trained = [job.place for job, _ in list_training_jobs(run)]
    if any(store.find_fault(place) for place in trained):
        return
    _analyse([run], run.name)
    if run.scale != "laptop":
        return
    if run.publish:
        _copy_weights(run, run.seeds if run.certify else 1, paths.models_folder(run.name))
    if run.certify:
        certificate = _certify([run], run.name)[run.name]
        write_certificate(paths.certificate_file(run.name), certificate)
