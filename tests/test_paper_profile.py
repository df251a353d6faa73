"""The rows of profile `paper` have the settings that the papers state.

The table was written from the papers and, where these are silent, from their released code, not
from the profile: a setting of a laptop that reaches `paper` fails here.
"""

import re

import pytest

from carry.config import run_settings
from carry.departures import list_departures, resolve_settings

ROWS = run_settings.list_rows("paper")

# mcleish2024, Table 5 (the intermediate size counts both halves of the gate), 3, A.5, and the
# released code: architecture, optimizer, schedule, clipping.
MCLEISH = {
    "seeds": 3,
    "model.layers": 16,
    "model.recurrences": 1,
    "model.width": 1024,
    "model.heads": 16,
    "model.head_width": 64,
    "model.hidden": 2048 // 2,
    "model.activation": "gated_gelu",
    "model.norm": "layer",
    "model.norm_place": "post",
    "model.norm_epsilon": 1e-12,
    "model.embedding_norm": True,
    "model.biases": False,
    "model.read_out": True,
    "model.tied": False,
    "model.initialisation": "deepnorm",
    "training.digits": 20,
    "training.batch": 8192,
    "training.optimizer": "adamw",
    "training.learning_rate": 0.0001,
    "training.betas": [0.9, 0.98],
    "training.epsilon": 1e-12,
    "training.weight_decay": 0.01,
    "training.warmup": 0.1,
    "training.decay": "trapezoid",
    "training.cooldown": 0.1,
    "training.final_learning_rate": 0.0,
    "training.batch_ramp": 0.6,
    "training.clip": 0.5,
    "training.precision": "bf16",
    "training.dropout": 0.0,
    "training.dropout_inside": 0.0,
    "training.dropout_embeddings": 0.0,
    "evaluation.digits": 100,
    "evaluation.longest": 160,
    "evaluation.starts": [1],
}
# What none of the papers has.
NONE = {
    "model.attention_scale": "constant",
    "training.average_weights": 0.0,
    "evaluation.band": False,
}
# One offset for each batch, from 1 to k + 1 with k = 100, in a table of 512 rows.
ABACUS = {
    "positions.0.ids": "abacus",
    "positions.0.encoding": "learned",
    "positions.0.offset": 101,
    "positions.0.table": 511,
    "positions.0.per_example": False,
    "positions.0.even": False,
    "positions.0.initial": "normal",
}
# cho2025, Tables 1 to 3, and the released code: tied embeddings, betas, clipping.
CHO = {
    "model.layers": 6,
    "model.heads": 8,
    "model.recurrences": 1,
    "model.activation": "gated_gelu_tanh",
    "model.norm": "rms",
    "model.norm_epsilon": 1e-6,
    "model.norm_place": "pre_and_post",
    "model.embedding_norm": False,
    "model.biases": False,
    "model.read_out": False,
    "model.tied": True,
    "model.logit_scale": None,
    "model.initialisation": "t5",
    "training.steps": 50_000,
    "training.optimizer": "adamw",  # Adam, as weights do not decay
    "training.betas": [0.9, 0.95],
    "training.epsilon": 1e-8,
    "training.weight_decay": 0.0,
    "training.warmup": 0.01,
    "training.decay": "cosine",
    "training.final_learning_rate": 0.1,
    "training.clip": 1.0,
    "training.batch_ramp": 0.0,
    "training.loss": "answer",
    "training.loss_average": "token",
    "training.dropout": 0.0,
    "training.dropout_inside": 0.0,
    "training.dropout_embeddings": 0.0,
    "evaluation.starts": [1],
}
LEARNED_LEVELS = {
    f"positions.{index}.{key}": value
    for index in range(3)
    for key, value in {
        "ids": "coupled",
        "encoding": "learned",
        "level": index + 1,
        "even": False,
        "initial": "normal",
    }.items()
}
# fraknoi2024, 5.2, 2.6 and 2.8.
FRAKNOI = {
    "seeds": 100,
    "model.layers": 1,
    "model.norm": "layer",
    "model.norm_epsilon": 1e-5,
    "model.norm_place": "pre",
    "model.embedding_norm": False,
    "model.feed_forward": False,
    "model.final_norm": False,
    "training.digits": 100,
    "training.steps": 900 * 55,  # epochs of 7,000 strings
    "training.batch": 128,
    "training.optimizer": "adamw",
    "training.learning_rate": 0.001,
    "training.betas": [0.9, 0.999],
    "training.epsilon": 1e-8,
    "training.weight_decay": 0.01,
    "training.warmup": pytest.approx(2 / (1 - 0.999) / (900 * 55), rel=1e-3),
    "training.decay": "none",
    "training.dropout": 0.1,
    "training.dropout_inside": 0.0,
    "training.dropout_embeddings": 0.1,
    "training.keep_weights": "best",
    "evaluation.digits": 200,
}
# ibrahimli2024, 4.2.4 and its table of hyperparameters, and the released code: post-norm, GELU,
# tied embeddings of PyTorch's first size, clipping, the dropout of PyTorch's layer.
IBRAHIMLI = {
    "seeds": 3,
    "model.recurrences": 1,
    "model.activation": "gelu",
    "model.norm": "layer",
    "model.norm_epsilon": 1e-5,
    "model.norm_place": "post",
    "model.embedding_norm": False,
    "model.biases": True,
    "model.read_out": False,
    "model.tied": True,
    "model.logit_scale": 1.0,
    "model.embedding_std": 1.0,
    "training.batch": 256,
    "training.optimizer": "adamw",
    "training.learning_rate": 0.0003,
    "training.betas": [0.9, 0.999],
    "training.epsilon": 1e-8,
    "training.weight_decay": 0.1,
    "training.decay": "cosine",
    "training.final_learning_rate": 0.1,
    "training.clip": 1.0,
    "training.batch_ramp": 0.0,
    "training.loss": "answer",
    "training.dropout": 0.1,
    "training.dropout_inside": 0.1,
    "training.dropout_embeddings": 0.1,
    "evaluation.starts": [1],
}


