"""Bad input gets one clear line that names row, field, value and what was expected."""

import pytest
import torch

from carry import tasks
from carry.analyses.heads import measure_learned_accuracy
from carry.config import profiles, run_settings
from carry.config.run_settings import make_run
from carry.config.settings import SettingsError, suggest_name
from carry.data import problem_sets
from carry.models.constructions.minimal_majority import build_minimal_majority
from carry.pages import dependencies
from carry.tasks import to_digits
from carry.training.batched.network import BatchedNetwork
from carry.training.loop import Trainer
from carry.training.rows import list_training_jobs
from model_cases import run_of

ADDITION = {"task": {"name": "addition"}}


def positions(*pairs, **more):
    return {**ADDITION, "positions": list(pairs), **more}


LEARNED = {"ids": "index", "encoding": "learned", "table": 100}
COUPLED = {"ids": "coupled", "encoding": "learned", "limit": 35}


def steps(task="multi_operand_addition", *pairs, format=(), **more):
    """Return settings of a row that writes the steps of a task, to be trained in no time."""
    sizes = {"training": {"digits": 3, "steps": 1}, "evaluation": {"digits": 5}}
    form = {"name": "scratchpad", **dict(format)}
    return {"task": {"name": task}, "format": form, "positions": list(pairs), **sizes, **more}


def level(number, limit):
    return {**COUPLED, "level": number, "limit": limit}


def learned(fixed=200, digits=3, evaluation=(), data_set=(), **more):
    """Return settings of a row that is trained on some of a data set."""
    training = {"problem_set": "1-3_digit", "examples": fixed, "digits": digits, "steps": 1}
    own = {**ADDITION, "lengths": [1, 2, 3], "test": 5, "validation": 5, **dict(data_set)}
    given = {"data_set": own} if data_set else {}
    return {**ADDITION, "training": training, "evaluation": dict(evaluation), **given, **more}


MIXED = {"mixture": {"add": 0.5, "rev": 0.5}}


