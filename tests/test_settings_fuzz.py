"""Random mutations of params.yaml and a profile are accepted, or refused in one line.

Each mutation is written as text and read back, then checked as the stage `code` checks a profile.
CARRY_FUZZ sets the number of mutations (300).
"""

import json
import math
import os
import random
import time
from collections import Counter

import pytest

from carry.config import profiles, run_settings
from carry.config.settings import SettingsError
from carry.data.problem_sets import get_problem_set_name
from carry.formats.expression import Expression
from carry.formats.line import Line
from carry.formats.scratchpad import Scratchpad
from carry.models.architectures.adaptive import Adaptive
from carry.models.encodings.fire import Fire
from carry.models.encodings.learned import Learned
from carry.models.encodings.relative import Relative
from carry.models.encodings.sinusoidal import Sinusoidal
from carry.models.encodings.t5 import T5
from carry.models.system import System
from carry.pages import dependencies
from carry.positions.abacus import Abacus
from carry.positions.coupled import Coupled
from carry.positions.randomized import Randomized
from carry.randomness import stream
from carry.tasks.modular_addition import ModularAddition
from carry.tasks.multi_operand_addition import MultiOperandAddition

COUNT = int(os.environ.get("CARRY_FUZZ", 300))
SHARES = 10  # parts of the mutations, so that xdist can spread them
SLOWEST = 20.0  # seconds

# Rows of all kinds: tasks, formats, encodings, data sets, batched seeds, analyses, certificates.
ROWS = (
    "addition_abacus_fire",
    "addition_coupled",
    "addition_equal_abacus_adaptive",
    "addition_equal_learned_worded",
    "addition_equal_parts",
    "addition_five_digits",
    "addition_line_rows_relative",
    "addition_randomized_fire_hints",
    "addition_relative",
    "bitwise_or_abacus",
    "modular_addition_1000_binary",
    "multi_operand_addition_coupled_scratchpad",
    "multiplication_coupled_scratchpad",
    "noisy_majority_d8_a4_shapley",
    "parity_relative_scratchpad",
    "sorting_abacus_fire",
)

HUGE = (10**5, 10**6 + 1, 10**9, 2**31, 2**63 - 1, 10**30, -(10**12))
SMALL = (0, -1, 1, 2, 3, 7)
FLOATS = (0.0, -0.5, 0.5, 1.0, 1.5, 1e-300, 1e300, math.nan, math.inf, -math.inf)
TEXTS = ("", "addition", "middle", "x" * 20_000, "naïve", "a b; c", "../up", "1e3", "\n", "{}")
KEYS = ("widht", "", "x" * 5_000, "ünknown", "a.b", "like", "data_set", "name", "label")


# Names of parts and choices, also in sections where they are wrong.
NAMES = (
    *("addition", "multiplication", "sorting", "parity", "copying", "modular_addition"),
    *("multi_operand_addition", "bitwise_or", "noisy_majority", "reversing", "transformer"),
    *("expression", "scratchpad", "line", "worded", "sub_task", "labelled", "binary", "one_hot"),
    *("abacus", "coupled", "index", "randomized", "learned", "rope", "fire", "relative", "shaw"),
    *(
        "alibi",
        "t5",
        "sinusoidal",
        "none",
        "adaptive",
        "rms",
        "gathered",
        "equal",
        "muon",
        "cyclic",
    ),
)
POSITION_FIELDS = {"ids": None, "encoding": None} | {
    name: field
    for kind in (
        *(Abacus, Coupled, Randomized, Fire.Settings, Learned.Settings, Relative.Settings),
        *(Sinusoidal.Settings, T5.Settings),
    )
    for name, field in kind.model_fields.items()
}


class Raw(str):
    """Text that is written to the file as it is."""


RAW = tuple(
    map(Raw, ("2024-01-01", "2024-99-99", "0xffffffffffffffffffffff", "!!set {a}", "~", "&a [*a]"))
)


