"""The combinations that contract tests run over: every scheme, encoding and architecture."""

import itertools

from carry.experiments.resolve import make_run
from carry.randomness import stream

POSITIONS = {
    "nope": [],
    "none": [{"ids": "index", "encoding": "none"}],
    "learned": [{"ids": "index", "encoding": "learned", "table": 200}],
    "sinusoidal": [{"ids": "index", "encoding": "sinusoidal"}],
    "rope": [{"ids": "index", "encoding": "rope"}],
    "fire": [{"ids": "index", "encoding": "fire"}],
    "index_relative": [{"ids": "index", "encoding": "relative"}],
    "alibi": [{"ids": "index", "encoding": "alibi"}],
    "hard_alibi": [{"ids": "index", "encoding": "hard_alibi", "spans": [2]}],
    "t5": [{"ids": "index", "encoding": "t5"}],
    "shaw": [{"ids": "index", "encoding": "shaw", "clip": 4}],
    "randomized": [{"ids": "randomized", "encoding": "learned", "range": 200}],
    "randomized_fire": [{"ids": "randomized", "encoding": "fire", "range": 200}],
    "randomized_rope": [{"ids": "randomized", "encoding": "rope", "range": 200}],
    "randomized_sinusoidal": [{"ids": "randomized", "encoding": "sinusoidal", "range": 200}],
    "randomized_alibi": [{"ids": "randomized", "encoding": "alibi", "range": 200}],
    "randomized_t5": [{"ids": "randomized", "encoding": "t5", "range": 200}],
    "randomized_shaw": [
        {"ids": "randomized", "encoding": "shaw", "range": 200, "per_example": True}
    ],
    "abacus": [{"ids": "abacus", "encoding": "learned", "offset": 40}],
    "abacus_rope": [{"ids": "abacus", "encoding": "rope"}],
    "abacus_fire": [
        {"ids": "abacus", "encoding": "learned", "offset": 40},
        {"ids": "index", "encoding": "fire"},
    ],
    "abacus_alibi": [{"ids": "abacus", "encoding": "alibi"}],
    "abacus_t5": [
        {"ids": "abacus", "encoding": "learned", "offset": 40},
        {"ids": "index", "encoding": "t5"},
    ],
    "abacus_shaw": [{"ids": "abacus", "encoding": "shaw"}, {"ids": "index", "encoding": "rope"}],
    "abacus_window": [{"ids": "abacus", "encoding": "relative", "window": 1}],
    "abacus_window_alone": [
        {"ids": "abacus", "encoding": "none", "window": [0, 1], "first": False},
        {"ids": "index", "encoding": "rope"},
    ],
    "abacus_ring": [{"ids": "abacus", "encoding": "learned", "table": 3, "ring": True}],
    "coupled": [{"ids": "coupled", "encoding": "learned", "limit": 40}],
    "coupled_window": [{"ids": "coupled", "encoding": "relative", "window": 2}],
    "levels_window": [
        {"ids": "coupled", "level": 1, "encoding": "relative", "window": [0, 1]},
        {"ids": "coupled", "level": 2, "encoding": "shaw", "window": [1, 0]},
    ],
    "levels": [
        {"ids": "coupled", "level": 1, "encoding": "learned", "limit": 40},
        {"ids": "coupled", "level": 2, "encoding": "sinusoidal", "turned": True, "base": None},
    ],
}
MODELS = {
    "standard": {"layers": 2},
    "injected": {"layers": 2, "injection": "every_layer"},
    "looped": {"layers": 2, "recurrences": 3, "injection": "every_layer"},
    "looped_entrance": {"layers": 1, "recurrences": 3, "injection": "entrance"},
    "adaptive": {"name": "adaptive", "layers": 1, "recurrences": 4, "injection": "every_layer",
                 "halting_bias": -0.5},
    "read_out": {"layers": 2, "norm_place": "post", "activation": "gated_gelu", "read_out": True},
    "divided": {"layers": 2, "recurrences": 3, "injection": "every_layer", "read_out": True,
                "divide_gradient": True},
    "post_rms": {"layers": 2, "norm": "rms", "norm_place": "post", "initialisation": "deepnorm"},
    "both_gated": {"layers": 2, "norm": "rms", "norm_place": "pre_and_post", "biases": False,
                   "activation": "gated_gelu", "tied": True, "initialisation": "t5"},
    "bare": {"layers": 2, "norm": "none"},
    "wide_heads": {"layers": 1, "head_width": 12, "activation": "gelu"},
    "scaled": {"layers": 2, "attention_scale": "log", "embedding_norm": True,
               "norm_place": "pre_and_branch"},
}  # fmt: skip
FORMATS = {
    "reversed": {},
    "plain": {"reverse_operands": False, "reverse_answer": False},
    "padded": {"reverse_operands": False, "pad": True},
    "steps": {"name": "scratchpad"},
    "steps_unpadded": {"name": "scratchpad", "pad": False},
    "spaced": {"spaces": 0.5},
    "padded_to": {"pad_to": 9, "begin": "$", "reverse_operands": False, "reverse_answer": False},
    "sub_task": {"name": "sub_task", "prefix": "ali"},
    "worded": {"name": "worded", "bar": True},
    "turing": {"name": "turing"},
    "line": {"name": "line", "text": [0, 3], "sums": [1, 3]},
}


def form_of(positions):
    """Return the format of a case: ids of several levels are those of a scratchpad."""
    return "steps" if "levels" in positions else "reversed"


# Every encoding, architecture and format, in pairs that change from one case to the next.
CASES = [
    (positions, model, form_of(positions))
    for positions, model in zip(POSITIONS, itertools.cycle(MODELS), strict=False)
]
CASES += [
    (("abacus", "learned")[index % 2], model, form)
    for index, (form, model) in enumerate(zip(FORMATS, reversed(MODELS), strict=False))
]
CASES += [("coupled", "looped", "padded"), ("levels", "bare", "steps_unpadded")]
# Every architecture once, and some formats and windows: for tests that take long.
FEW_CASES = [*CASES[: len(MODELS)], *CASES[-6:]]


def run_of(positions="nope", model="standard", form="reversed", **training):
    """Return a tiny run of the named variants; steps are those of sums of several numbers."""
    small = {"digits": 4, "steps": 6, "batch": 16, "pool": 2, "score_problems": 16,
             "score_every": 2, "checkpoint_every": 2}  # fmt: skip
    return make_run(
        {
            "task": {"name": "multi_operand_addition" if "steps" in form else "addition"},
            "format": FORMATS[form],
            "positions": POSITIONS[positions],
            "model": {"width": 32, "heads": 2, **MODELS[model]},
            "training": {**small, **training},
            "evaluation": {"digits": 8},
        }
    )


def loss_of(trainer, batch):
    """Return the loss of a trainer on a batch, with new ids."""
    inputs = trainer._draw_inputs(batch)
    return trainer._loss(inputs, inputs.real, trainer._draw_fewer_recurrences())


def written(system, count=6, seed=0):
    """Return some problems of a system's task, as it writes them."""
    problems = system.task.draw(count, 4, stream(seed, "models"))
    return system.format.write(problems)