# Settings, and words that the one line must hold.
CASES = {
    "unknown section": ({**ADDITION, "trainning": {}}, ["trainning", "training"]),
    "no task": ({}, ["task", "missing"]),
    "task without a name": ({"task": {}}, ["task.name", "missing"]),
    "unknown task": ({"task": {"name": "additon"}}, ["'additon'", "'addition'"]),
    "unknown task setting": (
        {"task": {"name": "addition", "samplng": "equal"}},
        ["task.samplng", "'sampling'"],
    ),
    "unknown sampling": (
        {"task": {"name": "addition", "sampling": "equl"}},
        ["task.sampling", "'equl'", "'equal'"],
    ),
    "unknown format": ({**ADDITION, "format": {"name": "expresion"}}, ["'expression'"]),
    "unknown format setting": ({**ADDITION, "format": {"padd": True}}, ["format.padd", "'pad'"]),
    "format setting of wrong type": (
        {**ADDITION, "format": {"pad": "yes"}},
        ["format.pad", "'yes'", "boolean"],
    ),
    "dropout inside models trained together": (
        {
            "task": {"name": "noisy_majority"},
            "training": {"batched_seeds": True, "dropout_inside": 0.1},
        },
        ["training", "dropout_inside 0.1", "batched_seeds true", "0.0"],
    ),
    "Muon for models trained together": (
        {
            "task": {"name": "noisy_majority"},
            "training": {"batched_seeds": True, "optimizer": "muon"},
        },
        ["training", "optimizer 'muon'", "batched_seeds true", "'adamw'"],
    ),
    "unknown scheme": (
        positions({"ids": "abcus", "encoding": "learned"}),
        ["positions.0.ids", "'abcus'", "'abacus'"],
    ),
    "unknown encoding": (
        positions({"ids": "index", "encoding": "ropes"}),
        ["positions.0.encoding", "'ropes'", "'rope'"],
    ),
    "pair without ids": (positions({"encoding": "rope"}), ["positions.0.ids", "missing"]),
    "pair without encoding": (positions({"ids": "index"}), ["positions.0.encoding", "missing"]),
    "setting that neither of a pair knows": (
        positions({"ids": "abacus", "encoding": "learned", "ofset": 5}),
        ["positions.0.ofset", "'offset'"],
    ),
    "randomized without a range": (
        positions({"ids": "randomized", "encoding": "fire"}),
        ["positions.0.range", "missing"],
    ),
    "range shorter than the sequences": (
        positions({"ids": "randomized", "encoding": "fire", "range": 50}),
        ["positions.0", "50", "30 digits"],
    ),
    "offset of zero": (
        positions({"ids": "abacus", "encoding": "learned", "offset": 0}),
        ["positions.0.offset", "0", "greater than or equal to 1"],
    ),
    "offset and limit": (
        positions({"ids": "abacus", "encoding": "learned", "offset": 5, "limit": 60}),
        ["positions.0", "offset 5", "limit 60", "one of them"],
    ),
    "even starts on a ring": (
        positions({**COUPLED, "even": True, "ring": True}),
        ["positions.0", "even true", "ring true", "one of them"],
    ),
    "window on a ring": (
        positions({"ids": "coupled", "encoding": "rope", "limit": 60, "ring": True, "window": 1}),
        ["positions.0.window", "'coupled'", "without ring"],
    ),
    "limit too small for abacus": (
        positions({"ids": "abacus", "encoding": "rope", "limit": 30}),
        ["positions.0", "30 digits", "id 31", "30"],
    ),
    "unknown padding": (
        {**ADDITION, "format": {"pad": "answers"}},
        ["format.pad", "'answers'", "boolean", "'answer'"],
    ),
    "padding of the answer and of all": (
        {**ADDITION, "format": {"pad": "answer", "pad_to": 9}},
        ["format", "pad_to 9", "pad answer", "one of them"],
    ),
    "unknown signs": (
        steps(format={"signs": "lower"}),
        ["format.signs", "'lower'", "'lowest'"],
    ),
    "unknown room": (
        {"task": {"name": "multi_operand_addition", "room": "largest"}},
        ["task.room", "'largest'", "longest_sum"],
    ),
    "window below zero": (
        positions({"ids": "abacus", "encoding": "relative", "window": -1}),
        ["positions.0.window", "-1"],
    ),
    "window of three numbers": (
        positions({"ids": "abacus", "encoding": "relative", "window": [1, 0, 1]}),
        ["positions.0.window", "[1, 0, 1]"],
    ),
    "window over random ids": (
        positions({"ids": "randomized", "encoding": "alibi", "range": 200, "window": 1}),
        ["positions.0.window", "1", "'randomized'", "'index'"],
    ),
    "window over numbers that begin anywhere": (
        positions({"ids": "abacus", "encoding": "rope", "offset": 25, "window": [0, 1]}),
        ["positions.0.window", "[0, 1]", "'abacus'", "offset 1"],
    ),
    "positions that are not a list": (
        {**ADDITION, "positions": {"ids": "index", "encoding": "rope"}},
        ["positions", "list"],
    ),
    "FIRE over ids that go back": (
        positions({"ids": "coupled", "encoding": "fire"}),
        ["positions.0.encoding", "'coupled'", "index"],
    ),
    "T5 over ids that go back": (
        positions({"ids": "abacus", "encoding": "t5"}),
        ["positions.0.encoding", "T5", "'abacus'", "index"],
    ),
    "buckets that end before they grow": (
        positions({"ids": "index", "encoding": "t5", "buckets": 64, "max_distance": 32}),
        ["positions.0", "max_distance 32", "buckets 64", "more than 32"],
    ),
    "one bucket": (
        positions({"ids": "index", "encoding": "t5", "buckets": 1}),
        ["positions.0.buckets", "1", "greater than or equal to 2"],
    ),
    "no difference of ids": (
        positions({"ids": "index", "encoding": "shaw", "clip": 0}),
        ["positions.0.clip", "0", "greater than or equal to 1"],
    ),
    "slopes that are not to be set": (
        positions({"ids": "index", "encoding": "alibi", "slopes": [0.5]}),
        ["positions.0.slopes", "unknown setting"],
    ),
    "table too small for training": (
        positions({**LEARNED, "table": 20}),
        ["positions.0.table", "20", "10 digits"],
    ),
    "table too small for evaluation": (
        positions({"ids": "abacus", "encoding": "learned", "offset": 5}),
        ["positions.0", "30 digits", "id 31", "15"],
    ),
    "limit too small for training": (
        positions({**COUPLED, "limit": 9}, evaluation={"digits": 4}),
        ["positions.0", "10 digits", "past the largest, 9"],
    ),
    "start too late for the table": (
        positions(COUPLED, evaluation={"starts": [9]}),
        ["positions.0", "id 9", "past the largest"],
    ),
    "far lengths past the table": (
        positions(COUPLED, evaluation={"far": [100]}),
        ["positions.0", "100 digits"],
    ),
    "ids that would tell the answer's length": (
        positions(COUPLED, format={"reverse_answer": False}),
        ["positions.0.ids", "reverse_answer: false", "pad"],
    ),
    "unknown architecture": (
        {**ADDITION, "model": {"name": "transfomer"}},
        ["model.name", "'transformer'"],
    ),
    "unknown model setting": ({**ADDITION, "model": {"layer": 2}}, ["model.layer", "'layers'"]),
    "model size as text": ({**ADDITION, "model": {"width": "128"}}, ["model.width", "'128'"]),
    "recurrences of zero": ({**ADDITION, "model": {"recurrences": 0}}, ["recurrences", "0"]),
    "heads that do not divide": (
        {**ADDITION, "model": {"width": 30, "heads": 4}},
        ["width 30", "heads 4"],
    ),
    "norms that are nowhere": (
        {**ADDITION, "model": {"norm_place": "sandwich"}},
        ["model.norm_place", "'sandwich'", "pre_and_branch"],
    ),
    "a norm of embeddings without norms": (
        {**ADDITION, "model": {"norm": "none", "embedding_norm": True}},
        ["embedding_norm true", "norm 'none'"],
    ),
    "an epsilon of no norms": (
        {**ADDITION, "model": {"norm": "none", "norm_epsilon": 1e-12}},
        ["norm_epsilon 1e-12", "norm 'none'", "None"],
    ),
    "norms that may divide by zero": (
        {**ADDITION, "model": {"norm_epsilon": 0.0}},
        ["model.norm_epsilon", "0.0", "greater than 0"],
    ),
    "logits of no size": (
        {**ADDITION, "model": {"logit_scale": 0.0}},
        ["model.logit_scale", "0.0", "greater than 0"],
    ),
    "attention that grows otherwise": (
        {**ADDITION, "model": {"attention_scale": "sqrt"}},
        ["model.attention_scale", "'sqrt'", "constant, log"],
    ),
    "odd head width with RoPE": (
        positions({"ids": "index", "encoding": "rope"}, model={"head_width": 7}),
        ["head_width", "7", "even"],
    ),
    "a model that halts after one recurrence": (
        {**ADDITION, "model": {"name": "adaptive", "recurrences": 1}},
        ["model.recurrences", "1", "greater than or equal to 2"],
    ),
    "pondering that is paid for": (
        {**ADDITION, "model": {"name": "adaptive", "ponder": -0.1}},
        ["model.ponder", "-0.1", "greater than or equal to 0"],
    ),
    "pondering without end": (
        {**ADDITION, "model": {"name": "adaptive", "ponder": float("inf")}},
        ["model.ponder", "inf", "finite"],
    ),
    "a sum of chances of one or more": (
        {**ADDITION, "model": {"name": "adaptive", "epsilon": 0.0}},
        ["model.epsilon", "0.0", "greater than 0"],
    ),
    "ponder cost of a model that does not halt": (
        {**ADDITION, "model": {"ponder": 0.1}},
        ["model.ponder", "unknown setting"],
    ),
    "unknown injection": (
        {**ADDITION, "model": {"injection": "every"}},
        ["model.injection", "'every'", "'every_layer'"],
    ),
    "recurrences of zero at evaluation": (
        {**ADDITION, "evaluation": {"recurrences": 0}},
        ["evaluation.recurrences", "0", "greater than or equal to 1"],
    ),
    "array longer than there are labels": (
        {"task": {"name": "sorting"}, "format": {"name": "labelled"}, "evaluation": {"digits": 60}},
        ["format", "60 numbers", "52"],
    ),
    "hints for more places than there are letters": (
        {**ADDITION, "format": {"hints": "cyclic"}, "evaluation": {"far": [150]}},
        ["format.hints", "151 places", "102 letters"],
    ),
    "an array as an expression": (
        {"task": {"name": "sorting"}},
        ["format", "'expression'", "'labelled'"],
    ),
    "offset and length past the table": (
        positions({"ids": "abacus", "encoding": "learned", "offset": 80, "table": 60}),
        ["positions.0.table", "60", "shows id 90"],
    ),
    "noise past a table of ids": (
        positions(
            {**LEARNED, "table": 50}, training={"random_padding": 0.2}, evaluation={"digits": 10}
        ),
        ["positions.0.table", "50", "at least 69"],
    ),
    "noise everywhere": (
        {**ADDITION, "training": {"random_padding": 1.0}},
        ["training.random_padding", "1.0"],
    ),
    "a cell of three sizes": (
        {**ADDITION, "evaluation": {"far": [[10, 20, 30]]}},
        ["evaluation.far", "[10, 20, 30]"],
    ),
    "unknown training setting": (
        {**ADDITION, "training": {"stpes": 10}},
        ["runs.mine.training.stpes", "'steps'"],
    ),
    "steps of zero": ({**ADDITION, "training": {"steps": 0}}, ["training.steps", "0"]),
    "rate as text": (
        {**ADDITION, "training": {"learning_rate": "1e-3"}},
        ["training.learning_rate", "'1e-3'"],
    ),
    "share above one": ({**ADDITION, "training": {"progressive": 1.5}}, ["progressive", "1.5"]),
    "unknown optimizer": (
        {**ADDITION, "training": {"optimizer": "adam"}},
        ["training.optimizer", "'adam'", "'adamw'"],
    ),
    "unknown decay": (
        {**ADDITION, "training": {"decay": "cosin"}},
        ["training.decay", "'cosin'", "'cosine'"],
    ),
    "fixed data set of no problems": (
        {**ADDITION, "training": {"examples": 0}},
        ["training.examples", "0"],
    ),
    "unknown data set": (
        {**ADDITION, "training": {"problem_set": "1-3_digits", "examples": 9}},
        ["training.problem_set", "'1-3_digits'", "did you mean '1-3_digit'"],
    ),
    "data set of no lengths": (
        {**ADDITION, "training": {"problem_set": "addition", "examples": 9}},
        ["training.problem_set", "'addition' has no lengths", "expected the name of a set"],
    ),
    "data set of another task": (
        learned(task={"name": "multiplication"}),
        ["training.problem_set", "'1-3_digit' has problems of 'addition'", "'multiplication'"],
    ),
    "data set without a number": (
        {**ADDITION, "training": {"problem_set": "1-3_digit"}},
        ["training", "examples None", "'1-3_digit'", "expected a number"],
    ),
    "digits that a data set has not": (
        learned(digits=10),
        ["training.digits", "10 does not fit '1-3_digit'", "expected 3"],
    ),
    "more problems than a data set has": (
        learned(fixed=10_001),
        ["training.examples", "10001", "[1, 2, 3]", "10000"],
    ),
    "more problems of a length than there are": (
        learned(fixed=90_000_000, digits=4, data_set={"lengths": [4]}),
        ["training.examples", "90000000", "length 4", "80999990"],
    ),
    "scored on what may be trained": (
        learned(evaluation={"problem_set": "addition"}),
        ["evaluation.problem_set", "'addition'", "expected '1-3_digit'"],
    ),
    "data set for models trained together": (
        {
            "task": {"name": "noisy_majority"},
            "training": {"batched_seeds": True, "problem_set": "1-3_digit", "examples": 9},
        },
        ["training", "problem_set '1-3_digit'", "batched_seeds true"],
    ),
    "mixture in a format without prefixes": (
        learned(data_set=MIXED),
        ["format", "'expression' writes no prefix", "add, rev", "format of sub-tasks"],
    ),
    "data set that training does not name": (
        {**ADDITION, "data_set": {**ADDITION, "lengths": [2], "test": 1, "validation": 1}},
        ["training.problem_set", "None"],
    ),
    "unknown start": (
        {**ADDITION, "evaluation": {"starts": ["centre"]}},
        ["evaluation.starts", "'centre'"],
    ),
    "no start": ({**ADDITION, "evaluation": {"starts": []}}, ["evaluation.starts"]),
    "seeds of zero": ({**ADDITION, "seeds": 0}, ["seeds", "0"]),
    "limit too small for the digits of the grid": (
        steps("multi_operand_addition", level(1, 6), level(2, 6)),
        ["positions.0", "5 digits", "from id 1", "id 7", "past the largest, 6", "limit"],
    ),
    "limit too small for the operands of the grid": (
        steps("multi_operand_addition", level(1, 7), level(2, 5)),
        ["positions.1", "5 digits", "id 6", "past the largest, 5", "limit"],
    ),
    "limit too small for the operands of training": (
        steps("multi_operand_addition", level(2, 3), evaluation={"digits": 2}),
        ["positions.0", "3 digits", "id 4", "past the largest, 3"],
    ),
    "limit too small for the places of a product": (
        steps("multiplication", level(1, 9), level(2, 9), level(3, 10)),
        ["positions.2", "5 digits", "id 11", "past the largest, 10"],
    ),
    "limit too small for a string": (
        steps("parity", level(1, 35), evaluation={"digits": 5, "longest": 40}),
        ["positions.0", "40 digits", "id 41", "past the largest, 35"],
    ),
    "table too small for steps": (
        steps("multi_operand_addition", {**LEARNED, "table": 60}),
        ["positions.0", "5 digits", "id 77", "past the largest, 60"],
    ),
    "steps of a task that has none": (
        steps("addition"),
        ["format", "'scratchpad'", "Addition", "expected 'expression'"],
    ),
    "a level that a sum without steps has not": (
        {**steps("multi_operand_addition", level(2, 35)), "format": {"pad": True}},
        ["positions.0.ids", "level 2", "at most 1"],
    ),
    "a level that the steps have not": (
        steps("multi_operand_addition", level(3, 35)),
        ["positions.0.ids", "level 3", "at most 2"],
    ),
    "a level of zero": (
        steps("parity", level(0, 35)),
        ["positions.0.level", "0", "greater than or equal to 1"],
    ),
    "levels of a format that has none": (
        {
            "task": {"name": "sorting"},
            "format": {"name": "labelled"},
            "positions": [COUPLED],
            "training": {"digits": 3},
            "evaluation": {"digits": 3},
        },
        ["positions.0.ids", "level 1", "at most 0"],
    ),
    "steps whose ids would tell how long a number is": (
        steps(
            "multi_operand_addition", level(1, 35), format={"reverse_answer": False, "pad": False}
        ),
        ["positions.0.ids", "reverse_answer: false", "pad"],
    ),
    "ids drawn for numbers that may end anywhere": (
        steps(
            "multi_operand_addition",
            {"ids": "randomized", "encoding": "fire", "range": 99},
            format={"pad": False},
        ),
        ["positions.0.ids", "'randomized'", "pad"],
    ),
    "zero before products": (
        steps("multiplication", format={"from_zero": True}),
        ["format", "from_zero", "True", "expected none"],
    ),
    "no zero before bits": (
        steps("parity", format={"from_zero": False}),
        ["format", "from_zero", "False", "expected none"],
    ),
    "bits whose last parity would come first": (
        steps("parity", format={"reverse_answer": False}),
        ["format", "reverse_answer false", "expected true"],
    ),
    "hints in steps": (steps(format={"hints": "cyclic"}), ["format.hints", "unknown setting"]),
    "padding shorter than operands in training": (
        {**ADDITION, "format": {"pad_to": 9}, "evaluation": {"digits": 4}},
        ["format.pad_to", "9 is too short", "10 digits", "expected at least"],
    ),
    "padding shorter than operands that are scored": (
        {**ADDITION, "format": {"pad_to": 12}, "evaluation": {"digits": 9, "far": [[3, 20]]}},
        ["format.pad_to", "12 is too short", "20 digits", "expected at least"],
    ),
    "padding to a length and as long as needed": (
        {**ADDITION, "format": {"pad_to": 40, "pad": True}},
        ["format", "pad_to 40", "pad true", "one of them"],
    ),
    "padding to no length": (
        {**ADDITION, "format": {"pad_to": 0}},
        ["format.pad_to", "0", "greater than or equal to 1"],
    ),
    "spaces between hints": (
        {**ADDITION, "format": {"spaces": 0.5, "hints": "cyclic"}},
        ["format", "spaces 0.5", "hints 'cyclic'", "one of them"],
    ),
    "more spaces than symbols": (
        {**ADDITION, "format": {"spaces": 1.5}},
        ["format.spaces", "1.5", "less than or equal to 1"],
    ),
    "unknown beginning": (
        {**ADDITION, "format": {"begin": "#"}},
        ["format.begin", "'#'", "$, ^"],
    ),
    "spaces past a table of ids": (
        positions({**LEARNED, "table": 40}, format={"spaces": 0.5}, evaluation={"digits": 10}),
        ["positions.0.table", "40", "at least 51"],
    ),
    "spaces in what is counted": (
        {
            "task": {"name": "noisy_majority"},
            "format": {"spaces": 0.5},
            "training": {"batched_seeds": True, "examples": 8},
            "model": {"layers": 1, "feed_forward": False},
        },
        ["format.spaces", "0.5", "batched_seeds", "expected 0.0"],
    ),
    "part of an addition without a name": (
        {**ADDITION, "format": {"name": "sub_task"}},
        ["format.prefix", "missing", "one of add, ali, car, mad, rev"],
    ),
    "unknown part of an addition": (
        {**ADDITION, "format": {"name": "sub_task", "prefix": "cra"}},
        ["format.prefix", "'cra'", "did you mean 'car'"],
    ),
    "part of what is no addition": (
        {"task": {"name": "multiplication"}, "format": {"name": "sub_task", "prefix": "car"}},
        ["format", "'sub_task'", "Multiplication", "expected task 'addition'"],
    ),
    "coupled ids of a part": (
        positions({**COUPLED, "level": 3}, format={"name": "sub_task", "prefix": "add"}),
        ["positions.0.ids", "level 3", "at most 2"],
    ),
    "words for what is no addition of two": (
        {"task": {"name": "multi_operand_addition"}, "format": {"name": "worded"}},
        ["format", "'worded'", "MultiOperandAddition", "expected task 'addition'"],
    ),
    "coupled ids of words": (
        positions(COUPLED, format={"name": "worded"}),
        ["positions.0.ids", "level 1", "at most 0"],
    ),
    "padding of words": (
        {**ADDITION, "format": {"name": "worded", "pad": True}},
        ["format.pad", "unknown setting"],
    ),
    "table too small for words": (
        positions({**LEARNED, "table": 300}, format={"name": "worded"}),
        ["positions.0", "30 digits", "id 641", "past the largest, 300"],
    ),
    "one operand to be added": (
        steps(training={"digits": 1}),
        ["digits: 1", "1 operand", "at least 2"],
    ),
    "one operand to be added, without steps": (
        {"task": {"name": "multi_operand_addition"}, "training": {"digits": 1}},
        ["digits: 1", "1 operand", "at least 2"],
    ),
    "unknown sampling of sums": (
        {"task": {"name": "multi_operand_addition", "sampling": "random"}},
        ["task.sampling", "'random'", "both"],
    ),
    "fewer zeros to spare than none": (
        {"task": {"name": "multi_operand_addition", "spare": -1}},
        ["task.spare", "-1", "greater than or equal to 0"],
    ),
    "width that the heads of a model with steps do not divide": (
        steps(model={"width": 36, "heads": 8}),
        ["model", "width 36", "heads 8", "head_width"],
    ),
    "unknown norm": ({**ADDITION, "model": {"norm": "non"}}, ["model.norm", "'non'", "'none'"]),
    "waves of no size": (
        positions({"ids": "index", "encoding": "sinusoidal", "scale": 0.0}),
        ["positions.0.scale", "0.0", "greater than 0"],
    ),
    "attention over half a cell": (
        {**ADDITION, "evaluation": {"attention_cell": [6]}},
        ["evaluation.attention_cell", "[6]"],
    ),
    "settings that are no mapping": (["addition"], ["runs.mine", "mapping"]),
    "attention over a cell that does not exist": (
        {**ADDITION, "evaluation": {"attention_cell": [0, -1]}},
        ["evaluation.attention_cell.0", "0", "greater than or equal to 1"],
    ),
    "reach of no problems": (
        {**ADDITION, "evaluation": {"reach": [[0, 0, 0]]}},
        ["evaluation.reach.0.0", "0", "greater than or equal to 1"],
    ),
    "negative reach": (
        {**ADDITION, "evaluation": {"reach": [[5, 5, -3]]}},
        ["evaluation.reach.0.2", "-3", "greater than or equal to 1"],
    ),
    "negative start": (
        {**ADDITION, "evaluation": {"starts": [-1]}},
        ["evaluation.starts.0", "-1", "greater than or equal to 1 or 'all' or 'window'"],
    ),
    "held-out sizes in the wrong order": (
        {
            "task": {"name": "noisy_majority"},
            "training": {"batched_seeds": True, "examples": 9, "held_out": [5, 2]},
        },
        ["training", "held_out [5, 2]", "[smallest, largest]"],
    ),
    "betas of one": (
        {**ADDITION, "training": {"betas": [0.9, 1.0]}},
        ["training.betas.1", "1.0", "less than 1"],
    ),
    "three betas": (
        {**ADDITION, "training": {"betas": [0.9, 0.9, 0.9]}},
        ["training.betas", "at most 2"],
    ),
    "learning rate without end": (
        {**ADDITION, "training": {"learning_rate": float("inf")}},
        ["training.learning_rate", "inf", "finite"],
    ),
    "learning rate of a thousand": (
        {**ADDITION, "training": {"learning_rate": 1000.0}},
        ["training.learning_rate", "1000.0", "less than or equal to 10"],
    ),
    "clip that is no number": (
        {**ADDITION, "training": {"clip": float("nan")}},
        ["training.clip", "nan", "finite"],
    ),
    "base of waves that is no number": (
        positions({"ids": "index", "encoding": "rope", "base": float("nan")}),
        ["positions.0.base", "nan", "finite"],
    ),
    "more digits than can be written": (
        {**ADDITION, "training": {"digits": 10**6}},
        ["training.digits", "1000000", "less than or equal to 100000"],
    ),
    "more steps of a scratchpad than fit": (
        steps("multiplication", evaluation={"digits": 501}),
        ["format", "501", "at most 500"],
    ),
    "more layers than can be checked": (
        {**ADDITION, "model": {"layers": 10**6}},
        ["model.layers", "1000000", "less than or equal to"],
    ),
    "an integer beyond all sizes": (
        positions({"ids": "randomized", "encoding": "fire", "range": 10**30}),
        ["positions.0.range", "expected at most 1000000000"],
    ),
    "a setting as long as a book": (
        {**ADDITION, "training": {"x" * 20_000: 1}},
        ["runs.mine.training.xxx", "unknown setting"],
    ),
    "a value as long as a book": (
        {"task": {"name": "x" * 20_000}},
        ["task.name", "'xxx", "unknown"],
    ),
    "a label of two lines": ({**ADDITION, "label": "a\nb"}, ["label", "expected"]),
}