def write(value):
    """Return a value in YAML's flow style, which is JSON with a few words more."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        pairs = [
            f"{key if isinstance(key, Raw) else json.dumps(str(key))}: {write(item)}"
            for key, item in value.items()
        ]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(write, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return json.dumps(value)


def write_file(sections):
    """Return YAML text with a line for each entry of a section."""
    if not isinstance(sections, dict):
        return write(sections)
    lines = []
    for name, section in sections.items():
        if isinstance(section, dict) and section:
            lines.append(f"{name}:")
            lines += [f"  {key}: {write(value)}" for key, value in section.items()]
        else:
            lines.append(f"{name}: {write(section)}")
    return "\n".join(lines) + "\n"


def project(row):
    """Return params and profile with one row of the first profile that has it, and its needs."""
    params = profiles.load_params()
    name = next(name for name in ("smoke", "full", "gpu") if row in run_settings.list_rows(name))
    source = profiles.load_profile(name)
    chain = run_settings._chain(row, params["runs"])
    rows = [of for of in chain if of in source["rows"]]
    runs = [run_settings.load_run(of, name) for of in rows]
    names = sorted({get_problem_set_name(run) for run in runs})
    kept = {"base": params["base"], "runs": {name: params["runs"][name] for name in chain}}
    kept["studies"] = {"study": chain}
    kept["problems"] = {name: params["problems"][name] for name in names}
    profile = {"profile": "cpu", "root": ".", "reports": "reports", "results": "reports"}
    profile |= {"scale": source["scale"], "train": {"study": rows}}
    profile["rows"] = {name: source["rows"][name] for name in rows}
    profile["problems"] = {name: source["problems"][name] or {} for name in names}
    analyses = {key: value for key, value in source["analyses"].items() if key == row}
    profile["analyse"] = {"study": analyses} if analyses else {}
    sets = source["variant_sets"]
    profile["variant_sets"] = {key: value for key, value in sets.items() if key == row}
    if row in params["variants"]:
        groups = params["variants"][row]["groups"]
        few = {group: groups[group] for group in ("reference", "window", "reading")}
        kept["variants"] = {row: {**params["variants"][row], "groups": few}}
    profile["certify"] = {"study": [row]} if row in source["certificates"] else {}
    profile["models"] = {"study": [row]} if row in source["models"] else {}
    return kept, profile


def paths_of(value, path=()):
    """Return the paths of all values inside a tree of mappings and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in items:
        found.append((*path, key))
        if isinstance(item, dict | list):
            found += paths_of(item, (*path, key))
    return found


def random_value(rng, depth=0):
    kind = rng.randrange(9 if depth < 2 else 6)
    if kind == 0:
        return rng.choice(HUGE)
    if kind == 1:
        return rng.choice(SMALL)
    if kind == 2:
        return rng.choice(FLOATS)
    if kind == 3:
        return rng.choice(TEXTS)
    if kind == 4:
        return rng.choice((True, False, None))
    if kind == 5:
        return rng.choice(RAW)
    if kind == 6:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 7:
        return {rng.choice(KEYS): random_value(rng, depth + 1) for _ in range(rng.randrange(3))}
    value = random_value(rng, 2)
    return [value] * (2 if isinstance(value, str) else rng.choice((2, 50, 2000)))


def mutate_tree(rng, tree):
    """Change one value of a tree: replace, scale, delete, add or rename."""
    path = rng.choice(paths_of(tree))
    parent = tree
    for key in path[:-1]:
        parent = parent[key]
    key, kind = path[-1], rng.randrange(8)
    if kind <= 2:
        parent[key] = random_value(rng)
    elif kind == 3 and isinstance(parent[key], int | float):
        parent[key] = parent[key] * rng.choice((-1, 0, 10, 1000, 10**6, 10**12, 0.5, math.nan))
    elif kind == 4:
        del parent[key]
    elif kind == 5 and isinstance(parent, dict):
        parent[rng.choice((*KEYS, *RAW[:2]))] = random_value(rng)
    elif kind == 6 and isinstance(parent, dict):
        parent[rng.choice((f"{key}x", "a-b", "a.b", "a b", "$(ls)", "x" * 300))] = parent.pop(key)
    elif isinstance(parent[key], list):
        parent[key] = rng.choice((parent[key] * 2, parent[key][:1], list(reversed(parent[key]))))
    else:
        parent[key] = random_value(rng)


def mutate_setting(rng, tree):
    """Set a setting that exists to a value that is nearly plausible."""
    rows = [tree[section] for section in ("runs", "rows") if section in tree]
    found = [*rows[0].values()] if rows and isinstance(rows[0], dict) else []
    row = rng.choice([*found, tree.get("base", tree.get("scale"))])
    if not isinstance(row, dict):
        return
    kinds = {
        "task": MultiOperandAddition.model_fields | ModularAddition.model_fields,
        "format": Expression.model_fields | Line.model_fields | Scratchpad.model_fields,
        "model": Adaptive.Settings.model_fields,
        "training": run_settings.Training.model_fields,
        "evaluation": run_settings.Evaluation.model_fields,
        "positions": POSITION_FIELDS,
    }
    section = rng.choice([*kinds])
    field = rng.choice(["name", *kinds[section]])
    value = rng.choice(
        (
            *(rng.choice(HUGE), rng.choice(SMALL), rng.choice(SMALL), rng.choice(FLOATS), None),
            *(rng.choice((True, False)), rng.choice(NAMES), [rng.choice(SMALL), rng.choice(SMALL)]),
            *([rng.choice(SMALL + HUGE)] * rng.choice((1, 2, 3)), [[rng.choice(SMALL)] * 3]),
            *(rng.randrange(1, 200), rng.randrange(1, 5000), rng.random()),
        )
    )
    target = row.setdefault(section, [] if section == "positions" else {})
    if isinstance(target, list) and target:
        target = rng.choice(target)
    if isinstance(target, dict):
        target[field] = value


