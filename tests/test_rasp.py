"""Programs of attention: right at every length, with one depth, in the formats of the project."""

import numpy as np
import pytest
import torch

from carry import formats, tasks
from carry.formats import to_text
from carry.interpretability import rasp
from carry.interpretability.rasp import END, Values
from carry.randomness import stream

TASK = tasks.build_task({"name": "addition"})
ORDERS = {
    "both reversed": {},
    "answer reversed": {"reverse_operands": False},
    "plain": {"reverse_operands": False, "reverse_answer": False},
}
RANKS = ("given", "counted")


def texts_of(order, length, count=20, **more):
    """Return sums as the formats of the project write them; the first has the longest carry."""
    form = formats.build_format({"begin": "$", **ORDERS[order], **more}, TASK)
    operands, _ = TASK.draw_operands(torch.full((count, 2), length), stream(0, "rasp", length))
    operands[0] = torch.tensor([[9] * length, [1] + [0] * (length - 1)])
    problems = TASK.with_labels(
        TASK.solve(operands, torch.full((count, 2), length)), stream(0, "rasp")
    )
    batch = form.write(problems)
    return [
        to_text(row[:end]) for row, end in zip(batch.tokens, batch.length.tolist(), strict=True)
    ]


def is_right(text, predicted):
    start = text.index("=")
    due = [END if token == "$" else int(token) for token in text[start + 1 :]]
    return predicted.at[start:-1].tolist() == due


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ranks", RANKS)
def test_every_sum_is_right_at_one_depth(order, ranks):
    depths = set()
    for length in (1, 2, 3, 4, 7, 8, 9, 10, 30, 100):
        for text in texts_of(order, length, 4 if length > 10 else 20):
            predicted = rasp.add(text, order, ranks)
            assert is_right(text, predicted), text
            depths.add(predicted.depth)
    assert len(depths) == 1


@pytest.mark.parametrize("more", [{"spaces": 0.5}, {"pad_to": 9}])
@pytest.mark.parametrize("order", ORDERS)
def test_counted_ranks_skip_spaces_and_take_padding(order, more):
    for length in (1, 4, 9):
        for text in texts_of(order, length, **more):
            assert is_right(text, rasp.add(text, order, "counted")), text


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("mirrored", [False, True])
def test_copies_at_one_depth(ranks, mirrored):
    depths = set()
    for number in ("7", "10", "908", "1234567890" * 7):
        text = f"${number}={number[::-1] if mirrored else number}$"
        predicted = rasp.copy(text, mirrored, ranks)
        assert is_right(text, predicted)
        depths.add(predicted.depth)
    assert len(depths) == 1


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("order", ORDERS)
def test_a_prediction_depends_on_no_later_token(order, ranks):
    (text,) = texts_of(order, 5, 1)
    whole = rasp.add(text, order, ranks).at
    for end in range(text.index("=") + 1, len(text)):
        assert (rasp.add(text[:end], order, ranks).at == whole[:end]).all()


def test_attention_counts_a_layer_and_functions_none():
    values = Values(np.array([1, 2, 3]))
    alike = rasp.select(lambda query, key: query >= key, [values], [values])
    assert rasp.count(alike).at.tolist() == [1, 2, 3]
    twice = rasp.total(alike, rasp.feed(lambda of: 2 * of, rasp.count(alike)))
    assert twice.at.tolist() == [2, 6, 12] and twice.depth == 2


def test_the_table_of_depths():
    table = rasp.list_depths([1, 5, 20])
    assert (table["right"] == 1).all() and len(table) == 6
    depth = table.set_index(["order", "ranks"])["depth"]
    assert depth["both reversed", "given"] < depth["plain", "given"]
    assert all(depth[order, "given"] <= depth[order, "counted"] for order in ORDERS)
