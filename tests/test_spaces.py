"""Table 4.1 of ibrahimli2024 in plain digits, and spaces: as many as said, where they may stand."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from scipy.stats import chi2_contingency, chisquare

from carry import formats, tasks
from carry.config.settings import SettingsError
from carry.data.problems import LABEL_RANGE
from carry.evaluation import decoding
from carry.evaluation.decoding import compute_decoding_ids, decode_greedily, group_by_shape
from carry.experiments.resolve import make_run
from carry.formats import EOS, SPACE, to_text
from carry.models.system import System
from carry.randomness import hash_to_range, stream
from carry.tasks import to_digits

ADDITION = tasks.build_task({"name": "addition"})
PLAIN = {"begin": "$", "reverse_operands": False, "reverse_answer": False}
PRINTED = {
    "Plain": ({}, "$123+456=579$"),
    "Zero Padding": ({"pad_to": 5}, "$00123+00456=00579$"),
    "Reversed Operands": ({"reverse_operands": True}, "$321+654=579$"),
    "Reversed Answer": ({"reverse_answer": True}, "$123+456=975$"),
    "Reversed Both": ({"reverse_operands": True, "reverse_answer": True}, "$321+654=975$"),
}


def form_of(task=ADDITION, **given):
    return formats.build_format(given, task)


def all_labels(*numbers):
    """Return one problem with every label that there is."""
    one = ADDITION.solve(*to_digits([[*numbers]]))
    return replace(one[torch.zeros(LABEL_RANGE, dtype=torch.long)], label=torch.arange(LABEL_RANGE))


@pytest.mark.parametrize(("given", "printed"), PRINTED.values(), ids=PRINTED)
def test_formats_of_table_4_1(given, printed):
    batch = form_of(**{**PLAIN, **given}).write(ADDITION.solve(*to_digits([[123, 456]])))
    assert to_text(batch.tokens[0]) == printed


def test_a_longer_answer_is_written_as_it_is():
    form = form_of(**PLAIN, pad_to=5)
    problems = ADDITION.solve(*to_digits([[99999, 1], [7, 8], [0, 0]]))
    written = [to_text(row) for row in form.write(problems).tokens]
    assert written == ["$99999+00001=100000$", "$00007+00008=00015$_", "$00000+00000=00000$_"]
    assert to_text(form.write_open_ended(problems).tokens[1]) == "$00007+00008=00000$_"
    assert form.extent(5) == form.extent(5)._replace(longest_number=6, tokens=20)
    assert form.extent(3).tokens == form.extent(4).tokens == 19
    longer = ADDITION.solve(*to_digits([[123456, 1]]))
    for refuses in (lambda: form.extent(6), lambda: form.write(longer)):
        short = "^format.pad_to: 5 is too short, .* up to 6 digits; "
        with pytest.raises(SettingsError, match=short):
            refuses()


@pytest.mark.parametrize("rho", [0.29, 0.5, 1.0])
def test_how_many_spaces_and_where(rho):
    """At most so many for each symbol behind the first, and between two of the operands only."""
    plain, form = form_of(**PLAIN), form_of(**PLAIN, spaces=rho)
    problems = ADDITION.draw(1_000, 5, stream(0, "spaces"))
    bare, batch = plain.write(problems), form.write(problems)
    most = 0
    for row in range(len(problems)):
        written = to_text(bare.tokens[row, : bare.length[row]])
        spaced = to_text(batch.tokens[row, : batch.length[row]])
        assert spaced.replace(" ", "") == written
        question, answer = spaced.split("=")
        assert " " not in answer and question[1] != " " and question[-1] != " "
        limit = math.floor(Fraction(str(rho)) * (len(written) - 1))
        assert spaced.count(" ") <= limit
        assert set(to_text(batch.tokens[row, batch.length[row] :])) <= {"_"}
        most = max(most, int(batch.length[row]))
    longest = form.write(all_labels(99999, 99999)).length.max()
    assert most <= form.extent(5).tokens == longest


def test_spaces_are_drawn_evenly():
    """Chi-squared tests over all labels; false alarm 1 in 1,000 each, and nothing here moves."""
    batch = form_of(spaces=0.5).write(all_labels(123, 456))
    space = batch.tokens == SPACE
    count = space.sum(1)
    assert count.max() == 6  # half of the 12 tokens behind the first
    assert chisquare(count.bincount()).pvalue > 0.001
    symbol = (batch.tokens != SPACE).cumsum(1)  # a space stands in the gap behind so many symbols
    gap = symbol[space] - 2
    assert len(gap.bincount()) == 6 and chisquare(gap.bincount()).pvalue > 0.001
    for number in (1, 6):  # and so where few stand, and where many do
        some = (symbol[count == number])[space[count == number]] - 2
        assert chisquare(some.bincount()).pvalue > 0.001
    two = space & (count == 2)[:, None]
    first, second = (symbol[two] - 2).view(-1, 2).T  # in order, so that unequal pairs come twice
    pairs = torch.zeros(6, 6).index_put((first, second), torch.ones(len(first)), accumulate=True)
    expected = torch.ones(6, 6).triu() + torch.ones(6, 6).triu(1)
    upper = torch.ones(6, 6).triu() > 0
    share = expected[upper] / expected.sum() * pairs.sum()
    assert chisquare(pairs[upper], share).pvalue > 0.001


def test_what_is_drawn_for_a_key_is_splitmix64():
    """Against Python's own integers, and the first published numbers of the generator."""

    def slow(key):
        wrap, bits = 2**64 - 1, (key + 1) * 0x9E3779B97F4A7C15
        bits = ((bits & wrap) ^ ((bits & wrap) >> 30)) * 0xBF58476D1CE4E5B9 & wrap
        bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & wrap
        return bits ^ (bits >> 31)

    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [slow(key) for key in range(3)] == published
    keys = torch.tensor([0, 1, 2, 65535, 65535 << 16, 2**40 + 12345])
    for count in (1, 10, 2**31):
        expected = [(slow(key) >> 33) * count >> 31 for key in keys.tolist()]
        assert hash_to_range(keys, count).tolist() == expected
    some = hash_to_range(torch.arange(100_000), 17)
    assert chisquare(some.bincount()).pvalue > 0.001  # false alarm 1 in 1,000, as above
    table = (some[::2] * 17 + some[1::2]).bincount(minlength=17**2).view(17, 17)
    assert chi2_contingency(table).pvalue > 0.001