@pytest.mark.parametrize("settings, words", CASES.values(), ids=CASES)
def test_one_clear_line_before_any_work(settings, words):
    with pytest.raises(SettingsError) as error:
        run = make_run(settings)
        list_training_jobs(run)
        Trainer(run, 0, None)
    message = str(error.value)
    assert "\n" not in message and message.startswith("runs.mine") and len(message) < 500
    assert "expected" in message or "did you mean" in message, message
    for word in words:
        assert word in message, message


def test_unknown_profile_and_row():
    with pytest.raises(SettingsError, match="profile: 'smok' is unknown, did you mean 'smoke'"):
        run_settings.load_run("addition_nope", "smok")
    with pytest.raises(SettingsError, match="did you mean 'addition_nope'"):
        run_settings.load_run("addition_nop", "cpu")


def test_problem_sets():
    with pytest.raises(SettingsError, match="'addtion' is unknown, did you mean 'addition'"):
        problem_sets.load_problem_set("addtion", "cpu")
    with pytest.raises(SettingsError, match="problems.mine.grid: -1"):
        problem_sets.ProblemSet.parse({**ADDITION, "grid": -1}, "problems.mine")
    with pytest.raises(SettingsError, match="expected the problems stage of profile 'paper'"):
        problem_sets.read_table("paper", "addition")
    far = {**ADDITION, "far": [{"digits": 5, "i": 3, "each": 1}]}
    with pytest.raises(SettingsError, match="far.0: digits 5, i 3, j None do not fit; expected"):
        problem_sets.ProblemSet.parse(far, "problems.mine")


