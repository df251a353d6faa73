"""Every scheme: ids as drawn in the design, equivariant to shifts, never past their bounds."""

from dataclasses import replace

import pytest
import torch
from scipy.stats import chi2_contingency, chisquare

from carry import formats, positions, tasks
from carry.config.settings import SettingsError, list_modules
from carry.experiments.resolve import make_run
from carry.formats import EOS, EQUALS, PAD
from carry.models.system import System
from carry.positions import show_ids
from carry.randomness import stream

SETTINGS = {"randomized": {"range": 90}, "abacus": {"offset": 9}, "coupled": {"limit": 17}}
TASK = tasks.build_task({"name": "addition"})
STEPS = {"name": "scratchpad"}
SUMS = [
    ("addition", given)
    for given in (
        {},
        {"pad": True, "reverse_operands": False},
        {"spaces": 0.5},
        {"pad_to": 8, "begin": "$"},
        {"name": "line", "sums": 3},
    )
]
SCRATCHPADS = {
    "sums": ("multi_operand_addition", STEPS),
    "plain sums": ("multi_operand_addition", {**STEPS, "reverse_answer": False}),
    "unpadded sums": ("multi_operand_addition", {**STEPS, "pad": False}),
    "products": ("multiplication", STEPS),
    "unpadded products": ("multiplication", {**STEPS, "pad": False, "reverse_operands": True}),
    "parity": ("parity", {**STEPS, "reverse_operands": True}),
}


def batch_of(count=100, digits=6, task=TASK, **given):
    form = formats.build_format(given, task)
    return form, form.write(task.draw(count, digits, stream(0, "positions")))


@pytest.fixture(params=SCRATCHPADS.values(), ids=SCRATCHPADS)
def steps(request):
    """Return a format that writes steps, and some of its problems."""
    task, given = request.param
    return batch_of(100, 4, tasks.build_task({"name": task}), **given)


@pytest.fixture(params=list_modules("carry.positions"))
def scheme(request):
    return positions.choose_scheme(request.param).parse(SETTINGS.get(request.param, {}), "here")


@pytest.mark.contract
def test_declarations(scheme):
    """Figures take the label from the class; the other words are what other modules ask for."""
    assert scheme.label
    if scheme.increasing:
        _, batch = batch_of()
        assert (scheme.train_ids(batch, stream(0, "ids")).diff(dim=1) > 0).all()


@pytest.mark.contract
@pytest.mark.parametrize("pair", [*SUMS, *SCRATCHPADS.values()], ids=str)
def test_ids_stay_within_what_the_scheme_states(scheme, pair):
    task, given = pair
    form, batch = batch_of(100, 4, tasks.build_task({"name": task}), **given)
    extent, real = form.extent(4), batch.tokens != PAD
    levels = range(1, form.level_count + 1) if type(scheme).__name__ == "Coupled" else [None]
    for level in levels:
        of = scheme.model_copy(update={"level": level}) if level else scheme
        for draw in range(4):
            ids = of.train_ids(batch, stream(draw, "ids"))
            assert ids.shape in [(1, batch.tokens.shape[1]), batch.tokens.shape]
            assert ids.min() >= 0 and ids.expand_as(real)[real].max() <= of.largest_id(extent)
        shown = of.ids(batch).expand_as(real)[real]
        assert shown.max() <= max(of.required_ids(extent), of.id_limit() or 0)


@pytest.mark.parametrize("limit", [None, 0, 1, 9])
def test_each_level_starts_where_it_ends_within_its_limit(steps, limit):
    """With as many ids as the longest problem needs, or more; shorter ones have other starts."""
    form, batch = steps
    for level in range(1, form.level_count + 1):
        needed = form.extent(4).levels[level - 1]
        most = needed if limit is None else needed + limit
        of = positions.choose_scheme("coupled")(level=level, limit=None if limit is None else most)
        plain, ids = of.ids(batch), of.train_ids(batch, stream(0, "levels"))
        counted = batch.levels[:, :, level - 1] >= 0
        assert torch.equal(plain > 0, counted) and torch.equal(ids > 0, counted)
        moved = torch.where(counted, ids - plain, -1)
        start = moved.amax(1, keepdim=True)
        assert ((moved == start) | ~counted).all() and start.min() == 0
        assert ids.max() <= most and of.largest_id(form.extent(4)) == most
        assert start.unique().numel() > 1 or not limit  # each row for itself
        assert (limit is None) <= (start.max() == 0)