def mutate_text(rng, text):
    """Damage a text: repeat, delete or exchange lines and characters, or insert syntax."""
    lines, kind = text.split("\n"), rng.randrange(5)
    at = rng.randrange(len(lines))
    if kind == 0:
        return "\n".join([*lines[: at + 1], *lines[at:]])  # a duplicate key
    if kind == 1:
        return "\n".join(lines[:at] + lines[at + 1 :])
    place = rng.randrange(len(text))
    if kind == 2:
        return text[:place] + text[place + rng.randrange(1, 40) :]
    if kind == 3:
        inserted = rng.choice(("\t", ":", "{", "]", "\x00", "&a ", "*a", "[" * 600, "'", "%", "- "))
        return text[:place] + inserted + text[place:]
    return "\n".join(
        [*lines[:at], f"  {rng.choice(TEXTS)}: {write(random_value(rng))}", *lines[at:]]
    )


def mutation(seed):
    """Return the texts of params.yaml and a profile with one to three random changes."""
    rng = random.Random(seed)
    params, profile = project(rng.choice(ROWS))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        mutate = rng.choice((mutate_tree, mutate_setting, mutate_setting))
        mutate(rng, rng.choice((params, profile)))
    texts = [write_file(params), write_file(profile)]
    if rng.random() < 0.2:
        which = rng.randrange(2)
        texts[which] = mutate_text(rng, texts[which])
    return texts


def build_batch(profile):
    """Write one small batch of each accepted row, with ids that its tables must contain."""
    for row in run_settings.list_rows(profile):
        run = run_settings.load_run(row, profile)
        model = {"width", "layers", "heads", "hidden", "head_width"} & {*run.model}
        large = [run.training.digits, *(run.model[key] or 1 for key in model)]
        if max(large) > 300 or "scratchpad" in run.format.get("name", "") and large[0] > 20:
            continue
        system = System(run, device="meta")
        problems = system.task.draw(4, run.training.digits, stream(0, "fuzz"))
        batch = system.format.write(problems)
        for encoding, ids in zip(
            system.network.encodings, system.train_ids(batch, stream(0, "ids")), strict=True
        ):
            assert encoding.limit is None or int(ids.max()) <= encoding.limit


def outcome(texts, folder):
    """Return "accepted" or the refusal of a mutated project."""
    (folder / "profiles/cpu").mkdir(parents=True, exist_ok=True)
    for name, text in zip(("params.yaml", "profiles/cpu/profile.yaml"), texts, strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    try:
        dependencies.check_rows("cpu")
        build_batch("cpu")
    except SettingsError as error:
        return str(error)
    return "accepted"


@pytest.mark.parametrize("share", range(SHARES))
def test_mutations_are_accepted_or_refused_in_one_line(share, tmp_path, monkeypatch):
    seeds = range(share, COUNT, SHARES)
    mutations = [mutation(seed) for seed in seeds]
    monkeypatch.setattr(profiles, "ROOT", tmp_path)
    counts = Counter()
    for seed, texts in zip(seeds, mutations, strict=True):
        started = time.process_time()
        try:
            message = outcome(texts, tmp_path)
        except Exception as error:
            pytest.fail(f"mutation {seed}: {type(error).__name__}: {str(error)[:2000]}")
        seconds = time.process_time() - started
        assert seconds < SLOWEST, f"mutation {seed}: {seconds:.0f} s: {message}"
        counts["accepted" if message == "accepted" else "refused"] += 1
        if message != "accepted":
            assert "\n" not in message and len(message) < 500, message
            place, colon, problem = message.partition(": ")
            assert colon and place and problem, message
    print(dict(counts))
    assert counts["refused"] > counts["accepted"] / 4  # mutations do reach the checks


def test_the_projects_without_mutations_are_accepted(tmp_path, monkeypatch):
    texts = {row: [write_file(part) for part in project(row)] for row in ROWS}
    monkeypatch.setattr(profiles, "ROOT", tmp_path)
    for row, files in texts.items():
        assert outcome(files, tmp_path) == "accepted", row
