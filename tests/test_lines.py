"""Sums inside lines of text: written the same each time, right, marked, read, and certified."""

import re
from dataclasses import replace

import pytest
import torch
from scipy.stats import chisquare

from carry import formats, tasks
from carry.analyses import lines
from carry.analyses.lines import count_exact
from carry.certificates.contexts import (
    ConflictingContexts,
    compute_context_keys,
    extract_contexts,
)
from carry.certificates.verification import enumerate_contexts
from carry.config.settings import SettingsError
from carry.data.batch import NO_LEVEL, NO_PLACE
from carry.data.problems import LABEL_RANGE
from carry.evaluation.trained_models import load_committed
from carry.experiments.resolve import make_run
from carry.formats import FIRST_LETTER, PAD, SPACE, to_text
from carry.models.system import System
from carry.randomness import stream
from carry.tasks import to_digits
from mock_models import ForgetsCarries, Oracle
from pythons import digits_to_int

ADDITION = tasks.build_task({"name": "addition"})
GIVEN = {
    "short": {"text": [0, 3], "sums": [1, 3]},
    "text": {"text": [5, 12], "sums": 1},
    "sums": {"text": 0, "sums": 4},
}
SUM = re.compile(r"(\d+)\+(\d+)=(\d+)")


def form_of(**given):
    return formats.build_format({"name": "line", **given}, ADDITION)


def all_labels(*numbers):
    """Return one problem with every label that there is."""
    one = ADDITION.solve(*to_digits([[*numbers]]))
    return replace(one[torch.zeros(LABEL_RANGE, dtype=torch.long)], label=torch.arange(LABEL_RANGE))


@pytest.fixture(params=GIVEN.values(), ids=GIVEN)
def written(request):
    form, problems = form_of(**request.param), ADDITION.draw(200, 6, stream(0, "lines"))
    return form, problems, form.write(problems)


def characters(batch, row):
    return to_text(batch.tokens[row, : batch.length[row]])


def test_a_line_is_text_and_sums_that_are_right(written):
    """Each number is as one writes it, and not longer than its own, which the last sum has."""
    form, problems, batch = written
    counts, longest_text = set(), 0
    for row in range(len(problems)):
        line = characters(batch, row)
        found = SUM.findall(line)
        turned = [[number[::-1] for number in of] for of in found]
        for a, b, c in turned:
            assert int(a) + int(b) == int(c)
            assert all(str(int(n)) == n for n in (a, b, c))
        lengths = problems.lengths[row].tolist()
        assert max(len(n) for a, b, _ in turned[:-1] or turned for n in (a, b)) <= max(lengths)
        own = [digits_to_int(problems.operands[row, k], lengths[k]) for k in range(2)]
        assert list(map(int, turned[-1][:2])) == own
        assert line[0] == "^" and line[-1] == "$" and line[batch.start[row] - 1] == "="
        between = SUM.sub("|", line[1:-1]).split("|")
        assert between[-1] == "" and re.fullmatch("[a-z |]*", "|".join(between))
        assert all(of[0] == " " for of in between[1:-1])  # which ends the sum before it
        sizes = [len(of) - bool(index) for index, of in enumerate(between[:-1])]
        assert min(sizes) >= form.text[0] and max(sizes) <= form.text[1]
        counts, longest_text = counts | {len(found)}, max(longest_text, *sizes)
    assert counts == set(range(form.sums[0], form.sums[1] + 1)) and longest_text == form.text[1]


def test_marks_of_lines(written):
    """Letters have none; numbers are counted through the line, and level 2 counts its sums."""
    _, _, batch = written
    for row in range(len(batch)):
        marks = [of[row].tolist() for of in (batch.number, batch.place)]
        levels = batch.levels[row].tolist()
        line = characters(batch, row)
        for at in range(batch.tokens.shape[1]):
            if at >= len(line) or line[at] in "^$" or not line[at].isascii() or line[at].isalpha():
                assert levels[at] == [NO_LEVEL] * 2
            if at >= len(line) or not line[at].isdigit():
                assert [of[at] for of in marks] == [0, NO_PLACE]
        for index, found in enumerate(SUM.finditer(line)):
            for part in (1, 2, 3):
                span = range(*found.span(part))
                places = [*range(len(span))]
                assert [marks[0][at] for at in span] == [3 * index + part] * len(span)
                assert [marks[1][at] for at in span] == places
                assert [levels[at] for at in span] == [[place + 1, index] for place in places]
            assert levels[found.end(1)] == levels[found.end(2)] == [0, index]


