"""Every scheme: ids as drawn in the design, equivariant to shifts, never past their bounds."""

from dataclasses import replace

import pytest
import torch

from carry import formats, positions, tasks
from carry.formats import EOS, PAD
from carry.positions import drawn
from carry.randomness import stream
from carry.settings import parts

SETTINGS = {"randomized": {"range": 90}, "abacus": {"offset": 9}, "coupled": {"limit": 17}}
TASK = tasks.build({"name": "addition"})


def batch_of(count=100, digits=6, **given):
    form = formats.build(given, TASK)
    return form, form.write(TASK.draw(count, digits, stream(0, "positions")))


@pytest.fixture(params=parts("carry.positions"))
def scheme(request):
    return positions.choose(request.param).parse(SETTINGS.get(request.param, {}), "here")


@pytest.mark.parametrize("given", [{}, {"pad": True, "reverse_operands": False}])
def test_ids_stay_within_what_the_scheme_states(scheme, given):
    form, batch = batch_of(**given)
    largest = scheme.largest(form.extent(TASK, 6))
    for draw in range(20):
        ids = scheme.train_ids(batch, stream(draw, "ids"))
        assert ids.shape in [(1, batch.tokens.shape[1]), batch.tokens.shape]
        real = batch.tokens != PAD
        assert ids.min() >= 0 and ids.expand_as(real)[real].max() <= largest
    shown = scheme.ids(batch).expand_as(batch.tokens)[batch.tokens != PAD]
    assert shown.max() <= max(scheme.span(form.extent(TASK, 6)), scheme.fixed_range() or 0)


def test_a_later_start_shifts_every_id_alike(scheme):
    if not scheme.movable:
        pytest.skip("ids of this scheme do not move")
    _, batch = batch_of()
    first, later = scheme.ids(batch, 1), scheme.ids(batch, 8)
    assert ((later - first)[first > 0] == 7).all() and (later[first == 0] == 0).all()


def test_training_ids_are_evaluation_ids_from_another_start(scheme):
    if not scheme.movable:
        pytest.skip("ids of this scheme do not move")
    _, batch = batch_of()
    plain, ids = scheme.ids(batch), scheme.train_ids(batch, stream(3, "ids"))
    moved = torch.where(plain > 0, ids - plain, -1)
    starts = moved.amax(1)
    assert ((moved == starts[:, None]) | (moved == -1)).all()
    alike = starts.unique().numel() == 1
    assert alike == (type(scheme).__name__ == "Abacus")  # one offset per batch, as in the paper
    assert starts.min() >= 0 and ids.max() <= 17


def test_abacus_offsets_per_example():
    _, batch = batch_of()
    ids = positions.choose("abacus")(offset=9, per_example=True).train_ids(batch, stream(0, "ids"))
    assert ids[:, 1].unique().tolist() == list(range(1, 10))


@pytest.mark.parametrize(("even", "least"), [(False, 0.0), (True, 0.5)])
def test_even_starts_train_every_id_about_alike(even, least):
    """The rarest id of 33 against the commonest, over 20,000 problems of six digits."""
    form = formats.build({"pad": True}, TASK)
    task = tasks.build({"name": "addition", "sampling": "equal"})
    lengths = torch.full((20_000, 2), 6)
    batch = form.write(task.sample(lengths, stream(0, "even")))
    scheme = positions.choose("coupled")(limit=33, even=even)
    ids = scheme.train_ids(batch, stream(1, "even"))
    seen = torch.stack([(ids == of).any(1).float().mean() for of in range(1, 34)])
    assert seen.min() >= least * seen.max()
    assert even or seen.min() < 0.2 * seen.max()  # what the setting is for


def test_ids_of_a_prefix_do_not_depend_on_what_follows(scheme):
    """Decoding needs it: the slots ahead change nothing behind them."""
    form, batch = batch_of(40)
    problems = TASK.draw(40, 6, stream(0, "positions"))
    answer = torch.nn.functional.pad(problems.answer, (0, 3))
    longer = replace(problems, answer=answer, answer_length=problems.answer_length + 3)
    roomy = form.write(longer)
    if type(scheme).__name__ == "Randomized":
        pytest.skip("a subset is drawn for the whole sequence")
    short, long = scheme.ids(batch), scheme.ids(roomy)
    inside = torch.arange(batch.tokens.shape[1]) < batch.length[:, None] - 1
    width = batch.tokens.shape[1]
    assert (short.expand_as(inside)[inside] == long[:, :width].expand_as(inside)[inside]).all()


def test_the_drawing_of_the_design():
    coupled, abacus = positions.choose("coupled")(), positions.choose("abacus")()
    given = {"reverse_operands": False, "pad": True}
    assert drawn(coupled, "653", "49", **given).endswith("0 4 3 2 1 4 3 2 1 2 3 4 5 0")
    assert drawn(abacus, "653", "49", **given).endswith("0 1 2 3 0 1 2 3 0 1 2 3 4 0")


def test_coupled_digits_of_one_significance_share_an_id():
    for given in ({}, {"pad": True}, {"reverse_answer": False}, {"reverse_operands": False}):
        _, batch = batch_of(**given)
        ids = positions.choose("coupled")().ids(batch, 4)
        assert (ids[batch.place >= 0] == batch.place[batch.place >= 0] + 5).all()
        assert (ids[(batch.tokens == EOS) | (batch.tokens == PAD)] == 0).all()
        assert (ids[:, 0] == 0).all()


def test_equals_stands_next_to_the_digit_written_first():
    text = drawn(positions.choose("coupled")(), "653", "49", reverse_answer=False)
    assert text == "^ 3 5 6 + 9 4 = 7 0 2 $ | 0 2 3 4 1 2 3 5 4 3 2 0"


def test_randomized_is_an_ordered_subset():
    _, batch = batch_of()
    scheme = positions.choose("randomized")(range=60, per_example=True)
    ids = scheme.train_ids(batch, stream(0, "ids"))
    assert (ids.diff(dim=1) > 0).all() and ids.max() <= 60 and (ids[:, 0] == 0).all()
    assert torch.equal(scheme.ids(batch), scheme.ids(batch))