def system_of(positions=(), **form):
    model = {"layers": 1, "width": 16, "heads": 2}
    sizes = {"training": {"digits": 4}, "evaluation": {"digits": 4}}
    given = {"task": {"name": "addition"}, "positions": list(positions), "model": model}
    return System(make_run({**given, **sizes, "format": form}))


ABACUS = {"ids": "abacus", "encoding": "learned", "table": 70}


@pytest.mark.parametrize(
    ("ids", "start", "form"),
    [
        ("abacus", 1, {}),
        ("coupled", "all", {}),
        ("index", 1, {}),
        ("abacus", "all", {"name": "sub_task", "prefix": "rev"}),
        ("coupled", 1, {"name": "line", "text": [0, 2]}),
    ],
)
def test_rows_are_decoded_as_they_would_be_alone(ids, start, form, monkeypatch):
    """With ids of their own, from a start that does not depend on where spaces fall in others."""
    monkeypatch.setattr(decoding, "MOST_STARTS", 3)
    positions = {"abacus": ABACUS, "coupled": {**ABACUS, "ids": "coupled"},
                 "index": {"ids": "index", "encoding": "rope"}}  # fmt: skip
    extra = {} if form.get("name") == "line" else {"spaces": 0.5}
    system = system_of([positions[ids]], **extra, **form)
    cells = torch.tensor([[2, 2], [1, 3]]).repeat(8, 1)
    problems = ADDITION.draw_for_cells(cells, stream(0, "alone"))
    together = decode_greedily(system, problems, start)
    groups = group_by_shape(problems, system.format)
    assert len(groups) > 4 and sorted(torch.cat(groups).tolist()) == [*range(16)]
    written = system.format.write_open_ended(problems)
    for rows in groups:
        assert (
            len(written.start[rows].unique()) == 1
            and len(problems.lengths[rows].unique(dim=0)) == 1
        )
        ids = compute_decoding_ids(system, problems[rows], written[rows], start)[-1][0]
        shared = ids.expand(len(rows), -1)
        for at, row in enumerate(rows[:3].tolist()):
            of_row = slice(row, row + 1)
            own = compute_decoding_ids(system, problems[of_row], written[of_row], start)[-1][0]
            assert torch.equal(shared[at], own[0])
    for row in range(16):
        alone = decode_greedily(system, problems[row : row + 1], start)[0]
        assert torch.equal(together[row, : len(alone)], alone)
        assert (together[row, len(alone) :] == EOS).all()
