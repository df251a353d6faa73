"""Short examples of the papers' definitions, written by hand, and what the settings beside do."""

import pytest
import torch
from scipy.stats import chisquare

from carry import formats, positions, tasks
from carry.experiments.resolve import make_run
from carry.formats import to_text
from carry.models.constructions.adder import build_adder
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.randomness import stream
from carry.tasks import to_digits

ADDING = "multi_operand_addition"
STEPS = {"name": "scratchpad"}


def write(task, form, *operands):
    """Return one problem, written: tasks and formats are names or mappings."""
    task = tasks.build_task(task if isinstance(task, dict) else {"name": task})
    return formats.build_format(form, task).write(task.solve(*to_digits([operands])))


def text(batch):
    return to_text(batch.tokens[0])


def coupled(batch, level=1):
    """Return the coupled ids of one problem as text, without its first and its last token."""
    ids = positions.choose_scheme("coupled")(level=level).ids(batch)[0].tolist()
    assert ids[0] == ids[-1] == 0
    return "".join(map(str, ids[1:-1]))


def abacus(batch):
    ids = positions.choose_scheme("abacus")().ids(batch)[0].tolist()
    return "".join(map(str, ids))


def build_network(positions=(), **model):
    """Return the model of a sum, of few features and without biases."""
    settings = {"layers": 1, "width": 4, "heads": 1, "hidden": 4, "biases": False, **model}
    run = {"task": {"name": "addition"}, "positions": [*positions], "model": settings}
    return System(make_run(run)).network


# ---- cho2025 ------------------------------------------------------------------------------------


def test_the_bound_differs_in_31_of_the_870_cells():
    """cho2025, 4.2 (30 x 29 cells) and App. D: at 10 operands, and at 11 of one digit."""
    rooms = {}
    for room in ("longest_sum", "bound"):
        task = tasks.build_task({"name": ADDING, "room": room})
        for m in range(2, 31):
            lengths = torch.arange(1, 31)[:, None].expand(-1, m)
            for n, length in enumerate(task.answer_room(lengths).tolist(), start=1):
                rooms[room, n, m] = length
    cells = [(n, m) for n in range(1, 31) for m in range(2, 31)]
    assert all(rooms["longest_sum", n, m] == len(str(m * (10**n - 1))) for n, m in cells)
    assert all(rooms["bound", n, m] == n + len(str(m)) for n, m in cells)
    longer = [(n, m) for n, m in cells if rooms["bound", n, m] > rooms["longest_sum", n, m]]
    assert longer == [*((1, m) for m in (10, 11)), *((n, 10) for n in range(2, 31))]
    assert len(longer) == 31


def test_the_theorem_keeps_its_bound():
    """cho2025, App. D.3: l = n + 1 + floor(log10 m), at which its model is built."""
    system = build_adder(10, 2)
    assert system.task.room == "bound"
    assert system.task.answer_room(torch.full((1, 10), 2)).tolist() == [4]


def test_a_scratchpad_without_the_first_zero():
    """cho2025, 4.1 (footnote 3): numbers of the same order share level 2 here too."""
    form = {**STEPS, "from_zero": False}
    batch = write(ADDING, form, 1, 6)
    assert text(batch) == "^01+06=10>70$"
    assert coupled(batch, 1) == "32132123123"
    assert coupled(batch, 2) == "11122111222"
    batch = write(ADDING, form, 20, 7, 81)
    assert text(batch) == "^020+007+081=020>720>801$"
    assert coupled(batch, 2) == "11112222333111122223333"


def test_signs_of_plain_responses():
    """cho2025, Fig. 14 by its code: `=` and `>` are one below the ones; ours are one above."""
    form = {**STEPS, "reverse_answer": False}
    for signs, first in (
        ("lowest", "4321432" + "1432" * 3),
        ("next", "4321432" + "5432" * 3),
    ):
        batch = write(ADDING, {**form, "signs": signs}, 20, 7)
        assert text(batch) == "^020+007=000>020>027$"
        assert coupled(batch, 1) == first
        assert coupled(batch, 2) == "1111222" + "1111" + "2222" + "3333"


def test_signs_of_reversed_questions():
    """cho2025, Fig. 14 by its code: `+` belongs to the operand after it; ours to the one before."""
    form = {**STEPS, "reverse_operands": True}
    for signs, question in (("lowest", "1112222"), ("next", "1111222")):
        batch = write(ADDING, {**form, "signs": signs}, 20, 7)
        assert text(batch) == "^020+700=000>020>720$"
        assert coupled(batch, 1) == "2341234" + "1234" * 3
        assert coupled(batch, 2) == question + "1111" + "2222" + "3333"


@pytest.mark.parametrize("pad", [True, False])
def test_signs_of_plain_questions_and_reversed_responses(pad):
    """cho2025, 4.1: the setting changes nothing there, nor in multiplication and parity."""
    for task, operands in (
        (ADDING, (20, 7, 81)),
        ("multiplication", (12, 34)),
        ("parity", ("101",)),
    ):
        form = {**STEPS, "pad": pad, "reverse_operands": task == "parity"}
        one, other = (write(task, {**form, "signs": signs}, *operands)
                      for signs in ("next", "lowest"))  # fmt: skip
        assert torch.equal(one.levels, other.levels) and torch.equal(one.tokens, other.tokens)


@pytest.mark.parametrize(
    ("pad", "written"),
    [("answer", "^12*3=630$"), (True, "^12*03=630$"), (False, "^12*3=63$")],
)
def test_products_without_a_scratchpad(pad, written):
    """cho2025, 5.3 and its code: zeros pad the product, to the lengths of both, not the factors."""
    batch = write("multiplication", {"pad": pad, "reverse_operands": False}, 12, 3)
    assert text(batch) == written
    if pad == "answer":
        assert coupled(batch) == "321" + "2" + "1234"