def test_a_line_is_written_the_same_with_more_sums_to_come():
    problems = ADDITION.draw(200, 6, stream(0, "lines"))
    one, more = (form_of(text=4, sums=of).write(problems) for of in (2, 3))
    for row in range(0, 200, 7):
        first = [SUM.search(characters(of, row)).group() for of in (one, more)]
        assert first[0] == first[1]


def test_the_longest_line_is_as_long_as_its_extent():
    longest = form_of(text=3, sums=2)
    lengths = longest.write(all_labels(9, 9)).length
    assert lengths.max() == longest.extent(1).tokens


def test_what_is_drawn_is_drawn_evenly():
    """Chi-squared tests over all labels; false alarm 1 in 1,000 each, and nothing here moves."""
    form, problems = form_of(text=[2, 6], sums=[1, 3]), all_labels(99, 999)
    batch = form.write(problems)
    sums = (batch.number.amax(1) // 3).bincount()[1:]
    assert len(sums) == 3 and chisquare(sums).pvalue > 0.001
    one = batch[batch.number.amax(1) == 3]
    drawn = torch.arange(one.tokens.shape[1]) < (one.start - 7)[:, None]
    drawn[:, 0] = False
    size = drawn.sum(1)
    assert chisquare(size.bincount()[2:]).pvalue > 0.001
    letters = one.tokens[drawn] - FIRST_LETTER
    letters = torch.where(one.tokens[drawn] == SPACE, 26, letters).bincount()
    assert len(letters) == 27 and chisquare(letters).pvalue > 0.001
    earlier = form._earlier_problems(problems, 0)
    cells = ((earlier.lengths[:, 0] - 1) * 3 + earlier.lengths[:, 1] - 1).bincount()
    assert len(cells) == 9 and chisquare(cells).pvalue > 0.001
    three = earlier.operands[earlier.lengths == 3].long()
    assert chisquare(three[:, 2].bincount()[1:]).pvalue > 0.001 and three[:, 2].min() == 1
    for place in (0, 1):
        assert chisquare(three[:, place].bincount()).pvalue > 0.001


def test_questions_are_ragged_if_anything_of_them_is_drawn():
    assert (
        form_of().variable_length
        and form_of(text=3, sums=2).variable_length
        and form_of(text=[0, 1]).variable_length
    )
    assert not form_of(text=3, sums=1).variable_length
    plain = formats.build_format({}, ADDITION).extent(5)
    assert form_of(text=0, sums=1).extent(5) == plain._replace(levels=(7, 1))


REFUSED = {
    "sums of many": ({"task": "multi_operand_addition"}, "'line' does not write MultiOperand"),
    "no sum": ({"sums": 0}, "format.sums: 0 does not fit, expected greater than or equal to 1"),
    "three numbers": ({"text": [1, 2, 3]}, r"format.text: \[1, 2, 3\] does not fit, expected"),
    "the most first": ({"text": [5, 2]}, r"format: text \[5, 2\] is empty; expected the"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_lines_that_cannot_be_written(name):
    given, said = REFUSED[name]
    given = dict(given)
    task = tasks.build_task({"name": given.pop("task", "addition")})
    with pytest.raises(SettingsError, match=said):
        formats.build_format({"name": "line", **given}, task)


PLACES = {"ids": "coupled", "level": 1, "encoding": "relative", "window": [0, 1]}
ROWS = {"ids": "coupled", "level": 2, "encoding": "relative", "window": 0}
ABACUS = {"ids": "abacus", "encoding": "relative", "window": [0, 1]}


def system_of(positions, kind=System, training=(), **form):
    return kind(make_run({
        "task": {"name": "addition"}, "format": {"name": "line", **form}, "positions": positions,
        "model": {"layers": 1, "width": 32, "heads": 2},
        "training": {"digits": 4, **dict(training)}, "evaluation": {"digits": 4},
    }))  # fmt: skip


def test_the_oracle_reads_the_last_sum_of_a_line():
    oracle = system_of([], Oracle)
    assert oracle.respond("^kq 7+5=21 x21+43=") == "64$"
    assert oracle.respond("^9+1=") == "01$"
    for around in ((0, 1), (30, 1), (3, 6)):
        assert count_exact(oracle, 5, *around, 10) == 10
        assert count_exact(system_of([], ForgetsCarries), 12, *around, 10) < 5


def of_context(some):
    """Return the tokens of each context as text, without padding."""
    return [to_text(of[of != PAD]) for of in some.tokens]


@pytest.mark.parametrize("sums", [3])
def test_contexts_of_a_sum_in_a_line_are_those_of_a_sum(sums):
    """Of ids of places and of sums; whatever stands around it, and however long it is."""
    bare = enumerate_contexts(system_of([PLACES, ROWS], text=0, sums=1))
    system = system_of([PLACES, ROWS], text=[0, 9], sums=[1, sums])
    found = enumerate_contexts(system)
    known = {bytes(key) for key in compute_context_keys(system, bare.contexts)}
    assert (
        found.complete
        and {bytes(key) for key in compute_context_keys(system, found.contexts)} == known
    )
    shown = set()
    for i, j in ((1, 1), (3, 2), (7, 7), (30, 4), (4, 30)):
        problems = ADDITION.draw_for_cells(
            torch.tensor([[i, j]] * 100), stream(0, "contexts", i, j)
        )
        for given in ({"text": [0, 9], "sums": [1, sums]}, {"text": [50, 50], "sums": [4, 4]}):
            batch = system.format.model_copy(update=given).write(problems)
            some = extract_contexts(system, batch, batch.response()[2])
            assert not any(letter.isalpha() for of in of_context(some) for letter in of)
            shown |= {tuple(key[key >= 0]) for key in compute_context_keys(system, some)}
    assert shown <= {tuple(key[key >= 0]) for key in compute_context_keys(system, found.contexts)}
    assert len(shown) > 1000


def test_places_alone_are_enough_for_text_and_not_for_sums():
    found = enumerate_contexts(system_of([PLACES], text=[0, 10], sums=1))
    assert found.complete and not any(letter in "".join(of_context(found.contexts))
                                      for letter in "abcdefghijklmnopqrstuvwxyz ")  # fmt: skip
    with pytest.raises(ConflictingContexts):
        enumerate_contexts(system_of([PLACES]))


def test_abacus_ids_show_all_letters_to_the_sign():
    system = system_of([ABACUS], text=50, sums=1)
    batch = system.format.write(ADDITION.draw_for_cells(torch.tensor([[3, 3]]), stream(0, "sign")))
    some = of_context(extract_contexts(system, batch, batch.response()[2]))
    letters = [sum(c.isalpha() or c == " " for c in of) for of in some]
    assert letters == [50] + [0] * (len(some) - 1)
    assert not enumerate_contexts(system).complete


def test_tables_of_lines():
    """Of a model that is proved to be right on all of them."""
    system = load_committed("addition_line_rows_relative")
    evaluation = system.run.evaluation.model_copy(update={"reach": [[4, 4, 5]]})
    system.run = system.run.model_copy(update={"evaluation": evaluation})
    table = lines.tables(system)["lines"]
    around = table[["characters", "sums"]].itertuples(index=False, name=None)
    assert [*around] == [*lines.SURROUNDINGS]
    assert (table["digits"] == 4).all() and (table[["n", "exact"]] == 5).all(axis=None)


def test_another_format_has_no_lines():
    with pytest.raises(SettingsError, match="'expression' does not fit 'lines'; expected 'line'"):
        count_exact(System(make_run({"task": {"name": "addition"}})), 3, 0, 1, 1)
