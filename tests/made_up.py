"""Result tables made up for tests: as evaluation writes them, with accuracies that we choose."""

import functools
import itertools

import numpy as np
import pandas as pd

import made_up_lengths as alike
from carry.config import profiles
from carry.evaluation.intervals import add_interval
from carry.evaluation.mistakes import KINDS
from carry.interpretability.carry_subtasks import SUBTASKS
from made_up_columns import ORDER

# How far each row goes, as a multiple of the training lengths, and from which start.
REACH = {
    "addition_nope": 1.05,
    "addition_learned": 1.0,
    "addition_rope": 1.05,
    "addition_fire": 1.2,
    "addition_abacus": 1.7,
    "addition_coupled": 3.2,
    "addition_abacus_looped": 2.1,
    "addition_abacus_fire": 1.9,
    "addition_relative": 1e9,
}
# Rows whose start matters.
TABLES = [*(row for row in REACH if "abacus" in row or "coupled" in row), "addition_coupled_short"]
STARTS = ("1", "best", "all")


def accuracy(reach, longest, trained, seed):
    """Fall from one to nothing around the reach, which differs from seed to seed."""
    middle = trained * reach * (1 + 0.08 * (seed - 1)) + 0.5
    return 1 / (1 + np.exp(np.minimum((longest - middle) / (0.06 * middle), 50)))


def cells(rows=REACH, trained=10, grid=30, each=20, equal=200, far=None, seeds=3, share=None):
    """Return accuracy by cell; `share(row, longest, seed, start)` may say what is right."""
    random = np.random.default_rng(0)
    lengths = [("grid", i, j, each) for i in range(1, grid + 1) for j in range(1, grid + 1)]
    lengths += [("equal", i, i, equal) for i in range(1, grid + 1)]
    found = []
    for row in rows:
        beyond = far if far is not None else {100: 1000, 1000: 100}
        own = lengths + [("far", i, i, n) for i, n in beyond.items() if row == "addition_relative"]
        for seed in range(seeds):
            for start in STARTS if row in TABLES else ("1",):
                for kind, i, j, n in own:
                    reach = REACH.get(row, 1.3) * (0.8 if start == "1" else 1.0)
                    right = share(row, max(i, j), seed, start) if share else None
                    right = accuracy(reach, max(i, j), trained, seed) if right is None else right
                    exact = random.binomial(n, right)
                    wrong = random.multinomial(n - exact, [0.3, 0.1, 0.2, 0.05, 0.25, 0.1])
                    found.append([row, "cpu", seed, trained, start, kind, i, j, n, exact, *wrong])
    names = ["row", "profile", "seed", "trained", "start", "set", "i", "j", "n", "exact", *KINDS]
    table = add_interval(pd.DataFrame(found, columns=names))
    return table.assign(first_right=table["n"], digits_right=np.nan)


def places(rows=REACH, trained=10, grid=30, n=200, seeds=3):
    """Return accuracy by place of equal lengths, worse at the higher places."""
    random = np.random.default_rng(1)
    found = []
    for row in rows:
        for seed in range(seeds):
            for start in STARTS if row in TABLES else ("1",):
                for digits in range(1, grid + 1):
                    right = accuracy(REACH.get(row, 1.3), np.arange(digits + 1), trained, seed)
                    right = (
                        np.maximum(right, 0.1) if digits > trained * REACH.get(row, 1.3) else right
                    )
                    for place, share in enumerate(right):
                        correct = random.binomial(n, share)
                        found.append([row, "cpu", seed, trained, start, "equal", digits, place, n])
                        found[-1] += [correct, n - correct]
    names = ["row", "profile", "seed", "trained", "start", "set", "digits", "place", "n"]
    return add_interval(pd.DataFrame(found, columns=[*names, "correct", "first_wrong"]), "correct")