def test_levels_start_independently():
    """Chi-squared tests of starts and of pairs; false alarm 1 in 1,000 each, the seed is fixed."""
    pairs = [{"ids": "coupled", "level": level, "encoding": "learned", "limit": limit}
             for level, limit in ((1, 9), (2, 8), (3, 11))]  # fmt: skip
    run = {"task": {"name": "multiplication"}, "format": STEPS, "positions": pairs,
           "model": {"width": 8, "heads": 1, "layers": 1},
           "training": {"digits": 3}, "evaluation": {"digits": 3}}  # fmt: skip
    system = System(make_run(run))
    problems = system.task.draw_for_cells(torch.full((4_000, 2), 3), stream(0, "independent"))
    batch = system.format.write(problems)
    plain, ids = system.ids(batch), system.train_ids(batch, stream(0, "starts"))
    starts = [(of - first).amax(1) for of, first in zip(ids, plain, strict=True)]
    for start, (needed, limit) in zip(starts, ((5, 9), (3, 8), (7, 11)), strict=True):
        counts = start.bincount(minlength=limit - needed + 1)
        assert len(counts) == limit - needed + 1 and chisquare(counts).pvalue > 0.001
    for one, other in ((0, 1), (0, 2), (1, 2)):
        table = (starts[one] * 6 + starts[other]).bincount(minlength=36).view(6, 6)
        table = table[table.sum(1) > 0][:, table.sum(0) > 0]
        assert chi2_contingency(table).pvalue > 0.001


def test_levels_couple_what_is_worked_out_together():
    """From tokens and levels alone: numbers that share an id are added, or multiplied."""

    def read(row, level, stage, where=None, which=None):
        """Return what the digits of a stage spell, or those with one id of another level."""
        of = (batch.tokens[row] < 10) & (stages[row] == stage) & (batch.levels[row, :, level] >= 0)
        if where is not None:
            of &= batch.levels[row, :, where] == which
        places = (batch.levels[row, of, level] - 1).tolist()
        digits = batch.tokens[row, of].tolist()
        return sum(digit * 10**place for digit, place in zip(digits, places, strict=True))

    _, batch = batch_of(60, 4, tasks.build_task({"name": "multi_operand_addition"}), **STEPS)
    stages = (batch.tokens == EQUALS).cumsum(1)
    for row in range(60):
        last = int(batch.levels[row, :, 1].max())
        for which in range(last):
            added = sum(read(row, 0, stage, 1, which) for stage in (0, 1))
            assert added == read(row, 0, 1, 1, which + 1)
    _, batch = batch_of(60, 4, tasks.build_task({"name": "multiplication"}), **STEPS)
    stages = (batch.tokens == EQUALS).cumsum(1)
    for row in range(60):
        first, total = read(row, 0, 0), 0
        for which in range(int(batch.levels[row, :, 1].max()) + 1):
            one = (stages[row] == 0) & (batch.levels[row, :, 1] == which)
            digit = int(batch.tokens[row, one])
            assert read(row, 0, 1, 1, which) == first * digit
            total += read(row, 2, 1, 1, which)
            assert read(row, 2, 2, 1, which) == total


@pytest.mark.contract
def test_another_start_shifts_every_id_of_a_row_alike(scheme):
    """In evaluation, and in training."""
    if not scheme.accepts_start:
        pytest.skip("ids of this scheme do not move")
    form, batch = batch_of()
    plain, later = scheme.ids(batch), scheme.ids(batch, 8)
    ids = scheme.train_ids(batch, stream(3, "ids"))
    assert torch.equal(later, torch.where(plain > 0, plain + 7, 0))
    starts = (ids - plain).amax(1, keepdim=True)
    assert torch.equal(ids, torch.where(plain > 0, plain + starts, 0))
    assert starts.min() >= 0 and ids.max() <= scheme.largest_id(form.extent(6))