@pytest.mark.parametrize("cell", [{"i": 5, "j": 1}, {"digits": 1}])
def test_a_cell_of_one_operand(cell):
    given = {"task": {"name": "multi_operand_addition"}, "grid": 3, "each": 1}
    given["far"] = [{"digits": 5, "each": 1}, {**cell, "each": 2}]
    wanted = problem_sets.ProblemSet.parse(given, "problems.mine")
    expected = r"^problems.mine.far.1: \(\d, 1\) is too small, expected at least \(1, 2\)$"
    with pytest.raises(SettingsError, match=expected):
        problem_sets.draw_problem_set("mine", wanted)
    given = {"task": {"name": "multi_operand_addition"}, "draw": 5, "digits": 1}
    with pytest.raises(SettingsError, match="^digits: 1 does not fit, .* 1 operand; expected at l"):
        problem_sets.draw_problem_set("mine", problem_sets.ProblemSet.parse(given, "problems.mine"))


@pytest.mark.parametrize("sizes", [{"grid": 10**4, "each": 10**4}, {"draw": 10**9}, {"far": 3}])
def test_more_problems_than_can_be_drawn(sizes):
    with pytest.raises(SettingsError, match="^problems.mine.*expected"):
        problem_sets.ProblemSet.parse({**ADDITION, **sizes}, "problems.mine")


