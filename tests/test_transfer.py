"""Mixtures in which sub-tasks are longer than sums."""

from collections import Counter

import torch

from carry import formats, tasks
from carry.data.training_batches import TrainingBatches
from carry.experiments.resolve import load_run
from carry.experiments.run import SUB_TASKS
from carry.formats import to_text
from carry.models.system import System
from carry.randomness import stream

ADDITION = tasks.build_task({"name": "addition"})


def built(name, **more):
    return formats.build_format({"name": name, "prefix": "add", **more}, ADDITION)


def test_only_long_sums_become_other_sub_tasks():
    """And these are written as a sub-task of their own, half of them each."""
    problems, draws = ADDITION.draw(2000, 8, stream(0, "transfer")), stream(1, "transfer")
    parts = torch.randint(len(SUB_TASKS), (2000,), generator=draws)
    found = built("transfer", sums_to=4).write_sub_tasks(problems, parts)
    plain, became = built("sub_task"), Counter()
    for row, part in enumerate(parts.tolist()):
        text, length = to_text(found.tokens[row]), int(problems.lengths[row].max())
        prefix = text[:3]
        if part == SUB_TASKS.index("add") and length > 4:
            became[prefix] += 1
        else:
            assert prefix == SUB_TASKS[part]
        alone = plain.with_prefix(prefix).write(problems[row : row + 1].trim())
        assert text.rstrip("_") == to_text(alone.tokens[0])
    assert {*became} == {"car", "mad"} and min(became.values()) > 0.4 * became.total()


def test_a_test_problem_is_a_sum_of_any_length():
    form = built("transfer", sums_to=1)
    assert form.write_text(1234, 4567) == "add$1234+4567=5801$"


def test_the_rows_train_on_long_parts_and_short_sums():
    """The row without transfer has short parts, too."""
    for name, longest in (("addition_transfer", 8), ("addition_transfer_short", 4)):
        run = load_run(name)
        training = run.training.model_copy(update={"examples": 10_000})
        system = System(run.model_copy(update={"training": training}))
        batches = TrainingBatches(system.run, system.task, system.format, stream(0, "rows"))
        lengths = {}
        for _ in range(20):
            for row in batches.next(64).tokens:
                prefix, question = to_text(row).split("$")[:2]
                digits = max(map(len, question.split("=")[0].split("+")))
                lengths[prefix] = max(digits, lengths.get(prefix, 0))
        assert lengths == {"add": 4, "car": longest, "mad": longest}