def repeat_sum(count):
    """Return a batch of one sum, whose longest number has 4 digits in both schemes."""
    batch = formats.build_format({"pad": True}, TASK).write(
        TASK.solve(*tasks.to_digits([["653", "409"]] * count))
    )
    assert positions.choose_scheme("coupled")().ids(batch).max() == 5
    assert positions.choose_scheme("abacus")().ids(batch).max() == 4
    return batch


RANDOM_STARTS = {
    "abacus offset": ("abacus", {"offset": 6}, 6),
    "abacus limit": ("abacus", {"limit": 9}, 6),
    "coupled limit": ("coupled", {"limit": 10}, 6),
}


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("kind", RANDOM_STARTS)
def test_starts_are_uniform_or_clamped(kind, even):
    """Chi-squared tests; even starts are uniform over a range longer by the ids, and clamped."""
    name, settings, starts = RANDOM_STARTS[kind]
    each = {"per_example": True} if name == "abacus" else {}
    scheme = positions.choose_scheme(name)(**settings, **each, even=even)
    batch = repeat_sum(4_000)
    plain, ids = scheme.ids(batch), scheme.train_ids(batch, stream(5, "starts"))
    moves = (ids - plain).amax(1)
    assert torch.equal(ids, torch.where(plain > 0, plain + moves[:, None], 0))
    beyond = int(plain.max()) - 1 if even else 0
    weights = [1 + beyond, *[1] * (starts - 2), 1 + beyond]
    expected = [4_000 * weight / sum(weights) for weight in weights]
    assert chisquare(moves.bincount(minlength=starts), expected).pvalue > 0.001
    form = formats.build_format({"pad": True}, TASK)
    assert ids.max() == scheme.largest_id(form.extent(3))


def test_even_starts_of_a_batch():
    """One start for each batch, drawn for its longest number; it is the same for all its rows."""
    batch = batch_of(50, 4)[1]
    for settings in ({"offset": 7}, {"limit": 11}):
        scheme = positions.choose_scheme("abacus")(**settings, even=True)
        plain, firsts = scheme.ids(batch), []
        for draw in range(200):
            ids = scheme.train_ids(batch, stream(draw, "even"))
            moves = (ids - plain)[plain > 0].unique().tolist()
            assert len(moves) == 1
            firsts += moves
        assert sorted({*firsts}) == [*range(7)]
        assert firsts.count(0) > 30 < firsts.count(6)  # 5 of 15 draws each, instead of 1 of 7


@pytest.mark.parametrize("name", ["abacus", "coupled"])
def test_a_ring_shows_every_id_alike(name):
    """Id 1 follows the limit, in training and in evaluation, and all ids are starts."""
    each = {"per_example": True} if name == "abacus" else {}
    scheme = positions.choose_scheme(name)(limit=7, ring=True, **each)
    batch, line = repeat_sum(4_000), positions.choose_scheme(name)()
    plain, ids = line.ids(batch), scheme.train_ids(batch, stream(6, "ring"))
    assert torch.equal(scheme.ids(batch), plain) and not scheme.ids_measure_distance
    for start in (1, 4, 7, 9):
        expected = torch.where(plain > 0, (plain + start - 2) % 7 + 1, 0)
        assert torch.equal(scheme.ids(batch, start), expected)
    assert torch.equal(ids > 0, plain > 0) and ids.max() == 7
    counted = (plain[0] == 1).nonzero()[0]
    starts = ids[:, counted].flatten()
    assert chisquare(starts.bincount(minlength=8)[1:]).pvalue > 0.001
    assert torch.equal(ids, torch.where(plain > 0, (plain + starts[:, None] - 2) % 7 + 1, 0))
    assert (ids[:, None] == torch.arange(1, 8)[:, None]).any(2).float().mean(0).std() < 0.03


