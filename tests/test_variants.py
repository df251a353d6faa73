"""Variants differ from their row in the stated change only, and each is trained once."""

import math
import random
import shutil

import pandas as pd
import pytest
import torch

from carry import results, variants
from carry.config import paths, profiles
from carry.config.settings import SettingsError
from carry.evaluation.mock_models import ForgetsCarries, Oracle
from carry.jobs import executors
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.pages import dependencies
from carry.pipeline.stages import STAGES
from carry.tasks import to_digits
from carry.variants import REFERENCE, choice, jobs, seeds

NAME = "mine"
ABACUS = {"ids": "abacus", "encoding": "relative"}
GROUPS = {
    REFERENCE: {"row": {}},
    "window": {"none": {"positions": [ABACUS]}, "two": {"positions": [{**ABACUS, "window": 2}]}},
    "ids": {"learned": {"positions": [{"ids": "abacus", "encoding": "learned"}]}},
}
SMALL = {
    "training": {"digits": 2, "steps": 4, "batch": 4, "pool": 2, "score_every": 2},
    "model": {"width": 16, "heads": 2},
}
SCALE = {"seeds": 2, "times": [1, 2, 10], "problems": 12}
QUICK = {"seeds": 2, "times": [1], "problems": 2}
KNOWN, PROFILE = profiles.load_params(), profiles.load_profile("smoke")


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Return a function that defines the set of variants; files stay inside the test's folder."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)

    def give(groups=GROUPS, scale=SCALE, **more):
        known = {"row": "addition_relative", "base": SMALL, "groups": groups, **more}
        monkeypatch.setattr(profiles, "load_params", lambda: {**KNOWN, "variants": {NAME: known}})
        own = {"analyses": {}, "variant_sets": {NAME: scale}, "others": None}
        profile = {**PROFILE, **own}
        monkeypatch.setattr(profiles, "load_profile", lambda name: profile)

    give()
    return give


@pytest.fixture
def worked(monkeypatch):
    """Do all work in this process, and return the list of what has been done."""
    done = []

    def each(tasks, report):
        for task in tasks:
            executors.perform_task(report, task)
            variant, seed, _ = task.job.arguments
            done.append((f"{variant.group}.{variant.name}", seed))

    monkeypatch.setattr(executors, "execute", each)
    return done


ALL = [(f"{group}.{name}", seed) for group in GROUPS for name in GROUPS[group] for seed in (0, 1)]


def by_variant():
    return {f"{of.group}.{of.name}": of for of in variants.list_variants(NAME, "smoke")}


def system_of(variant):
    return System(by_variant()[variant].run)


@pytest.mark.parametrize("profile", profiles.find_profiles())
def test_every_variant_differs_from_its_row_and_from_all_others(profile):
    for name in STAGES["variants"].items(profile):
        found = variants.list_variants(name, profile)
        assert len({of.run.key() for of in found}) == len(found)
        changed = [of for of in found if of.change]
        assert changed and all(of.group != REFERENCE for of in changed)
        whole = next(of.run for of in found if of.group == REFERENCE).model_dump()
        for of in changed:
            own = of.run.model_dump()
            assert {key for key in own if own[key] != whole[key]} <= {*of.change, "evaluation"}


def test_tables(given, worked):
    folder, tables = jobs.run_variants(NAME, "smoke")
    assert folder == paths.variants_folder("smoke", NAME)
    assert sorted(worked) == sorted(ALL)
    for name, table in tables.items():
        assert list(table.columns) == list(jobs.COLUMNS[name])
        kept = results.read_variant_table("smoke", name)
        pd.testing.assert_frame_equal(kept, table)
        each = table[["group", "variant", "seed"]].drop_duplicates()
        assert [(f"{group}.{name}", seed) for group, name, seed in each.values] == ALL
    assert (tables["training"]["steps"] == 4).all() and (tables["training"]["loss"] > 0).all()
    lengths = tables["lengths"]
    assert lengths["digits"].tolist() == [2, 4, 20] * len(ALL)
    assert (lengths["low"] <= lengths["high"]).all()
    by_length = lengths.set_index(["variant", "times"]).sort_index()
    assert by_length.loc[("learned", 1), "n"].tolist() == [12, 12]
    ends = by_length.loc[("learned", 10)]  # beyond its table of ids
    assert ends["n"].tolist() == [0, 0] and ends["accuracy"].isna().all()
    assert ends[["low", "high"]].values.tolist() == [[0.0, 1.0]] * 2
    assert (by_length.drop("learned")["n"] == 12).all()


