"""Rows with one changed setting: they differ in it alone, and choose on lengths of their own."""

import pytest
import torch

from carry import analyses
from carry.analyses import locality
from carry.certificates.contexts import require_bounded_contexts
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation import trained_models
from carry.experiments.ablations import CHANGES
from carry.experiments.problems import find_problem_set
from carry.experiments.resolve import list_rows, load_run
from carry.models.hooks import Hooks
from carry.models.identity import identify, list_settings
from carry.models.system import System
from carry.runs.run import check_runs

STUDIES = {
    study: [load_run(row) for row in list_rows(study)] for study in ("ablations", "selection")
}
RUNS = {run.name: run for runs in STUDIES.values() for run in runs}
SETS = {study: problem_sets.draw_problem_set(study, find_problem_set(study)) for study in STUDIES}
# The rows that have the selected settings, by the reference of the first round.
SELECTED = {"selection_abacus": "addition_abacus_20", "selection_coupled": "addition_coupled_30"}


def test_a_row_changes_one_setting_of_its_reference():
    assert set(CHANGES) < set(RUNS)
    sections = {}
    for row, (reference, group) in CHANGES.items():
        assert reference not in CHANGES and RUNS[row].study == RUNS[reference].study
        before, after = ({place: value for place, value, _ in list_settings(RUNS[name])}
                         for name in (reference, row))  # fmt: skip
        places = {place for place in {*before, *after} if before.get(place) != after.get(place)}
        changed = {place.split(".")[0] for place in places if not place.startswith("evaluation")}
        assert len(changed) == 1, (row, places)
        assert sections.setdefault((reference, group), changed) == changed
    models = [identify(run) for run in RUNS.values()]
    assert all(model not in models[:index] for index, model in enumerate(models))


@pytest.mark.parametrize("study", STUDIES)
def test_all_rows_solve_the_same_problems(study):
    check_runs(STUDIES[study])
    for run in STUDIES[study]:
        asked = problem_sets.select_questions(run, SETS[study])
        sizes = set(asked["i"])
        assert {(size, size) for size in sizes} == {*run.evaluation.far_cells()}
        band = {*run.validation_band()} if study == "selection" else set()
        assert sizes & {*run.validation_band()} == band
        assert all(size % run.training.digits == 0 for size in sizes - band)
        same = SETS[study][SETS[study]["i"].isin(sizes)]
        assert asked.equals(same)


@pytest.mark.parametrize("reference", SELECTED)
def test_selected_rows_report_no_length_that_selected_their_settings(reference):
    run = load_run(SELECTED[reference])
    reported = {max(cell) for cell in run.evaluation.far_cells()}
    assert run.evaluation.band and min(reported) > run.training.digits
    chosen = {row for row, (parent, _) in CHANGES.items() if parent.startswith(reference)}
    for row in chosen | {reference}:
        assert not reported & set(problem_sets.select_questions(RUNS[row], SETS["selection"])["i"])


def can_enumerate(system):
    """Whether contexts can be enumerated in seconds."""
    try:
        require_bounded_contexts(system)
    except SettingsError:
        return False
    return all(sum(encoding.window) <= 2 for encoding in system.network.encodings)


def test_faults_are_searched_where_contexts_can_be_enumerated():
    for run in STUDIES["ablations"]:
        assert ("faults" in run.analyses) == can_enumerate(System(run, device="meta")), run.name


@pytest.mark.parametrize("row", ["ablation", "ablation_window_none", "ablation_ids_coupled"])
def test_attention_on_local_tokens(row, monkeypatch):
    run = RUNS[row]
    monkeypatch.setattr(
        problem_sets, "load_questions", lambda run: SETS["ablations"].groupby("i").head(3)
    )
    monkeypatch.setattr(trained_models, "load_seed", lambda run, seed: System(run, seed))
    table = analyses.analyse_seeds(locality, run.model_copy(update={"seeds": 2}))["locality"]
    assert (table["n"] == 3).all() and table["seed"].unique().tolist() == [0, 1]
    assert table["digits"].max() == 100, "longer sums have more tokens"
    shares = table[table["seed"] == 0].set_index("digits")["share"]
    if row != "ablation_window_none":  # all that the model sees
        assert (shares - 1).abs().max() < 1e-5
        return
    assert shares.is_monotonic_decreasing and shares[100] < 0.1
    system, means = System(run, 0), []
    part = SETS["ablations"].query("i == 6").head(3)
    for index in range(3):  # one problem, query and token at a time
        problem = problem_sets.to_problems(part.iloc[index : index + 1], system.task)
        batch, hooks = system.format.write(problem), Hooks(["*.pattern"])
        with torch.inference_mode():
            system.network.eval()(batch.tokens, system.ids(batch), hooks=hooks)
        ((pattern,),) = hooks.all_layers("pattern")
        place = batch.levels[0, :, 0].tolist()
        for query in range(int(batch.start) - 1, int(batch.length) - 1):
            local = [
                token
                for token in range(query + 1)
                if token == 0 or (place[token] >= 0 and place[token] - place[query] in (0, 1))
            ]
            means.append(float(pattern[:, query, local].sum(-1).mean()))
    assert shares[6] == pytest.approx(sum(means) / len(means), rel=1e-4)