def test_a_ring_without_a_limit_changes_nothing():
    """The setting of learned embeddings has the same name, and reaches the scheme as well."""
    _, batch = batch_of()
    for name in ("abacus", "coupled"):
        line, ring = (positions.choose_scheme(name)(ring=ring) for ring in (False, True))
        assert torch.equal(line.ids(batch, 5), ring.ids(batch, 5))
        one, other = (scheme.train_ids(batch, stream(0, "ring")) for scheme in (line, ring))
        assert torch.equal(one, other) and ring.ids_measure_distance


@pytest.mark.contract
def test_ids_of_a_prefix_do_not_depend_on_what_follows(scheme):
    """Decoding needs it: the slots ahead change nothing behind them."""
    form, batch = batch_of(40)
    problems = TASK.draw(40, 6, stream(0, "positions"))
    answer = torch.nn.functional.pad(problems.answer, (0, 3))
    longer = replace(problems, answer=answer, answer_length=problems.answer_length + 3)
    roomy = form.write(longer)
    sums = tasks.build_task({"name": "multi_operand_addition"})
    if scheme.incompatibility(formats.build_format({**STEPS, "pad": False}, sums)):
        pytest.skip("the scheme needs to know how long the sequence will be")
    short, long = scheme.ids(batch), scheme.ids(roomy)
    inside = torch.arange(batch.tokens.shape[1]) < batch.length[:, None] - 1
    width = batch.tokens.shape[1]
    assert (short.expand_as(inside)[inside] == long[:, :width].expand_as(inside)[inside]).all()


def test_coupled_digits_of_one_significance_share_an_id():
    for given in ({}, {"pad": True}, {"reverse_answer": False}, {"reverse_operands": False}):
        _, batch = batch_of(**given)
        ids = positions.choose_scheme("coupled")().ids(batch, 4)
        assert (ids[batch.place >= 0] == batch.place[batch.place >= 0] + 5).all()
        assert (ids[(batch.tokens == EOS) | (batch.tokens == PAD)] == 0).all()
        assert (ids[:, 0] == 0).all()


def test_a_level_that_the_format_has_not_is_refused():
    for form, most in (({}, 1), (STEPS, 2)):
        form = formats.build_format(form, tasks.build_task({"name": "multi_operand_addition"}))
        for level in range(1, 5):
            why = positions.choose_scheme("coupled")(level=level, limit=9).incompatibility(form)
            assert (why is None) == (level <= most)
            assert why is None or why.startswith(
                f"level {level} is missing; expected at most {most}"
            )


def test_equals_stands_next_to_the_digit_written_first():
    text = show_ids(positions.choose_scheme("coupled")(), "653", "49", reverse_answer=False)
    assert text == "^ 3 5 6 + 9 4 = 7 0 2 $ | 0 2 3 4 1 2 3 5 4 3 2 0"


def test_randomized_is_an_ordered_subset():
    _, batch = batch_of()
    scheme = positions.choose_scheme("randomized")(range=60, per_example=True)
    ids = scheme.train_ids(batch, stream(0, "ids"))
    assert (ids.diff(dim=1) > 0).all() and ids.max() <= 60 and (ids[:, 0] == 0).all()
    assert torch.equal(scheme.ids(batch), scheme.ids(batch))


def test_every_subset_is_as_likely():
    """A chi-squared test of all ordered subsets of a small range; false alarm 1 in 1,000."""
    _, batch = batch_of(5_000, 1)
    batch = batch[batch.length == 7]  # one has 0, and six ids are drawn out of eight
    scheme = positions.choose_scheme("randomized")(range=8, per_example=True)
    ids = scheme.train_ids(batch.trim(), stream(0, "subsets"))[:, 1:]
    subsets, counts = ids.unique(dim=0, return_counts=True)
    assert len(subsets) == 28 and chisquare(counts).pvalue > 0.001


def test_more_tokens_than_the_range_has_ids():
    _, batch = batch_of()
    with pytest.raises(SettingsError, match="^positions.range: 5 is too short for 23 tokens; exp"):
        positions.choose_scheme("randomized")(range=5).ids(batch)