def curves(rows=REACH, seeds=3, steps=1500, every=100):
    """Return learning curves; the last seed of each row stops early."""
    found = []
    for number, row in enumerate(rows):
        for seed in range(seeds):
            last = steps - 300 * (seed == seeds - 1)
            for step in range(every, last + 1, every):
                learnt = 1 / (1 + np.exp(-(step - 300 - 90 * number - 60 * seed) / 60))
                found.append([row, "cpu", seed, step, 2.3 * (1 - learnt) + 1e-3, learnt, 1e-3])
    names = ["row", "profile", "seed", "step", "loss", "exact", "rate"]
    table = pd.DataFrame(found, columns=names)
    halved = table["row"].str.startswith("noisy_majority")
    # Once all heads, in the middle two, then one.
    table["heads"] = (4 / 2 ** (table["step"] // 500)).clip(lower=1).where(halved)
    return table


def results(root, rows, profile="cpu"):
    """Write all tables of some rows as the evaluation stage does, under a project folder."""
    tables = {"cells": cells(rows), "places": places(rows), "curves": curves(rows)}
    for study in {profiles.find_study(row) for row in rows}:
        folder = root / "reports" / "results" / profile / study
        folder.mkdir(parents=True)
        for name, table in tables.items():
            mine = table[table["row"].map(profiles.find_study) == study]
            mine.assign(profile=profile).to_parquet(folder / f"{name}.parquet", index=False)


SHARES = ("accuracy", "low", "high")
LENGTHS = {"short": 5, "middle": 15, "long": 20, "longest": 25}


def paper_cells(rows, grid=30, seeds=2):
    """Return cells for the rows of a paper, each trained as far as its name says, of any task."""
    parts = []
    for row in rows:
        if alike.is_equal(row):
            parts.append(alike.cells(row, seeds))
            continue
        trained = LENGTHS.get(row.rsplit("_", 1)[-1], 10)
        part = cells([row], trained, grid, each=5, equal=10, seeds=seeds)
        if row.startswith("sorting"):
            part = part[(part["set"] == "grid") & (part[["i", "j"]].max(axis=1) <= 10)]
            pairs = ((10, 30), (30, 10), (30, 30), (20, 20))
            far = [part.iloc[:seeds].assign(set="far", i=i, j=j) for i, j in pairs]
            far = [of.assign(seed=range(seeds), n=50, exact=20, start="1") for of in far]
            part = add_interval(pd.concat([part, *far], ignore_index=True))
            part["first_right"] = part["exact"] + (part["n"] - part["exact"]) // 2
        elif row.startswith("noisy_majority"):
            part = part[part["set"] == "equal"]
            part = pd.concat([part.assign(set=of) for of in ("validation", "test")])
        elif row.startswith("addition"):  # the Abacus table ends earlier
            longer = range(grid + 1, grid + (3 if "abacus" in row else 6))
            equal = part[(part["set"] == "equal") & (part["i"] == grid)]
            part = pd.concat([part, *(equal.assign(i=i, j=i) for i in longer)])
        if "hints" in row:
            part["digits_right"] = (part["exact"] + 1).clip(upper=part["n"])
        parts.append(stepped(part, row))
    return pd.concat(parts, ignore_index=True)


def stepped(part, row):
    """Return a row's cells as they are where steps are written, and where tasks have other ones."""
    if row.startswith("parity"):
        part = part[part["set"] == "equal"]
    if row.startswith("multi_operand_addition"):
        part = part[part["j"] >= 2]
    if "scratchpad" in row:
        some = part["exact"] + (part["n"] - part["exact"]) // 2
        part = part.assign(digits_right=some.where(part["set"] == "equal"))
    return part


def steps(rows, trained=10, grid=30, n=50, seeds=2):
    """Return accuracy by step of rows that write steps, worse the later they are."""
    random, found = np.random.default_rng(2), []
    for row, seed, digits in itertools.product(rows, range(seeds), range(2, grid + 1)):
        left, count = n, 2 * digits if row.startswith("multiplication") else digits + 1
        right = accuracy(1.3, digits * np.linspace(0.5, 1.1, count), trained, seed)
        for step, share in enumerate(right):
            wrong = random.binomial(left, 1 - share)
            left -= wrong
            of = [row, "cpu", seed, trained, "1", "equal", digits, step, n, n - wrong, wrong]
            found.append(of)
    table = pd.DataFrame(found, columns=[c for c in ORDER["steps"] if c not in SHARES])
    return add_interval(table, "correct")[ORDER["steps"]]


WRITTEN = "^012+034=000>210>640$"  # 12 + 34, with its steps


def tokens(rows, seeds=2):
    """Return what stands at each place of a sum: its characters, and which number they are of."""
    number = np.cumsum([not sign.isdigit() for sign in WRITTEN])
    place = np.arange(len(WRITTEN)) % 4 - 1
    part = pd.DataFrame({"at": range(len(WRITTEN)), "token": list(WRITTEN), "place": place})
    part["number"] = number * [sign.isdigit() for sign in WRITTEN]
    named = [
        part.assign(row=row, profile="cpu", seed=s, i=2, j=2, n=9)
        for row in rows
        for s in range(seeds)
    ]
    empty = pd.DataFrame(columns=ORDER["tokens"])
    return pd.concat(named, ignore_index=True)[ORDER["tokens"]] if named else empty


def attention(rows, seeds=2, layers=2, heads=3):
    """Return mean attention: each query on itself and on the first token."""
    found = []
    for row, seed, layer, head in itertools.product(
        rows, range(seeds), range(layers), range(heads)
    ):
        for query, key in itertools.product(range(len(WRITTEN)), repeat=2):
            share = 0.1 * (1 + head) * (key == query) + (1 - 0.1 * (1 + head)) * (key == 0)
            if key <= query:
                found.append([row, "cpu", seed, 2, 2, 9, layer, head, query, key, share])
    return pd.DataFrame(found, columns=ORDER["attention"])


def heads(rows, seeds=2, layers=2, heads=3):
    """Return how heads share their attention out."""
    found = []
    for row, seed, layer, head in itertools.product(
        rows, range(seeds), range(layers), range(heads)
    ):
        of = {"operand": 0.1 * head, "sum so far": 0.1, "carry": 0.2, "first token": 0.3}
        for needed, share in {**of, "other": 1 - sum(of.values())}.items():
            found.append([row, "cpu", seed, 2, 2, 9, layer, head, needed, share])
    return pd.DataFrame(found, columns=ORDER["heads"])


def separations(rows, seeds=2, heads=4, n=50):
    """Return what sets of up to three heads know, the more the more of them there are."""
    found = []
    for row, seed, size in itertools.product(rows, range(seeds), (1, 2, 3)):
        for some in itertools.combinations(range(heads), size):
            share = min(1.0, 0.5 + 0.1 * (seed + sum(some)))
            names = " ".join(map(str, some))
            found.append([row, "cpu", seed, 100, size, names, n, share - 0.1, share])
    columns = ["row", "profile", "seed", "trained", "size", "heads", "n", "learned", "separation"]
    return pd.DataFrame(found, columns=columns)


def ratios(rows, seeds=2, heads=4, n=50):
    """Return where heads look, the later ones at twos too, and their values."""
    values = {f"value_{token}_{at}": token - 2.0 * at for token in range(3) for at in range(2)}
    found = [
        {"row": row, "profile": "cpu", "seed": seed, "trained": 100, "head": head, "n": n,
         "w01": 1.0 + head, "w02": 100.0 / (1 + head), **values, "separation": 1 - head / 10}
        for row, seed, head in itertools.product(rows, range(seeds), range(heads))
    ]  # fmt: skip
    return pd.DataFrame(found, columns=[*ORDER["ratios"], *values, "trained"])


def outputs(rows, heads=4):
    """Return what heads find in a few strings."""
    counts = [(3, 5, 2), (5, 3, 2), (4, 4, 0)]
    found = [
        [row, "cpu", 0, head, *of, of[0] / (head + 1), of[1] - head]
        for row, head, of in itertools.product(rows, range(heads), counts)
    ]
    return pd.DataFrame(found, columns=ORDER["outputs"])


def by_hand(rows, heads=4, n=50):
    """Return what heads tell if they looked as told."""
    endless, grid = float("inf"), (0.1, 1.0, 10.0)
    pairs = [(of, endless) for of in grid] + [(1.0, of) for of in grid]
    found = [
        [row, "cpu", 0, head, *pair, n, 0.9 + 0.02 * head]
        for row, head, pair in itertools.product(rows, range(heads), pairs)
    ]
    return pd.DataFrame(found, columns=ORDER["by_hand"])


def subtasks(rows, seeds=2, n=50):
    """Return digits right by sub-task over training, the last sub-tasks later."""
    found = []
    kinds = itertools.product(rows, range(seeds), (50, 100, 150), enumerate(SUBTASKS), range(3))
    for row, seed, step, (number, name), place in kinds:
        right = min(n, step // 3 - 5 * number + place)
        found.append([row, "cpu", seed, 5, step, name, place, n, max(0, right)])
    columns = [name for name in ORDER["subtasks"] if name not in SHARES]
    return add_interval(pd.DataFrame(found, columns=columns), "correct")


def cascades(rows, seeds=2, n=50):
    """Return sums right by cascade over training."""
    kinds = itertools.product(rows, range(seeds), (50, 100, 150), range(4))
    found = [
        [row, "cpu", seed, 5, step, long, n, max(0, step // 3 - 10 * long)]
        for row, seed, step, long in kinds
    ]
    columns = [name for name in ORDER["cascades"] if name not in SHARES]
    return add_interval(pd.DataFrame(found, columns=columns))


def widths():
    """Return what models of the theorem's width get right."""
    found = [[3, 4, 5, codes, 10, 10 * (codes == "spare")] for codes in ("theorem", "spare")]
    columns = ["written", "codes", "ids", "codes_are", "problems", "exact"]
    return pd.DataFrame(found, columns=columns)


def sharpness():
    """Return how many tokens are wrong by how sharp attention is."""
    kinds = itertools.product((20, 100), ("float32", "float64"), (1.0, 2.0, 3.0))
    found = [[2, 2, *kind, 100, max(0, int(90 - 40 * kind[2]))] for kind in kinds]
    columns = ["operands", "digits", "sequence", "dtype", "scale", "n", "wrong"]
    table = pd.DataFrame(found, columns=columns)
    return add_interval(table.assign(right=table["n"] - table["wrong"]), "right")


def majority_range():
    """Return where a majority by hand is right: noise on the left, rounding on the right."""
    kinds = itertools.product((2.0, 4.0, 12.0, 99.0), (2, 40), ("float64", "float32"))
    found = [
        [large, length, dtype, threshold, 50, 9 * (large == 99 and threshold == "thesis"),
         7 * (large <= 4 < length), 50 * (large == 2)]
        for large, length, dtype in kinds
        for threshold in ("thesis", "mended")
    ]  # fmt: skip
    columns = ["large", "length", "dtype", "threshold", "n", "ties", "ones", "end"]
    table = pd.DataFrame(found, columns=columns)
    table["wrong"] = table[["ties", "ones", "end"]].max(axis=1)
    return add_interval(table.assign(right=table["n"] - table["wrong"]), "right")


def circuit_steps():
    """Return a chain of thought of two gates on two wires."""
    gates = ["w3 = a and b", "w4 = not w3"]
    found = [
        [step, gates[step - 1], wire, ["a", "b", "w3"][wire - 1], wire % 2, wire == step, wire == 2]
        for step in (1, 2)
        for wire in range(1, step + 2)
    ]
    columns = ["step", "gate", "wire", "name", "value", "first", "second"]
    table = pd.DataFrame(found, columns=columns).astype({"first": float, "second": float})
    return table.assign(predicted=table["step"] % 2)


def circuit_bits():
    """Return what is wrong with few bits, and with one that leaks."""
    formats = [(2, 0, 1.0, 0.0, True), (3, 0, 3.0, 0.0, False), (8, 5, 3.97, 0.03, True)]
    found = [
        [name, gates, *of, 10 * gates, 3 * gates * of[-1]]
        for name, gates in (("parity", 14), ("random", 60))
        for of in formats
    ]
    columns = ["circuit", "gates", "bits", "fraction", "largest", "leaks", "refused", "n", "wrong"]
    table = pd.DataFrame(found, columns=columns)
    return add_interval(table.assign(right=table["n"] - table["wrong"]), "right")


def recurrences(rows, seeds=2):
    """Return accuracy by place and recurrence of looped rows: low places are right first."""
    found = []
    for row, seed, digits in itertools.product(rows, range(seeds), (10, 20)):
        often = int(row.rsplit("_", 1)[-1]) if row[-1].isdigit() else 2
        for step, place in itertools.product(range(1, 2 * often + 1), range(-1, digits + 1)):
            middle = 25 * step / often - seed
            right = int(100 / (1 + np.exp(min((digits if place < 0 else place) - middle, 50))))
            same = 90 if step > 1 else np.nan
            found.append([row, "cpu", seed, 10, "1", digits, often, step, place, 100, right, same])
    names = [name for name in ORDER["recurrences"] if name not in SHARES]
    table = add_interval(pd.DataFrame(found, columns=names), "correct")
    return table[ORDER["recurrences"]]


def answers(rows, digits=20):
    """Return one answer of looped rows, its low places right first."""
    found = []
    for row in rows:
        often = int(row.rsplit("_", 1)[-1]) if row[-1].isdigit() else 2
        for step, place in itertools.product(range(1, 2 * often + 1), range(digits + 1)):
            due = "$" if place == digits else str(7 * place % 10)
            said = due if place < 25 * step / often else "0"
            found.append([row, "cpu", 0, 10, "1", digits, often, step, place, place, due, said])
    return pd.DataFrame(found, columns=ORDER["answers"])


def progress(rows, seeds=2, steps=400, every=50):
    """Return progress that memorises first; of one row with waves, of others without."""
    found, chance = [], np.log(113)
    kinds = itertools.product(rows, range(seeds), range(0, steps + 1, every))
    for row, seed, step in kinds:
        known, others = (1 / (1 + np.exp(-(step - at - 20 * seed) / 20)) for at in (80, 250))
        waves = row.endswith("_113")
        sets = {"trained": known, "held out": others} | ({"all": others} if waves else {})
        for name, share in sets.items():
            loss, n = chance * (1 - share) + 1e-4, 500
            of = [row, "cpu", seed, step, name, n, int(share * n), 900.0 - step, loss]
            found.append(of + ([loss, chance * others + 0.01] if waves else [np.nan, np.nan]))
    names = [name for name in ORDER["progress"] if name not in SHARES]
    table = add_interval(pd.DataFrame(found, columns=names), "correct")
    return table[ORDER["progress"]]


KEYS = (5, 14, 40)


def spectrum(rows, seeds=2):
    """Return even power before training, and three key frequencies after."""
    kinds = itertools.product(rows, range(seeds), ("embedding", "neurons to logits"), range(1, 57))
    found = [
        [row, "cpu", seed, step, matrix, at, share]
        for row, seed, matrix, at in kinds
        for step, share in ((0, 1 / 56), (400, 0.3 if at in KEYS else 0.1 / 53))
    ]
    return pd.DataFrame(found, columns=ORDER["spectrum"])


def key_frequencies(rows, seeds=2):
    """Return the key frequencies, the first the strongest."""
    kinds = itertools.product(rows, range(seeds), enumerate(KEYS))
    found = [[row, "cpu", s, 12769, at, 0.4 - 0.1 * index, 0.3] for row, s, (index, at) in kinds]
    return pd.DataFrame(found, columns=ORDER["key_frequencies"])


def circles(rows, seeds=2):
    """Return numbers about 0 before training, and on circles after."""
    found = []
    for row, s, at, number in itertools.product(rows, range(seeds), KEYS, range(113)):
        x, y = (wave(2 * np.pi * at * number / 113) for wave in (np.cos, np.sin))
        found += [[row, "cpu", s, 0, at, number, 0.2 * y * x, 0.2 * x]]
        found += [[row, "cpu", s, 400, at, number, x, y]]
    return pd.DataFrame(found, columns=ORDER["circles"])


def nearness(rows, seeds=2):
    """Return equal sums that come near to each other, and to no number."""
    found = []
    for row, seed, step in itertools.product(rows, range(seeds), (0, 400)):
        kinds = {"equal sums": 0.1 + step / 800, "other sums": 0.0}
        if "digits" not in row and "binary" not in row:
            kinds |= {"their number": 0.05, "other numbers": 0.0}
        for kind, mean in kinds.items():
            found.append([row, "cpu", seed, step, kind, 500, mean, mean - 0.02, mean + 0.02])
    return pd.DataFrame(found, columns=ORDER["nearness"])


EQUAL = "addition_equal_"  # rows of equally long sums, with a gap in their lengths
POINTS = ("0.resid_pre", "0.resid_mid", "0.resid_post", "1.resid_mid", "1.resid_post")


def counted(rows, columns, n=40, hits="correct", **more):
    """Return counts of each row, seed and length, and all that there is `more` of, as columns.

    The later ones of the last are right more often, by one seed more than by the other.
    """
    names, found = list(more), []
    for row, seed, digits in itertools.product(rows, (0, 1), (10, 11)):
        for values in itertools.product(*more.values()):
            late = list(more[names[-1]]).index(values[-1])
            right = min(n, 6 * (1 + late) + 5 * seed + 3 * (digits == 10))
            labels = {"row": row, "profile": "cpu", "seed": seed, "trained": 10, "digits": digits}
            found.append({**labels, **dict(zip(names, values, strict=True)), "n": n, hits: right})
    table = pd.DataFrame(found, columns=None if found else columns)
    return (add_interval(table, hits) if found else table).reindex(columns=columns)


def lens(rows):
    """Return what is right at each point of the stream, more at the later ones."""
    table = counted(rows, ORDER["lens"], place=(-1, 0, 1, 2), activation=POINTS)
    return table.assign(confidence=table["accuracy"])


def probes(rows):
    """Return what is told of steps, with and without training."""
    steps = ("digit_sum", "carry_used", "carry_made", "cascade", "answer")
    of = {"model": ("trained", "untrained"), "step": steps, "activation": POINTS}
    return counted(rows, ORDER["probes"], **of).assign(commonest=6)


def ablations(rows):
    """Return what is right without a head, and with all."""
    heads = ((0, 0), (0, 1), (1, 0), (1, 1), (-1, -1))
    columns = [name for name in ORDER["head_ablations"] if name not in ("layer", "head")]
    kinds = (*SUBTASKS, "all")
    table = counted(rows, [*columns, "which"], subtask=kinds, which=heads)
    layer, head = zip(*table.pop("which"), strict=True) if len(table) else ((), ())
    return table.assign(layer=layer, head=head)[ORDER["head_ablations"]]


def patches(rows):
    """Return how many answers each cell flips, of the last layer one token alone."""
    cells = [(name, at) for name in POINTS for at in range(6) if name != POINTS[-1] or at == 5]
    return _cells(rows, "patches", cells)


def confirmed(rows):
    """Return how many answers some cells flip of either twins."""
    return _cells(rows, "confirmed", [(name, 5) for name in POINTS[1:]], twins=("control", "carry"))


def _cells(rows, name, cells, **more):
    roles, columns = ("^", "a0", "a1", "b0", "=", "s0"), ORDER[name]
    table = counted(
        rows, [*columns, "cell"], hits="flipped", place=(1, 2, 3, 4), cell=cells, **more
    )
    activation, token = zip(*table.pop("cell"), strict=True) if len(table) else ((), ())
    table = table.assign(activation=activation, token=token, restored=0.5)
    return table.assign(role=[roles[at] for at in token])[columns]


def depths(rows):
    """Return how deep digits go: the deeper the longer the cascade."""
    of = {"place": (0, 1, 2), "carry": (0, 1), "cascade": (0, 1, 2)}
    table = counted(rows, ORDER["depths"], **of)
    deep = {"recurrences_taken": 2.0 + table["cascade"] / 2, "depth": 1.0 + table["cascade"] / 3}
    return table.assign(
        **deep, recurrences_taken_spread=0.4, depth_spread=0.2, recurrences_trained=4
    )


def rounds(rows):
    """Return accuracy by how many recurrences there may be."""
    table = counted(rows, ORDER["rounds"], hits="exact", recurrences=range(1, 9))
    return table.assign(recurrences_trained=4)


def reach(rows):
    """Return what one seed is asked of long problems; of products one is wrong."""
    found = []
    for row, (size, n) in itertools.product(rows, ((1000, 50), (100_000, 10))):
        wrong = int("multiplication" in row)
        found.append([row, "cpu", 0, 10, size, size, n, n - wrong, 3 * wrong, 3 * size + 3])
    columns = [name for name in ORDER["reach"] if name not in SHARES]
    table = pd.DataFrame(found, columns=columns).astype({"n": int, "exact": int})
    return add_interval(table)[ORDER["reach"]]


def accuracy_by_start(rows, seeds=2, n=50):
    """Return sums that are right from late starts, the later the longer they are."""
    found = []
    for row, seed, (times, last) in itertools.product(rows, range(seeds), ((1, 9), (2, 5), (5, 1))):
        for start in range(1, last + 1):
            exact = max(0, n - 10 * max(0, 2 * times - start) - seed)
            found.append([row, "cpu", seed, 10, 10 * times, start, n, exact])
    columns = [name for name in ORDER["accuracy_by_start"] if name not in SHARES]
    table = pd.DataFrame(found, columns=columns).astype({"n": int, "exact": int})
    return add_interval(table)[ORDER["accuracy_by_start"]]


def accuracy_by_sharpness(rows, seeds=2, n=100):
    """Return sums that are best at factor 1.5, the more so the longer they are."""
    lengths = (("trained", 10, 1), ("band", np.nan, 1.3), ("beyond", 20, 2), ("beyond", 30, 3))
    found = []
    for row, seed, (kind, digits, times) in itertools.product(rows, range(seeds), lengths):
        for start in ("1", "all") if "abacus" in row or "coupled" in row else ("1",):
            for factor in (0.8, 1.0, 1.25, 1.5, 2.0):
                right = n * np.exp((1 - times) * (abs(factor - 1.5) + 0.1 * seed))
                found.append([row, "cpu", seed, 10, start, kind, digits, factor, factor == 1.5, n])
                found[-1].append(round(right))
    columns = [name for name in ORDER["accuracy_by_sharpness"] if name not in SHARES]
    table = pd.DataFrame(found, columns=columns)
    return add_interval(table)[ORDER["accuracy_by_sharpness"]]


def errors_by_start(rows, seeds=2, n=50):
    """Return sums whose first digits are wrong from early starts."""
    found = []
    for row, seed, (times, last) in itertools.product(rows, range(seeds), ((1, 9), (2, 5), (5, 1))):
        for start, token in itertools.product(range(1, last + 1), range(1, 10 * times + 2)):
            wrong = n * (times > 1) * (start + token < 5)
            found.append([row, "cpu", seed, 10, 10 * times, start, token, n, wrong])
    return pd.DataFrame(found, columns=ORDER["errors_by_start"])


def attention_by_start(rows, seeds=2, n=5):
    """Return attention of which one head spends half on tokens without an id, less from start 1."""
    found = []
    for row, seed, (times, last) in itertools.product(rows, range(seeds), ((1, 9), (2, 5), (5, 1))):
        for start, head in itertools.product(range(1, last + 1), range(2)):
            share = 0.1 if head else 0.5 - 0.2 / start
            found.append([row, "cpu", seed, 10, 10 * times, start, 0, head, n, share])
    return pd.DataFrame(found, columns=ORDER["attention_by_start"])


WHERE = (
    "the first token", "digits of this place", "digits of the next place", "itself",
)  # fmt: skip


def looks(rows, seeds=2, heads=4):
    """Return heads of which the later ones look more at the place just written."""
    found = []
    for row, seed, head in itertools.product(rows, range(seeds), range(heads)):
        shares = (0.2, 0.1 * (head + seed), 0.7 - 0.1 * (head + seed), 0.1)
        found += [[row, "cpu", seed, head, *of, 60] for of in zip(WHERE, shares, strict=True)]
    return pd.DataFrame(found, columns=ORDER["attention_places"])


def without(rows, seeds=2, heads=4, n=60):
    """Return what is right with all heads, and without one: the last brings the carry."""
    found = []
    for row, seed, head in itertools.product(rows, range(seeds), range(-1, heads)):
        right, carry = (n, 0) if head < 0 else (30 + seed, 30 - seed if head == heads - 1 else 5)
        found.append([row, "cpu", seed, head, n, right, carry])
    columns = [name for name in ORDER["without_head"] if name not in SHARES]
    table = pd.DataFrame(found, columns=columns).astype({"n": int, "right": int})
    return add_interval(table, "right")[ORDER["without_head"]]


def carries(rows, seeds=2, n=8):
    """Return a carry that is added above a difference of 4 or 5; some say neither."""
    found = []
    for row, seed, below, written in itertools.product(rows, range(seeds), range(19), range(10)):
        possible = (written - below) % 10 <= 1
        known = n - 3 * (below - written > 14)
        added = known * (below - written > 4 + seed)
        found.append([row, "cpu", seed, below, written, possible, added, known - added, n])
    return pd.DataFrame(found, columns=ORDER["carries"])


def read(rows, seeds=2, n=40):
    """Return a carry that is told at once, and digits that are told later."""
    found = []
    places = ("after attention", "after the feed-forward network")
    for row, seed, where, what in itertools.product(
        rows, range(seeds), places, ("sum", "carry", "answer")
    ):
        late = n - 3 * seed if where == places[1] else 10 + seed
        found.append([row, "cpu", seed, where, what, n, n - 2 if what == "carry" else late])
    columns = [name for name in ORDER["read_positions"] if name not in SHARES]
    table = pd.DataFrame(found, columns=columns).astype({"n": int, "right": int})
    return add_interval(table, "right")[ORDER["read_positions"]]


# Variants by ablation and group; what is said of them is no part of any figure.
VARIED = {
    "mine": {"reference": ["row"], "window": ["none", "two_places"], "depth": ["none", "4"]},
    "yours": {"reference": ["row"], "batch_size": ["32"]},
}


def variants(seeds=3, times=(1, 2, 100), n=20):
    """Return the two tables of two ablations: of `none` nothing is right beyond training.

    Four layers cannot be asked the longest, and their last seed never learns.
    """
    lengths, trainings = [], []
    named = [(*of, name) for of, names in _groups() for name in names]
    for (ablation, group, variant), seed in itertools.product(named, range(seeds)):
        of = [ablation, group, variant, "addition_relative", "cpu", seed, 5]
        for many in times:
            asked = 0 if (variant, many) == ("4", times[-1]) else n
            right = 0 if variant == "none" and many > 1 else asked - seed * (asked > 0)
            faults = [asked - right, 0, 0, 0, 0, 0]  # they stop early
            lengths.append([*of, many, 5 * many, asked, right, *faults, 0.9 / many])
        taken = np.nan if variant == "4" and seed == seeds - 1 else 100.0 + 50 * seed
        taken = np.nan if (group, variant) == ("depth", "none") else taken
        judged = ("exact", 50, 0) if taken > 0 else (None, np.nan, np.nan)
        trainings.append([*of, 900, 400, taken, 1.0, 0.01, 1.0, *judged])
    columns = [name for name in ORDER["lengths"] if name not in SHARES]
    table = add_interval(pd.DataFrame(lengths, columns=columns))
    known = pd.DataFrame(trainings, columns=ORDER["training"])
    return {"variants": table[ORDER["lengths"]], "trainings": known}


def _groups():
    return [((name, group), of) for name, groups in VARIED.items() for group, of in groups.items()]


def lines(rows, seeds=2, n=20):
    """Return sums that are lost in more text, and among more sums."""
    around = [(0, 1), (10, 1), (100, 1), (1000, 1), (0, 2), (0, 20)]
    found = []
    for row, seed, digits, (characters, sums) in itertools.product(
        rows, range(seeds), (6, 30), around
    ):
        right = max(0, n - characters // 60 - 6 * (sums - 1) - seed)
        found.append([row, "cpu", seed, 6, digits, characters, sums, n, right])
    columns = [name for name in ORDER["lines"] if name not in SHARES]
    table = pd.DataFrame(found, columns=columns).astype({"n": int, "exact": int})
    return add_interval(table)[ORDER["lines"]]


def verdicts(rows, seeds=2):
    """Return certificates of rows with a wrong context, and what shows it."""
    told = ["^19", "0", "9", "^1+9=", "01$", "91$"]
    found = [[row, "cpu", seed, 5, "wrong", 40, 2, *told] for row in rows for seed in range(seeds)]
    return pd.DataFrame(found, columns=ORDER["verdicts"])


def learned(rows, seeds=2, n=60, steps=(100, 200, 300)):
    """Return contexts that become right later than random sums do."""
    found = []
    for row, seed, step in itertools.product(rows, range(seeds), steps):
        found.append(
            [row, "cpu", seed, 10, step, 400, 300 - step, n, n - (seed if step < 300 else 0)]
        )
    columns = [name for name in ORDER["learned"] if name not in SHARES]
    table = pd.DataFrame(found, columns=columns).astype({"n": int, "exact": int})
    return add_interval(table)[ORDER["learned"]]


def disturbed(rows):
    """Return the same by how much noise there is."""
    return learned(rows, steps=(0.1, 0.2)).rename(columns={"step": "noise"})


def certificates():
    """Return certificates of all verdicts that there are."""
    found = []
    for row, verdict in (("addition_relative", "exact"), ("addition_relative", "exact"),
                         ("multiplication_relative_scratchpad", "wrong"),
                         ("copying_relative", "open"), ("parity_relative_scratchpad", "sampled"),
                         ):  # fmt: skip
        lead = {"wrong": -0.5, "open": 0.1}.get(verdict, 3.0)
        found.append(
            [
                row,
                "cpu",
                len(found),
                10,
                5_000,
                verdict,
                400,
                3 * (lead < 0),
                0,
                lead,
                0.5,
                lead - 0.5,
            ]
        )
    return pd.DataFrame(found, columns=CERTIFICATE_COLUMNS)


def limits():
    """Return two cases, of which one is undetermined for small windows."""
    found = []
    for case, window in itertools.product(("sums", "sums backwards"), (0, 1, 2)):
        shared = case != "sums" and window < 2
        two = ["^9=", "^19=", ">", "^9=", "$"] if shared else [None] * 5
        found.append([case, window, 100, None if shared else 50, *two])
    return pd.DataFrame(found, columns=ORDER["limits"])


def twice(made, rows):
    """Return tables made up for one cell, as if for the longest trained length and one beyond."""
    parts = [made(rows).assign(i=digits, j=digits) for digits in (10, 11)]
    return pd.concat(parts, ignore_index=True)


def tables(rows, grid=30):
    """Return all tables of some rows, those that only some rows write of the rows that do."""
    equal = [row for row in rows if row.startswith(EQUAL)]
    within = [row for row in equal if row in (f"{EQUAL}abacus", f"{EQUAL}learned")]
    adaptive = [row for row in equal if "_adaptive" in row]
    begins = ("addition_abacus", f"{EQUAL}abacus")
    looped = [row for row in rows if row.startswith(begins) and ("looped" in row or "adapt" in row)]
    with_steps = [row for row in rows if "scratchpad" in row]
    looked_at = [row for row in rows if row.startswith("multi_operand_addition")]
    taken_apart = [row for row in rows if row.startswith("noisy_majority")]
    modular = [row for row in rows if row.startswith("modular_addition")]
    prime = [row for row in modular if row.endswith("_113")]
    as_long = [row for row in rows if alike.is_equal(row)]
    far = [row for row in rows if "_relative" in row and "_spare" not in row]
    local = [row for row in rows if row == "addition_relative"]
    started = [*TABLES, "addition_abacus_20", "addition_abacus_looped_20", "addition_coupled_30"]
    started += ["addition_coupled_turned"]
    moved = [row for row in rows if row in started and "fire" not in row]
    of_footing = [f"addition_{name}" for name in ("nope", "learned", "rope", "fire")]
    of_footing += ["addition_abacus_short", "addition_coupled_short"]
    sharpened = [row for row in rows if row in of_footing or row.endswith("_log")]
    scored = functools.cache(lambda: paper_cells(rows, grid))

    def make_places():
        parts = [places([row for row in rows if row not in as_long], seeds=2)]
        cells = scored()
        parts += [alike.places(row, cells[cells["row"] == row]) for row in as_long]
        return pd.concat(parts, ignore_index=True)

    def select(ending):
        return [row for row in rows if row.endswith(ending)]

    five_digits = [row for row in rows if row == "addition_five_digits"]
    both = {"attention": attention, "heads": heads, "tokens": tokens}
    makers = {
        "cells": scored,
        "places": make_places,
        "curves": lambda: curves(rows, 2),
        "recurrences": lambda: recurrences(looped),
        "answers": lambda: answers(looped),
        "steps": lambda: pd.concat(
            [steps(with_steps, grid=grid), alike.steps(select("_worded"))], ignore_index=True
        ),
        **{
            name: lambda make=make: pd.concat([make(looked_at), twice(make, within)])
            for name, make in both.items()
        },
        "separations": lambda: separations(taken_apart),
        "ratios": lambda: ratios(taken_apart),
        "outputs": lambda: outputs(taken_apart),
        "by_hand": lambda: by_hand(taken_apart),
        "subtasks": lambda: subtasks(five_digits),
        "cascades": lambda: cascades(five_digits),
        "progress": lambda: progress(modular),
        "spectrum": lambda: spectrum(prime),
        "key_frequencies": lambda: key_frequencies(prime),
        "circles": lambda: circles(prime),
        "nearness": lambda: nearness(modular),
        "losses": lambda: alike.losses(as_long),
        "order": lambda: alike.order(as_long),
        "answer_kinds": lambda: alike.written(as_long),
        "parts": lambda: alike.parts([row for row in as_long if row.endswith("parts")]),
        "next_tokens": lambda: alike.next_tokens(as_long),
        "scratchpads": lambda: alike.scratchpads(select("_worded")),
        "lens": lambda: lens(within),
        "probes": lambda: probes(within),
        "head_ablations": lambda: ablations(within),
        "patches": lambda: patches(within),
        "confirmed": lambda: confirmed(within),
        "depths": lambda: depths(adaptive),
        "rounds": lambda: rounds(adaptive),
        "reach": lambda: reach(far),
        "accuracy_by_start": lambda: accuracy_by_start(moved),
        "accuracy_by_sharpness": lambda: accuracy_by_sharpness(sharpened),
        "errors_by_start": lambda: errors_by_start(moved),
        "attention_by_start": lambda: attention_by_start(moved),
        "verdicts": lambda: verdicts(select("_relative_scratchpad_padded")),
        "learned": lambda: learned(local),
        "lines": lambda: lines([row for row in rows if row.startswith("addition_line_")]),
        "disturbed": lambda: disturbed(local),
        "attention_places": lambda: looks(local),
        "without_head": lambda: without(local),
        "carries": lambda: carries(local),
        "read_positions": lambda: read(local),
    }
    return ResultTables(
        lambda name: makers[name]() if name in makers else create_empty_table(name)
    )