def list_kept():
    return sorted(paths.jobs_folder("smoke", "variants").rglob(seeds.FILE))


def test_what_was_killed_goes_on_and_ends_the_same(given, worked, monkeypatch):
    given(scale=QUICK)
    _, undisturbed = jobs.run_variants(NAME, "smoke")
    shutil.rmtree(paths.jobs_folder("smoke", "variants"))
    order, score = worked[:], seeds._score_length
    worked.clear()

    def killed(*asked):
        if len(worked) == 5:
            raise KeyboardInterrupt
        return score(*asked)

    monkeypatch.setattr(seeds, "_score_length", killed)
    with pytest.raises(KeyboardInterrupt):
        jobs.run_variants(NAME, "smoke")
    assert worked == order[:5]
    monkeypatch.setattr(seeds, "_score_length", score)
    _, tables = jobs.run_variants(NAME, "smoke")
    assert worked == order, "each once"
    for name, table in tables.items():
        timed = ["core_seconds"] if name == "training" else []
        pd.testing.assert_frame_equal(
            table.drop(columns=timed), undisturbed[name].drop(columns=timed)
        )


def test_a_variant_that_changes_is_worked_on_alone(given, worked):
    given(scale=QUICK)
    jobs.run_variants(NAME, "smoke")
    worked.clear()
    jobs.run_variants(NAME, "smoke")
    assert not worked
    three = {"window": {**GROUPS["window"], "two": {"positions": [{**ABACUS, "window": 3}]}}}
    given({**GROUPS, **three}, QUICK)
    _, tables = jobs.run_variants(NAME, "smoke")
    assert worked == [("window.two", 0), ("window.two", 1)]
    assert len(tables["training"]) == len(ALL)
    assert len(list_kept()) == len(ALL), "what is no longer asked for is gone"