@pytest.mark.parametrize(
    "cells", [{"attention_cell": [5, 1]}, {"reach": [[5, 1, 9]]}, {"far": [[5, 1]]}]
)
def test_a_cell_that_the_task_does_not_have(cells):
    row = steps(training={"digits": 3, "steps": 1}, evaluation={"digits": 5, **cells})
    with pytest.raises(SettingsError, match=r"^runs.mine.evaluation.*\(5, 1\).*at least \(1, 2\)"):
        Trainer(make_run(row), 0, None)


def test_bits_that_are_none():
    with pytest.raises(SettingsError, match="^operands: .*7 .*; expected 0 (to|and) 1$"):
        tasks.build_task({"name": "parity"}).solve(*to_digits([["010"], ["17"]]))


def test_a_run_and_its_problem_set():
    """The name is the task's unless said otherwise, and the problems have to be the task's."""
    mine = make_run({**ADDITION, "evaluation": {"problem_set": "additoin"}})
    with pytest.raises(SettingsError, match="evaluation.problem_set: 'additoin' is .*, did"):
        problem_sets.check_problem_set(mine, "cpu")
    mine = make_run({"task": {"name": "sorting"}, "evaluation": {"problem_set": "addition"}})
    expected = "'addition' has problems of 'addition' with radix 10, expected problems of 'sorting'"
    with pytest.raises(SettingsError, match=expected):
        problem_sets.check_problem_set(mine, "cpu")
    mine = make_run({"task": {"name": "addition", "radix": 16}})
    with pytest.raises(SettingsError, match="expected problems of 'addition' with radix 16"):
        problem_sets.check_problem_set(mine, "cpu")
    problem_sets.check_problem_set(make_run(ADDITION), "cpu")
    with pytest.raises(SettingsError, match="expected the problems stage of profile 'paper'"):
        problem_sets.read_questions(run_settings.load_run("addition_abacus", "paper"))