def loops(layers, recurrences=1):
    return {"model.layers": layers, "model.recurrences": recurrences}


def limits(*largest):
    """Return learned levels of ids up to these limits."""
    levels = {key: LEARNED_LEVELS[key] for key in LEARNED_LEVELS if int(key[10]) < len(largest)}
    return levels | {f"positions.{index}.limit": limit for index, limit in enumerate(largest)}


SUMS = "multi_operand_addition"
COUPLED = f"{SUMS}_coupled_scratchpad"
# Rows, by a regular expression, and what is stated about them; later entries count more.
STATED = [
    (r"\w+", NONE),
    # mcleish2024
    (r"addition_(nope|fire|rope|learned|abacus|randomized)\w*", MCLEISH | {"task.zero": False}),
    (r"(bitwise_or|sorting)_\w+|multiplication_\w*looped", MCLEISH),
    (r"(addition|bitwise_or|sorting|multiplication)_abacus\w*", ABACUS),
    (r"addition_abacus_looped_far", {"positions.0.offset": 520, "positions.0.table": None}),
    (r"\w+_(fire|nope|abacus)_(injected|looped)\w*", {"model.injection": "every_layer"}),
    (r"addition_abacus_(fire|rope)", {"model.injection": "every_layer"}),  # Fig. 6
    (r"(addition|bitwise_or)_(nope|fire|abacus)_looped\w*", loops(1, 16)),  # 3.2
    # Fig. 3, 9, 15 and 16.
    (r"addition_abacus_looped(_far|_entrance|_divided)?", loops(8, 2)),
    (r"addition_abacus_looped_20", loops(8, 2)),
    (r"addition_abacus_looped_4(_entrance|_divided)?", loops(4, 4)),
    (r"addition_abacus_looped_8(_entrance|_divided)?", loops(2, 8)),
    (r"addition_abacus_injected_shallow", loops(8)),
    (r"addition_abacus_looped_shallow", loops(4, 2)),
    (r"addition_abacus_looped_4_shallow", loops(2, 4)),
    (r"addition_abacus_looped_8_shallow", loops(1, 8)),
    (r"addition_abacus_injected_deep", loops(32)),
    (r"addition_abacus_looped_deep", loops(16, 2)),
    (r"addition_abacus_looped_4_deep", loops(8, 4)),
    (r"addition_abacus_looped_8_deep", loops(4, 8)),
    (r"addition_\w+_entrance", {"model.injection": "entrance"}),
    (r"addition_\w+_divided", {"model.divide_gradient": True}),
    (r"addition_abacus_looped(_20)?", {"seeds": 5}),
    (r"addition_\w+_short", {"training.digits": 10}),
    (r"addition_\w+_long", {"training.digits": 30}),
    (r"addition_\w+_longest", {"training.digits": 40}),
    (r"addition_\w+_everything", {"training.loss": "everything"}),
    (r"addition_randomized\w+", {"evaluation.longest": 100}),
    (r"bitwise_or_\w+", {"evaluation.longest": 100, "task.sampling": "exhaustive"}),
    (
        r"multiplication_\w*looped",
        loops(4, 4)
        | {
            "task.zero": False,
            "model.injection": "entrance",
            "model.divide_gradient": True,
            "training.digits": 15,
            "training.loss_average": "sample",
            "evaluation.digits": 25,
            "evaluation.longest": 25,
        },
    ),
    (r"multiplication_(abacus_)?fire_looped", {"training.learning_rate": 0.00006}),
    (
        r"sorting_\w+",
        loops(8)
        | {
            "task.numbers": "uniform_lengths",
            "training.digits": 10,
            "evaluation.digits": 10,
            "evaluation.longest": 10,
        },
    ),
    (r"sorting_\w+_looped", loops(1, 8)),
    # Position coupling (Cho et al. 2024), by the first version of the released code.
    (
        r"addition_coupled(_30)?",
        CHO
        | limits(202)
        | {
            "seeds": 8,
            "model.layers": 1,
            "model.heads": 4,
            "model.width": 512,
            "model.head_width": 128,
            "model.hidden": 2048,
            "format.pad": True,
            "format.reverse_operands": False,
            "format.reverse_answer": True,
            "training.digits": 30,
            "training.examples": 1_000_000,
            "training.batch": 1000,
            "training.learning_rate": 0.0001,
            "evaluation.far": [200],
        },
    ),
    # cho2025, Table 2 and Fig. 1, 5, 10 to 14.
    (
        rf"{SUMS}_\w+",
        CHO
        | {
            "seeds": 8,
            "task.sampling": "both",
            "task.room": "longest_sum",
            "format.pad": True,
            "format.reverse_operands": False,
            "format.reverse_answer": True,
            "model.width": 1024,
            "model.head_width": 128,
            "model.hidden": 2048,
            "training.digits": 10,
            "training.examples": 500_000,
            "training.batch": 400,
            "training.learning_rate": 0.00003,
            "evaluation.digits": 30,
            "evaluation.longest": 30,
        },
    ),
    (rf"{SUMS}_coupled", limits(40)),
    (rf"{COUPLED}\w*", limits(40, 40)),
    (rf"{COUPLED}_short", {"seeds": 4, "training.digits": 7, "training.batch": 200}),
    (rf"{COUPLED}_long", {"seeds": 4, "training.digits": 13, "training.batch": 200}),
    (rf"{COUPLED}_unpadded\w*", {"format.pad": False}),
    (rf"{COUPLED}\w*_reversed", {"format.reverse_operands": True, "format.signs": "lowest"}),
    (rf"{COUPLED}_plain", {"format.reverse_answer": False, "format.signs": "lowest"}),
    *(
        (
            rf"{COUPLED}_{layers}l{heads}h\w*",
            loops(layers) | {"seeds": 6, "model.heads": heads, "model.head_width": 1024 // heads},
        )
        for layers in (1, 2, 4, 6)
        for heads in (2, 4, 8)
        if (layers, heads) != (6, 8)  # the row without a suffix
    ),
    (rf"{COUPLED}_\w+_(narrow|wide)_heads|{COUPLED}_\w+_width_\d+", {"seeds": 8}),
    (rf"{COUPLED}_1l4h_narrow_heads", {"model.head_width": 128}),
    (rf"{COUPLED}_1l8h_wide_heads", {"model.head_width": 256}),
    *(
        (
            rf"{COUPLED}_1l4h_width_{width}",
            {"model.width": width, "model.head_width": width // 4, "model.hidden": 4 * width},
        )
        for width in (64, 128, 256, 512)
    ),
    *(
        (rf"{COUPLED}_{name}", {"training.examples": count})
        for name, count in {
            "20k": 20_000,
            "100k": 100_000,
            "2m": 2_000_000,
            "10m": 10_000_000,
        }.items()
    ),
    # cho2025, Table 1 and Fig. 3.
    (
        r"parity_\w+",
        CHO
        | {
            "seeds": 8,
            "model.width": 512,
            "model.head_width": 64,
            "model.hidden": 2048,
            "training.digits": 20,
            "training.examples": 10_000,
            "training.batch": 20,
            "training.learning_rate": 0.00003,
            "evaluation.digits": 100,
            "evaluation.longest": 100,
        },
    ),
    (r"parity_coupled_scratchpad", limits(101)),
    # cho2025, Table 3 and Fig. 9.
    (
        r"multiplication_(nope|fire|coupled)(_scratchpad)?",
        CHO
        | {
            "seeds": 4,
            "model.width": 1024,
            "model.head_width": 128,
            "model.hidden": 2048,
            "format.pad": "answer",
            "format.reverse_operands": False,
            "training.digits": 10,
            "training.examples": 500_000,
            "training.batch": 200,
            "training.learning_rate": 0.00005,
            "evaluation.digits": 30,
            "evaluation.longest": 30,
        },
    ),
    (r"multiplication_\w+_scratchpad", {"format.pad": True}),
    (r"multiplication_coupled", limits(64)),
    (r"multiplication_coupled_scratchpad", limits(64, 32, 64)),
    # fraknoi2024
    (r"noisy_majority_\w+", FRAKNOI),
    *(
        (rf"noisy_majority_d{width}_a{heads}\w*", {"model.width": width, "model.heads": heads})
        for width, heads in ((2, 1), (8, 4), (32, 16), (2, 64))
    ),
    (r"noisy_majority_d2_a64", {"model.head_width": 2, "model.output": True}),
    # ibrahimli2024: positions and formats (experiment 29), the gap (28), baselines (1 and 15).
    (
        r"addition_equal_\w+",
        IBRAHIMLI
        | {
            "model.layers": 3,
            "model.width": 128,
            "model.heads": 4,
            "model.hidden": 512,
            "training.examples": 100_000,
            "training.steps": 100_000,
            "training.warmup": 100 / 100_000,
            "data_set.lengths": [1, 2, 3, 4, 5, 6, 7, 9],
            "evaluation.digits": 12,
        },
    ),
    (
        r"addition_equal_learned_baseline",
        {
            "model.layers": 6,
            "model.width": 768,
            "model.hidden": 4 * 768,
            "format.reverse_answer": True,
            "training.examples": 100 + 9000,
            "training.steps": 10_000,
            "training.warmup": 100 / 10_000,
            "data_set.lengths": [1, 3],
            "evaluation.digits": 4,
        },
    ),
    (
        r"addition_equal_learned_longer",
        {
            "model.layers": 6,
            "model.width": 768,
            "model.hidden": 4 * 768,
            "format.reverse_answer": False,
            "training.examples": 1_000_000,
            "training.steps": 300_000,
            "training.warmup": pytest.approx(100 / 300_000, rel=1e-3),
            "data_set.lengths": [*range(1, 18), 19],
            "evaluation.digits": 20,
        },
    ),
    (
        r"addition_equal_learned_gap",
        {
            "format.reverse_answer": False,
            "data_set.lengths": [1, 2, 3, 4, 5, 6, 7, 11],
            "evaluation.digits": 13,
        },
    ),
    (r"addition_equal_learned_(plain|padded|spaces)", {"format.reverse_answer": False}),
    (r"addition_equal_learned_padded", {"format.pad_to": 13}),
    (r"addition_equal_learned_spaces", {"format.spaces": 0.5}),
    (r"addition_equal_learned_worded", {"format.bar": True}),
    (
        r"addition_equal_abacus\w*",
        ABACUS | {"positions.0.offset": 31, "positions.0.table": 127},
    ),
    (r"addition_equal_abacus_(looped|adaptive\w*)", loops(1, 3)),  # ours, of the same depth
    # ibrahimli2024: sub-tasks (experiment 27).
    (
        r"addition_equal_(abacus_)?(alone|parts)\w*",
        {
            "model.layers": 6,
            "model.heads": 8,
            "model.width": 256,
            "model.hidden": 1024,
            "training.steps": 32_000,
            "training.warmup": 100 / 32_000,
            "evaluation.digits": 11,
        },
    ),
    (r"addition_equal_(alone|parts)\w*", {"format.reverse_answer": False, "format.spaces": 0.5}),
    (r"addition_equal_abacus_(alone|parts)", {"format.spaces": 0.0}),
    (
        r"addition_equal_(abacus|nope|rope|fire|t5|alibi|shaw)\w*",
        {"training.dropout_embeddings": 0.0},
    ),
    *(
        (
            rf"addition_equal_\w+_{name}_width_{width}",
            {
                "training.examples": count,
                "model.width": width,
                "model.hidden": 4 * width,
                "model.head_width": width // 8,
            },
        )
        for name, count in {
            "10k": 10_000,
            "100k": 100_000,
            "1m": 1_000_000,
            "10m": 10_000_000,
        }.items()
        for width in (64, 128, 256, 512, 1024, 1536)
    ),
]
OURS = {
    "addition_abacus_looped_norm",
    "multi_operand_addition_coupled_scratchpad_branch",
    "addition_relative",
    "parity_relative_scratchpad",
}


def stated(row):
    """Return what is stated about a row, by place."""
    settings = {}
    for pattern, part in STATED:
        if re.fullmatch(pattern, row):
            settings |= part
    return settings


@pytest.mark.parametrize("study", run_settings.profiles.load_profile("paper")["studies"])
def test_rows_have_the_settings_that_the_papers_state(study):
    for row in run_settings.list_rows("paper", study):
        expected = NONE if row in OURS else stated(row)
        assert row in OURS or {"training.learning_rate", "training.batch"} <= {*expected}, row
        settings = resolve_settings(row, "paper")
        found = {place: settings.get(place, "missing") for place in expected}
        assert found == expected, row


def test_every_entry_of_the_table_is_about_a_row():
    for pattern, _ in STATED:
        assert any(re.fullmatch(pattern, row) for row in ROWS), pattern


def test_looped_models_train_with_fewer_recurrences_too():
    """The full depth is trained as well, which the weight 1 would prevent."""
    looped = [run_settings.load_run(row, "paper") for row in ROWS if "_looped" in row]
    weights = {run.training.progressive for run in looped if not run.data_set}
    assert all(0 < weight < 1 for weight in weights)


# What a row of profile gpu may have apart from sizes: logits that grow with the length, even starts
# and bf16 as in the study papers_lengths, waves whose size follows from the width.
TUNED = {"attention scale", "decay", "cooldown", "precision", "evaluation band", "injection"}
TUNED |= {f"position {n} {name}" for n in (1, 2, 3) for name in ("even", "scale", "base")}
SMALL = (
    rf"addition_(nope|learned|rope|fire|abacus|coupled)\w*|{SUMS}\w*|parity_\w+"
    r"|multiplication_\w+(?<!_looped)"
)
OTHER_TASKS = (
    r"(bitwise_or|sorting|addition_equal|addition_randomized)\w+|multiplication_\w+_looped"
)


def test_rows_of_other_tasks_on_a_gpu_have_the_kind_of_the_paper():
    for row in run_settings.list_rows("gpu"):
        if not re.fullmatch(OTHER_TASKS, row):
            continue
        departures = list_departures(row, "gpu")
        assert {*departures["kind"]} <= {"size"}, f"{row}\n{departures}"


def test_small_models_on_a_gpu_are_those_that_were_tuned():
    for profile in ("long", "full", "baselines"):
        for row in sorted({*run_settings.list_rows(profile)} & {*run_settings.list_rows("gpu")}):
            if not re.fullmatch(SMALL, row) or row in OURS:
                continue
            departures = list_departures(row, "gpu", profile)
            kinds = {*departures["setting"][departures["kind"] != "size"]}
            assert kinds <= (set() if profile == "long" else TUNED), f"{row}\n{departures}"