@torch.no_grad()
def test_a_layer_with_norms_before_and_after_its_parts():
    """cho2025, App. B and its code: N2(x + f(N1 x)), so that x itself passes N2."""
    network, hooks = build_network(norm_place="pre_and_post"), Hooks()
    network.tokens.weight[:] = torch.tensor([2.0, 0.0, 2.0, 0.0])
    block = network.blocks[0]
    block.output.weight.zero_()  # attention adds nothing
    block.feed_forward.up.weight[:] = torch.eye(4)
    block.feed_forward.down.weight.zero_()
    block.feed_forward.down.weight[:, 0] = torch.tensor([6.0, 2.0, -2.0, -6.0])
    network(write("addition", {}, 6, 7).tokens, [], hooks=hooks)
    for name, expected in {
        "resid_mid": [1.0, -1.0, 1.0, -1.0],  # N2 of x = (2, 0, 2, 0)
        "mlp_out": [6.0, 2.0, -2.0, -6.0],  # f of N1 x = (1, -1, 1, -1), whose first is positive
        "resid_post": [1.4, 0.2, -0.2, -1.4],  # N2 of their sum, (7, 1, -1, -7)
    }.items():
        found = hooks[f"0.{name}"]
        expected = torch.tensor(expected).expand(found.shape)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


# ---- mcleish2024 --------------------------------------------------------------------------------


def test_abacus_counts_digits_alone():
    """mcleish2024, 3.1 and its code: letters and signs have id 0, also where formats mark them."""
    batch = write("addition", {"hints": "cyclic"}, 653, 49)
    assert text(batch) == "^a3b5c6+a9b4=a2b0c7$"
    assert abacus(batch) == "0" + "010101" + "0" + "0101" + "0" + "010101" + "0"
    batch = write("addition", {"name": "sub_task", "prefix": "car"}, 1234, 4567)
    assert text(batch) == "car$1234+4567=---c$"
    assert abacus(batch) == "0000" + "1234" + "0" + "1234" + "0" + "0000" + "0"


@torch.no_grad()
def test_a_norm_of_word_and_abacus_embeddings():
    """mcleish2024's code, not its text: a LayerNorm of their sum; other tokens have row 0 there."""
    learned = {"ids": "abacus", "encoding": "learned", "offset": 25}
    network, hooks = build_network([learned], embedding_norm=True), Hooks()
    network.tokens.weight[:] = torch.tensor([4.0, 1.0, -1.0, -3.0])
    rows = network.encodings[0].rows.weight
    rows[:] = torch.tensor([3.0, 0.0, 0.0, -4.0])  # a sum of (7, 1, -1, -7)
    rows[0] = torch.tensor([-5.0, -2.0, 2.0, 4.0])  # and one of (-1, -1, 1, 1)
    batch = write("addition", {}, 653, 49)
    ids = positions.choose_scheme("abacus")().ids(batch)
    network(batch.tokens, [ids], hooks=hooks)
    digits, others = torch.tensor([1.4, 0.2, -0.2, -1.4]), torch.tensor([-1.0, -1.0, 1.0, 1.0])
    expected = torch.where(ids[..., None] > 0, digits, others)
    torch.testing.assert_close(hooks["embed"], expected, rtol=0, atol=1e-4)


def test_first_weights_of_the_read_out():
    """mcleish2024's code: as small as inside 2 layers, (8 x 2) ** (-1/4) = 1/2 of Xavier's 1/16."""
    network = build_network(
        layers=2, width=256, hidden=256, read_out=True, initialisation="deepnorm"
    )
    read_out = network.read_out
    for linear in (read_out.feed_forward.up, read_out.feed_forward.down, read_out.square):
        assert float(linear.weight.detach().std()) == pytest.approx(1 / 32, rel=0.02)


def test_sorted_numbers_have_uniform_lengths():
    """mcleish2024's code: lengths from 1 to j, without 0; ours: values below 10^j."""
    cells = torch.full((2_000, 2), 5)
    lengths, counts = {}, {}
    for numbers in ("uniform_lengths", "uniform_values"):
        task = tasks.build_task({"name": "sorting", "numbers": numbers})
        operands, lengths[numbers] = task.draw_operands(cells, stream(0, "numbers"))
        counts[numbers] = lengths[numbers].flatten().bincount(minlength=6)[1:].tolist()
        top = operands.gather(2, lengths[numbers][:, :, None] - 1)
        zeros = (top == 0)[:, :, 0]
        assert (zeros & (lengths[numbers] > 1)).sum() == 0
        assert numbers == "uniform_values" or not zeros.any()
    assert chisquare(counts["uniform_lengths"]).pvalue > 0.001
    values = counts["uniform_values"]
    expected = [10_000 * share for share in (0.01, 0.09, 0.9)]  # up to 3 digits, 4, 5
    assert chisquare([sum(values[:3]), *values[3:]], expected).pvalue > 0.001


@pytest.mark.parametrize(("zero", "smallest", "pairs"), [(True, 0, 100), (False, 1, 81)])
def test_operands_of_one_digit(zero, smallest, pairs):
    """mcleish2024's code has natural numbers from 1 on; cho2025's and ibrahimli2024 have 0 too."""
    for name in ("addition", "multiplication"):
        task = tasks.build_task({"name": name, "zero": zero})
        operands = task.draw_for_cells(torch.ones(500, 2).long(), stream(0, "zero")).operands
        assert operands.unique().tolist() == [*range(smallest, 10)]
    task = tasks.build_task({"name": "addition", "zero": zero})
    assert task.count_problems(1) == pairs and task.count_problems(2) == 8_100