def test_cuda_where_there_is_none(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SettingsError, match="runs.mine.training.device: 'cuda'"):
        Trainer(run_of(device="cuda"), 0, None)


def test_the_hint_names_all_when_nothing_is_near():
    assert suggest_name("zzz", ["b", "a"]) == "expected one of a, b"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"test": {"least": 9, "most": 5, "count": 3}}, ["ranges.test", "most 5", "at least 9"]),
        ({"test": {"least": 1, "most": 5}}, ["ranges.test.count", "missing"]),
    ],
)
def test_a_range_of_sizes_that_is_none(given, words):
    with pytest.raises(SettingsError) as error:
        wanted = {"task": {"name": "noisy_majority"}, "ranges": given}
        problem_sets.ProblemSet.parse(wanted, "problems.mine")
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"lengths": [0, 2]}, ["lengths.0", "0", "greater than or equal to 1"]),
        ({"lengths": [2, 3, 2]}, ["lengths [2, 3, 2]", "once"]),
        ({"lengths": [1]}, ["lengths [1]", "validation", "longer"]),
        ({"beyond": [3, 4]}, ["beyond: [3]", "are trained", "other lengths"]),
        ({"validation": 0}, ["validation 0", "expected 1 or more"]),
        ({"test": 0}, ["test 0", "expected 1 or more"]),
        ({"lengths": []}, ["test", "without lengths"]),
        ({"lengths": [], "test": 0, "validation": 0, "beyond": [3]}, ["beyond", "without lengths"]),
        ({"mixture": {"add": 0.5, "rve": 0.5}}, ["mixture", "'rve'", "did you mean 'rev'"]),
        ({"mixture": {"add": 0.5, "rev": 0.4}}, ["mixture", "0.9", "expected 1"]),
        ({"mixture": {"add": 1.0, "rev": 0.0}}, ["mixture.rev", "0.0", "greater than 0"]),
        ({"grid": 5, "each": 1}, ["grid", "with lengths"]),
        ({"lenghts": [2]}, ["lenghts", "did you mean 'lengths'"]),
    ],
)
def test_a_data_set_that_is_none(given, words):
    whole = {**ADDITION, "lengths": [1, 2, 3], "test": 9, "validation": 9, **given}
    with pytest.raises(SettingsError) as error:
        problem_sets.ProblemSet.parse(whole, "problems.mine")
    message = str(error.value)
    assert message.startswith("problems.mine") and "\n" not in message
    assert all(word in message for word in words), message