DAMAGES = {
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "flipped": lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
    "not UTF-8": lambda data: b"\xff" * len(data),
    "other numbers": lambda data: data.replace(b'"n": 2', b'"n": 3', 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_result_is_trained_again_with_one_line_of_warning(damage, given, worked, capsys):
    given(scale={**QUICK, "only": ["window.none"]})
    _, undamaged = jobs.run_variants(NAME, "smoke")
    worked.clear()
    capsys.readouterr()
    file = list_kept()[1]
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    _, tables = jobs.run_variants(NAME, "smoke")
    assert len(worked) == 1
    warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(warnings) == 1 and "window/none/seed_1: " in warnings[0], warnings
    pd.testing.assert_frame_equal(tables["lengths"], undamaged["lengths"])
    jobs.run_variants(NAME, "smoke")
    assert len(worked) == 1


def test_other_problems_are_other_work(given, worked):
    given(scale={**QUICK, "seeds": 1, "only": ["window.none"]})
    jobs.run_variants(NAME, "smoke")
    given(scale={**QUICK, "seeds": 1, "only": ["window.none"], "problems": 3})
    _, tables = jobs.run_variants(NAME, "smoke")
    assert worked == [("window.none", 0)] * 2 and (tables["lengths"]["n"] == 3).all()


def test_all_variants_are_asked_the_same(given, worked, monkeypatch):
    asked, whole = {}, seeds.score_system

    def seen(system, table, *more):
        asked.setdefault(int(table["i"].max()), []).append(table)
        return whole(system, table, *more)

    monkeypatch.setattr(seeds, "score_system", seen)
    jobs.run_variants(NAME, "smoke")
    assert sorted(asked) == [2, 4, 20]
    for digits, tables in asked.items():
        first = tables[0]
        assert (first[["i", "j"]] == digits).all(axis=None)
        assert all(len(of) == digits for text in first["operands"] for of in text.split())
        assert all(first.equals(table) for table in tables)
    assert len(asked[2]) == len(ALL) and len(asked[20]) == len(ALL) - 2, "a table that ends"


def test_problems_have_a_limited_number_of_tokens(given):
    system = system_of("window.two")
    asked = variants.load_variant_set(NAME, "smoke").model_copy(update={"tokens": 200})
    tokens = system.format.extent(20).tokens
    assert 1 < seeds._count_problems(system, 20, asked) == 200 // tokens < asked.problems
    assert seeds._count_problems(system, 2000, asked) == 1, "one at least"


def test_what_a_format_cannot_write_is_missing(given):
    given({REFERENCE: {"row": {}}, "format": {"padded": {"format": {"pad_to": 6}}}})
    system, asked = system_of("format.padded"), variants.load_variant_set(NAME, "smoke")
    assert (
        seeds._count_problems(system, 4, asked) == 12
        and seeds._count_problems(system, 20, asked) == 0
    )


def test_a_model_without_a_window_is_not_asked_what_is_too_long_to_compare(given):
    asked = variants.load_variant_set(NAME, "smoke").model_copy(update={"dense": 40})
    for variant, counts in {"window.none": [12, 0], "window.two": [12, 12]}.items():
        assert [
            seeds._count_problems(system_of(variant), digits, asked) for digits in (4, 20)
        ] == counts
    plain = by_variant()["window.two"].run
    plain = plain.model_copy(update={"model": {**plain.model, "attention": "plain"}})
    assert seeds._count_problems(System(plain), 20, asked) == 0


def test_what_is_counted_is_what_is_right(given, monkeypatch):
    monkeypatch.setattr(seeds, "MAX_ATTENTION_TOKENS", 0)  # models made by hand have no attention
    asked, of = variants.load_variant_set(NAME, "smoke"), by_variant()["window.two"].run
    assert seeds._score_length(Oracle(of), NAME, 10, asked)["exact"] == 12
    assert seeds._score_length(ForgetsCarries(of), NAME, 10, asked)["exact"] == 0
    system = System(of)
    system.network.eval()
    table = seeds._draw_problems(system, 2, 12, seeds.stream(0, "ablations", NAME, 2))
    operands = torch.tensor([[int(text) for text in row.split()] for row in table["operands"]])
    answers = [int(text) for text in table["answer"]]
    assert operands.sum(1).tolist() == answers


def test_a_kept_number_is_that_of_one_pass(given, worked, monkeypatch):
    learns = {"training": {"digits": 1, "steps": 60, "batch": 64, "learning_rate": 0.02}}
    scale = {"seeds": 1, "times": [1], "problems": 200, "only": [REFERENCE]}
    given(scale=scale, base=profiles.merge_settings(SMALL, learns))
    systems, whole = [], seeds._score_length
    monkeypatch.setattr(
        seeds, "_score_length", lambda of, *more: systems.append(of) or whole(of, *more)
    )
    _, tables = jobs.run_variants(NAME, "smoke")
    (system,) = systems
    cells = torch.full((200, 2), 1)
    problems = system.task.draw_for_cells(cells, seeds.stream(0, "ablations", NAME, 1))
    exact = int(teacher_forced_pass(system, system.format.write(problems)).exact.sum())
    assert tables["lengths"]["exact"].tolist() == [exact] and exact > 0


BAND = {"seeds": 2, "times": [1, 2], "problems": 4, "band": 5}


def test_a_set_with_a_band_is_scored_on_it_and_chooses_by_it(given, worked, monkeypatch):
    tables_of, score = [], seeds.score_system
    monkeypatch.setattr(
        seeds, "score_system", lambda of, table, *more: tables_of.append(table) or
        score(of, table, *more)
    )  # fmt: skip
    given(scale=BAND)
    folder, tables = jobs.run_variants(NAME, "smoke")
    band, choices = tables["band"], tables["choices"]
    assert tuple(band.columns) == jobs.COLUMNS["band"]
    assert tuple(choices.columns) == choice.COLUMNS["choices"]
    assert sorted(path.stem for path in folder.glob("*")) == sorted(tables)
    assert band["digits"].tolist() == [3] * len(ALL), "trained to two digits"
    unscored = band["variant"] == "learned"  # beyond its table of ids
    assert (band["n"] == 5 * ~unscored).all() and (band["loss"].isna() == unscored).all()
    assert (band["loss"].dropna() > 0).all() and {*band["start"]} == {"1"}
    assert choices[["group", "variant"]].values.tolist() == [
        ["window", "row"], ["window", "none"], ["window", "two"], ["ids", "row"], ["ids", "learned"]
    ]  # fmt: skip
    assert choices.groupby("group")["chosen"].sum().tolist() == [1, 1]
    assert choices.query("group == 'ids' and chosen")["variant"].tolist() == ["row"]
    pd.testing.assert_frame_equal(choices, choice.choose_variants(band, tables["lengths"]))
    sizes = {(of["i"].max(), len(of)) for of in tables_of}
    assert sizes == {(2, 4), (3, 5), (4, 4)}, "no reported length is in the band"


def test_a_choice_depends_on_all_lengths_beyond_training():
    names = [(NAME, group, name, seed) for group in GROUPS for name in GROUPS[group]
             for seed in (0, 1, 2)]  # fmt: skip
    table = pd.DataFrame(names, columns=["variant_set", "group", "variant", "seed"]).assign(n=6)
    draws = random.Random(0)
    for _ in range(20):
        exact, loss = [draws.randint(0, 2) for _ in names], [draws.random() for _ in names]
        band = table.assign(exact=exact, loss=loss)
        farther = table.assign(times=2, exact=[draws.randint(0, 2) for _ in names])
        trained = table.assign(times=1, exact=[draws.randint(0, 6) for _ in names])
        choices = choice.choose_variants(band, pd.concat([trained, farther]))
        pd.testing.assert_frame_equal(choices, choice.choose_variants(band, farther))
        for _, part in choices.groupby("group"):
            (chosen,) = part[part["chosen"]].to_dict("records")
            score = part["band"] + part["beyond"]
            assert chosen["band"] + chosen["beyond"] == score.max()
            assert chosen["band_loss"] == part[score == score.max()]["band_loss"].min()


@pytest.mark.parametrize(
    ("variant", "start", "starts"), [("window.two", 2, [2]), ("ids.learned", "all", [1, 2])]
)
def test_the_loss_of_a_response_is_that_of_its_tokens_one_by_one(given, variant, start, starts):
    system, draws = system_of(variant), seeds.stream(0, "validation band", NAME, 1)
    system.network.eval()
    table, losses = seeds._draw_problems(system, 1, 3, draws), []  # two of the table's three ids
    for operands in table["operands"]:
        problem = system.task.solve(*to_digits([operands.split()]))
        batch = system.format.write(problem).trim()
        logits = [system.logits(batch, system.ids(batch, first)) for first in starts]
        shares = sum(values[0].detach().softmax(-1) for values in logits) / len(starts)
        tokens = batch.tokens[0].tolist()
        places = range(int(batch.start[0]), int(batch.length[0]))
        losses.append(-sum(math.log(shares[at - 1, tokens[at]]) for at in places))
    assert len({*losses}) == 3
    assert seeds.measure_loss(system, table, start) == pytest.approx(sum(losses) / 3, rel=1e-4)


def test_all_lengths_are_scored_from_the_start_of_the_set(given, worked, monkeypatch):
    starts, score = [], seeds.score_system
    monkeypatch.setattr(
        seeds, "score_system", lambda of, table, start, *more: starts.append(start) or
        score(of, table, start, *more)
    )  # fmt: skip
    given(scale={**BAND, "seeds": 1, "only": ["ids.learned"], "start": "all"})
    _, tables = jobs.run_variants(NAME, "smoke")
    assert {*starts} == {("all",)} and {*tables["band"]["start"]} == {"all"}
    asked = variants.load_variant_set(NAME, "smoke")
    for start, count in ((1, 4), (2, 0)):  # two digits need all three ids
        scale = asked.model_copy(update={"start": start})
        assert seeds._count_problems(system_of("ids.learned"), 2, scale) == count


def test_the_code_and_settings_of_a_set_of_variants(given):
    parts = STAGES["variants"].modules(NAME, "smoke")
    assert {"carry.models.encodings.relative", "carry.models.encodings.learned"} <= {*parts}
    before = STAGES["variants"].settings(NAME, "smoke")
    given(scale={**SCALE, "problems": 13})
    assert STAGES["variants"].settings(NAME, "smoke") != before
    given({**GROUPS, "window": {"two": GROUPS["window"]["two"]}})
    assert "window.none" in before
    assert "window.none" not in STAGES["variants"].settings(NAME, "smoke")


def groups(**changes):
    return {"groups": {REFERENCE: {"row": {}}, "mine": changes}}


HERE = "variants.mine"
# Sets of variants, and the beginning and words of the expected message.
CASES = {
    "unknown row": ({"row": "addition_relativ"}, f"{HERE}.row: ", ["'addition_relative'"]),
    "no row": ({"row": None}, f"{HERE}.row: ", ["None", "string"]),
    "unknown setting": ({"time": [1]}, f"{HERE}.time: ", ["'times'"]),
    "no group": ({"groups": {}}, f"{HERE}.groups: ", ["at least 1"]),
    "name that is a number": ({"groups": {"window": {1: {}}}}, HERE, ["1", "string"]),
    "change that is none": (groups(a=None), f"{HERE}.groups.mine.a: ", ["None"]),
    "unknown section": (groups(a={"modle": {}}), f"{HERE}.groups.mine.a.modle: ", ["'model'"]),
    "evaluation": (
        groups(a={"evaluation": {"digits": 9}}),
        f"{HERE}.groups.mine.a.ev",
        ["unknown"],
    ),
    "nothing changed": (groups(a={}), f"{HERE}.groups.mine.a: ", ["runs.addition_relative"]),
    "what the base says": (
        groups(a={"training": {"steps": 4}}),
        f"{HERE}.groups.mine.a: ",
        ["same settings as", "reference"],
    ),
    "two alike": (
        groups(a={"training": {"steps": 5}}, b={"training": {"steps": 5}}),
        f"{HERE}.groups.mine.b: ",
        [f"{HERE}.groups.mine.a"],
    ),
    "setting of training": (
        groups(a={"training": {"step": 5}}),
        f"{HERE}.groups.mine.a.training.step: ",
        ["'steps'"],
    ),
    "positions that do not build": (
        groups(a={"positions": [{"ids": "abacus", "encoding": "fire"}]}),
        f"{HERE}.groups.mine.a.positions.0.encoding: ",
        ["Fire", "'index'"],
    ),
    "model that does not build": (
        groups(a={"model": {"heads": 3}}),
        f"{HERE}.groups.mine.a.model",
        ["width 16", "heads 3"],
    ),
    "batched seeds": (
        groups(a={"training": {"batched_seeds": True}}),
        f"{HERE}.groups.mine.a.training",
        ["batched_seeds"],
    ),
    "base that does not build": (
        {"base": {"model": {"wdth": 3}}},
        f"{HERE}.base.model.wdth: ",
        ["'width'"],
    ),
    "no size between training and twice as much": (
        {"base": {"training": {"digits": 1}}, "band": 3},
        f"{HERE}.base.training.digits: ",
        ["1 has no validation band", "expected 2"],
    ),
    "section of the base": ({"base": {"modle": {}}}, f"{HERE}.base.modle: ", ["'model'"]),
}
SCALES = {
    "unknown group": ({"only": ["windw"]}, "variant_sets.mine.only: ", ["'windw'", "'window'"]),
    "unknown variant": ({"only": ["window.tow"]}, "variant_sets.mine.only: ", ["'window.two'"]),
    "unknown setting of scale": ({"seed": 3}, "variant_sets.mine.seed: ", ["'seeds'"]),
    "variants in a profile": ({"groups": {}}, "variant_sets.mine.groups: ", ["unknown setting"]),
    "times that are none": ({"times": [0]}, "variant_sets.mine.times.0: ", ["0", "greater"]),
    "no band": ({"band": -1}, "variant_sets.mine.band: ", ["-1", "greater"]),
    "start that is none": ({"start": "end"}, "variant_sets.mine.start: ", ["'end'", "'all'"]),
    "no seeds": ({"seeds": 0}, "variant_sets.mine.seeds: ", ["0", "greater"]),
    "no mapping": (None, "variant_sets.mine: ", ["None"]),
}


@pytest.mark.parametrize("case", [*CASES, *SCALES])
def test_bad_input_is_one_line(case, given):
    if case in CASES:
        more, begins, words = CASES[case]
        given(**more)
    else:
        scale, begins, words = SCALES[case]
        given(scale=scale)
    with pytest.raises(SettingsError) as error:
        variants.check_variant_set(NAME, "smoke")
    said = str(error.value)
    assert said.startswith(begins) and all(word in said for word in words), said
    assert "\n" not in said


def test_a_set_of_variants_is_checked_before_any_stage(given):
    given(groups=groups(a={})["groups"])
    with pytest.raises(SettingsError, match="^variants.mine.groups.mine.a: same settings as"):
        dependencies.check_rows("smoke")


def test_an_unknown_set_of_variants_is_refused(given, monkeypatch):
    with pytest.raises(
        SettingsError, match="variant_sets: 'min' is not in .* 'smoke', did you mean"
    ):
        variants.load_variant_set("min", "smoke")
    monkeypatch.setattr(profiles, "load_params", lambda: KNOWN)
    with pytest.raises(SettingsError, match="variant_sets: 'mine' is not in variants"):
        variants.load_variant_set(NAME, "smoke")