def test_a_data_set_whose_tests_leave_nothing():
    given = {"lengths": [1, 2], "test": 8000, "validation": 9}
    with pytest.raises(SettingsError, match="^problems.1-3_digit.test: 8000 leaves none for valid"):
        Trainer(make_run(learned(digits=2, data_set=given)), 0, None)


def test_a_data_set_of_another_kind_of_task(monkeypatch):
    table = profiles.load_params()
    table["problems"]["addition"] = {"task": {"name": "sorting"}, "lengths": [2], "test": 1,
                                     "validation": 1}  # fmt: skip
    monkeypatch.setattr(profiles, "load_params", lambda: table)
    monkeypatch.setattr(profiles, "load_profile", lambda name: {"problems": {"addition": {}}})
    with pytest.raises(SettingsError, match="^problems.addition.lengths: .*'sorting' .*; expected"):
        dependencies.check_rows("smoke")


def test_a_row_has_no_data_set_of_its_own(monkeypatch):
    table = profiles.load_params()
    table["runs"]["addition_nope"]["data_set"] = {**ADDITION, "lengths": [2]}
    monkeypatch.setattr(profiles, "load_params", lambda: table)
    with pytest.raises(SettingsError, match="^runs.addition_nope.data_set: unknown setting; exp"):
        run_settings.load_run("addition_nope", "cpu")


def test_all_problems_of_a_task_without_end():
    wanted = problem_sets.ProblemSet(task={"name": "addition"}, every=True)
    with pytest.raises(SettingsError, match="every: Addition has .*; expected another task"):
        problem_sets.draw_problem_set("mine", wanted)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"noisy_majority_d8_a4_shapley": "head"}, ["'head'", "'heads'"]),
        ({"addition_nope": "heads"}, ["'heads' does not fit task 'addition'", "'noisy_majority'"]),
        ({"addition_mine": "heads"}, ["addition_mine", "unknown"]),
    ],
)
def test_an_analysis_that_does_not_fit_is_refused_before_any_stage(named, words, monkeypatch):
    profile = profiles.load_profile("smoke")
    few = {"rows": ("noisy_majority_d8_a4_shapley", "addition_nope"), "problems": ("addition",)}
    few = {section: {name: profile[section][name] for name in few[section]} for section in few}
    profile |= {**few, "analyses": named, "variant_sets": {}, "certificates": []}
    monkeypatch.setattr(profiles, "load_profile", lambda name: profile)
    with pytest.raises(SettingsError) as error:
        dependencies.check_rows("smoke")
    assert all(word in str(error.value) for word in words), error.value


def test_heads_that_are_not_there():
    network = BatchedNetwork([build_minimal_majority(dtype=torch.float32)])
    with pytest.raises(SettingsError, match=r"heads: \[0, 3\] do not fit; expected some of 0 to 0"):
        measure_learned_accuracy(network, [0, 3], torch.tensor([[1, 2, 0]]))


def files(tmp_path, monkeypatch, params="", profile=""):
    """Let a made-up project be read: one row, with more lines of params.yaml or the profile."""
    base = "{task: {name: addition}, model: {layers: 1}}"
    texts = {
        "params.yaml": f"base: {base}\nruns: {{a: {{}}}}\nstudies: {{s: [a]}}\n"
        "problems: {addition: {}}\n",
        "profiles/cpu/profile.yaml": "profile: cpu\nscale: {}\ntrain: {s: all}\n"
        "problems: {addition: {}}\n",
    }
    (tmp_path / "profiles/cpu").mkdir(parents=True, exist_ok=True)
    for (name, text), lines in zip(texts.items(), (params, profile), strict=True):
        replaced = [line.split(":")[0] for line in lines.splitlines()]
        kept = [line for line in text.splitlines() if line.split(":")[0] not in replaced]
        (tmp_path / name).write_text("\n".join([*kept, lines]), encoding="utf-8")
    monkeypatch.setattr(profiles, "ROOT", tmp_path)


def test_a_project_of_one_row(tmp_path, monkeypatch):
    files(tmp_path, monkeypatch)
    assert run_settings.load_run("a", "cpu").model == {"layers": 1}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ("runs: {a: {training: {steps: 2024-01-01}}}", ["runs.a.training.steps", "date"]),
        ("runs: [a]", ["runs", "mapping"]),
        ("runs: {a: [1]}", ["runs.a", "[1]", "mapping"]),
        ("runs: {}", ["runs", "at least 1"]),
        ("runs: {a: {model: 3}}", ["runs.a.model", "3 would replace a mapping"]),
        ("base: {model: 3}", ["runs.a.task", "missing", "mapping"]),
        ("runs: {a: {like: [a]}}", ["runs.a.like", "['a']"]),
        ("runs: {a: {}, a: {}}", ["params.yaml line", "duplicate key"]),
        ("runs: {a: {}", ["params.yaml line", "expected valid YAML"]),
        ("runs: {a.b: {}}", ["runs", "'a.b' is not a name", "letters, digits and _"]),
        ("runs: {a-b: {}}", ["runs", "'a-b' is not a name"]),
        ("runs: {$(ls): {}}", ["runs", "'$(ls)' is not a name"]),
        ("studies: {analyses: [a]}", ["studies: 'analyses' is reserved"]),
        ("studies: {s: [a], t: []}", ["studies.t: no rows", "at least one"]),
        ("studies: {s: [a], t: [a]}", ["studies.t: row 'a' is in 's' too"]),
        ("studies: {s: [a, b]}", ["studies.s: row 'b' is unknown", "a"]),
        ("studies: {s: a}", ["studies.s", "list"]),
        ("studies: {}", ["studies", "at least 1"]),
        ("runs: {a: {}, b: {}}", ["studies: row 'b' is in no study"]),
        ("problems: {a b: {}}", ["problems", "'a b' is not a name", "letters, digits, _ and -"]),
        ("problems: {-a: {}}", ["problems", "'-a' is not a name"]),
        ("rums: {}", ["params.yaml: rums: unknown setting", "did you mean 'runs'"]),
        ("runs: {1: {}}", ["runs", "key 1 is not text"]),
        ("runs: &a {b: *a}", ["params.yaml", "expected"]),
        ("runs: {a: 0x" + "f" * 5000 + "}", ["runs.a", "20000 bits"]),
        ("runs: {a: " + "[" * 600, ["params.yaml", "expected"]),
        ("runs: {a: {label: x}, b: {label: [1]}}\nstudies: {s: [a, b]}", None),
        ("base: {label: x}", ["base", "label", "not for all rows"]),
        ("runs: {a: {profile: x}}", ["runs.a.profile", "unknown setting"]),
    ],
)
def test_params_that_are_not_valid(tmp_path, monkeypatch, params, words):
    files(tmp_path, monkeypatch, params=params)
    if words is None:
        assert run_settings.load_run("a", "cpu").label == "x"
        return
    with pytest.raises(SettingsError) as error:
        run_settings.load_run("a", "cpu")
    message = str(error.value)
    assert "\n" not in message and len(message) < 500
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("rows: [a]", ["profile.yaml: rows", "mapping"]),
        ("rows: {b c: {}}", ["rows", "'b c' is not a name"]),
        ("rows: {b: {}}", ["rows: 'b' is not trained here", "a"]),
        ("train: {}", ["row: 'a' is not in profile 'cpu'"]),
        ("train: {u: all}", ["train: study 'u' is unknown", "s"]),
        ("train: {s: []}", ["train.s: no rows"]),
        ("train: {s: [b]}", ["train.s: row 'b' is not in it", "a"]),
        ("train: {s: some}", ["train.s", "'some'"]),
        ("train: [s]", ["train", "mapping"]),
        ("rows: {a: {model: null}}", ["runs.a.model", "None would replace a mapping"]),
        ("scale: 3", ["scale", "3", "mapping"]),
        ("scale: {seeds: 2024-01-01}", ["scale.seeds", "date"]),
        ("rows:", ["rows", "mapping"]),
        ("certify: [a]", ["certify", "mapping"]),
        ("certify: {t: all}", ["certify: study 't' is unknown"]),
        ("analyse: {s: {b: reach}}", ["analyse.s: row 'b' is not in it"]),
        ("models: {s: [b]}", ["models.s: row 'b' is not in it"]),
        ("figures: [work]", ["figures", "'work'"]),
        ("others: cpu", ["others: 'cpu'", "another profile"]),
        ("others: gpu", ["others: 'gpu' is unknown"]),
        ("problems: {a.b: {}}", ["problems", "'a.b' is not a name"]),
        ("profile: gpu", ["profile.yaml: profile", "'gpu'", "expected 'cpu'"]),
        ("colour: red", ["profile.yaml: colour", "unknown setting"]),
    ],
)
def test_profiles_that_are_not_valid(tmp_path, monkeypatch, profile, words):
    files(tmp_path, monkeypatch, profile=profile)
    with pytest.raises(SettingsError) as error:
        run_settings.load_run("a", "cpu")
    message = str(error.value)
    assert "\n" not in message and len(message) < 500
    assert all(word in message for word in words), message


def test_a_label_is_for_one_row_and_changes_no_weights(tmp_path, monkeypatch):
    plain = make_run(ADDITION)
    named = make_run({**ADDITION, "label": "mine"})
    assert named.label == "mine" and named.key() == plain.key()
    assert named.model_dump() == plain.model_dump()
    rows = "runs: {b: {label: x}, a: {like: b, label: y}, c: {like: a}}\nstudies: {s: [a, b, c]}"
    files(tmp_path, monkeypatch, params=rows, profile="train: {s: [a, c]}")
    labels = [run_settings.load_run(row, "cpu").label for row in ("a", "c")]
    assert labels == ["y", None]
