"""Ids for models of others equal those of our schemes, whatever the format and the problem."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from carry import formats, ids, tasks
from carry.config.settings import SettingsError
from carry.formats import ALPHABET, EQUALS, PLUS
from carry.positions.abacus import Abacus
from carry.positions.coupled import Coupled
from carry.randomness import stream

STEPS = {"name": "scratchpad"}
# Formats in which every digit belongs to a number, and spaces are between numbers alone.
ALL = [
    ("addition", {}),
    ("addition", {"pad": True, "reverse_operands": False}),
    ("addition", {"reverse_operands": False, "reverse_answer": False}),
    ("addition", {"spaces": 0.5}),
    ("addition", {"hints": "cyclic"}),
    ("addition", {"name": "line", "sums": 3}),
    ("addition", {"name": "sub_task", "prefix": "ali"}),
    ("addition", {"name": "worded"}),
    ("bitwise_or", {}),
    ("comparison", {}),
    ("copying", {}),
    ("increment", {}),
    ("modular_addition", {"name": "binary"}),
    ("modular_addition", {"name": "one_hot"}),
    ("multi_operand_addition", STEPS),
    ("multiplication", {**STEPS, "pad": False}),
    ("parity", {**STEPS, "reverse_operands": True}),
    ("sorting", {"name": "labelled"}),
    ("sorting", {"name": "insertion_sort"}),
    ("subtraction", {}),
]
# Those whose level 1 is the place, with answers that are reversed: signs are below place 0.
COUPLED = [
    *ALL[:2],
    ("addition", {"pad": True}),
    ("addition", {"pad_to": 8, "reverse_operands": False}),
    ("addition", {"name": "line", "sums": 3}),
    ("bitwise_or", {}),
    ("multi_operand_addition", {}),
    ("multi_operand_addition", STEPS),
    ("multiplication", {"pad": "answer"}),
    ("parity", {}),
    ("subtraction", {}),
]


def write(task, given, count=60, digits=6):
    """Return a batch of random problems, and which tokens are in responses."""
    task = tasks.build_task({"name": task})
    form = formats.build_format(given, task)
    batch = form.write(task.draw(count, digits, stream(0, "own model")))
    index = torch.arange(batch.tokens.shape[1])
    return form, batch, (index >= batch.start[:, None])


def mark(form, batch, response):
    """Return the masks of coupled ids, from tokens alone."""
    signs = torch.tensor([ALPHABET.index(sign) for sign in f"+=>{form.task.sign}"])
    reverse = getattr(form, "reverse_operands", True)
    reverse = torch.full_like(response, reverse) if form.task.answer_is_reversed else reverse
    return {
        "is_digit": batch.tokens < PLUS,
        "is_sign": torch.isin(batch.tokens, signs),
        "reverse": response | reverse,
    }


@pytest.mark.contract
@pytest.mark.parametrize("pair", ALL, ids=str)
def test_abacus_ids_are_those_of_the_scheme(pair):
    _, batch, _ = write(*pair)
    is_digit = batch.tokens < PLUS
    assert torch.equal(ids.abacus(is_digit), Abacus().ids(batch))
    for settings in ({"offset": 9}, {"offset": 30, "jumps": 2}):
        expected = Abacus(**settings, per_example=True).train_ids(batch, stream(1, "ids"))
        assert torch.equal(ids.abacus(is_digit, **settings, generator=stream(1, "ids")), expected)


@pytest.mark.contract
@pytest.mark.parametrize("pair", COUPLED, ids=str)
def test_coupled_ids_are_those_of_the_scheme(pair):
    form, batch, response = write(*pair)
    masks = mark(form, batch, response)
    plain = Coupled().ids(batch)
    assert torch.equal(ids.coupled(**masks), plain)
    most = int(plain.max())
    for settings in ({"limit": most}, {"limit": most + 20}, {"limit": most + 9, "jumps": 3}):
        expected = Coupled(**settings).train_ids(batch, stream(1, "ids"))
        drawn = ids.coupled(**masks, **settings, generator=stream(1, "ids"))
        assert torch.equal(drawn, expected) and drawn.max() <= settings["limit"]


def test_ids_are_those_of_the_other_kinds_of_input():
    _, batch, response = write(*COUPLED[0])
    is_digit, is_sign = batch.tokens < PLUS, batch.tokens == EQUALS
    expected = ids.abacus(is_digit)
    for given in (is_digit.numpy(), is_digit.tolist()):
        assert torch.equal(ids.abacus(given), expected)
    coupled = ids.coupled(is_digit, is_sign, response)
    assert torch.equal(ids.coupled(is_digit.numpy(), is_sign.tolist(), response.numpy()), coupled)
    deep = is_digit.reshape(3, -1, is_digit.shape[1])
    assert torch.equal(ids.abacus(deep).flatten(0, 1), expected)
    assert torch.equal(ids.abacus(is_digit[0]), expected[0])
    draw = ids.abacus(is_digit, offset=50, generator=stream(0, "ids"))
    again = ids.abacus(deep, offset=50, generator=stream(0, "ids"))
    assert torch.equal(draw, again.flatten(0, 1)) and draw.dtype == torch.long


def test_each_problem_starts_for_itself_within_its_offset():
    is_digit = torch.ones(4_000, 3, dtype=torch.bool)
    drawn = ids.abacus(is_digit, offset=5, generator=stream(0, "ids"))
    assert torch.equal(drawn, drawn[:, :1] + torch.arange(3))
    counts = drawn[:, 0].bincount(minlength=6)
    assert counts[0] == 0 and len(counts) == 6 and counts[1:].min() > 700


def test_ids_with_jumps():
    """Rows are increasing inside numbers, alike in all numbers, and some are in pieces."""
    text = "12345678+12345678=12345678"
    is_digit = torch.tensor([[character.isdigit() for character in text]]).expand(500, -1)
    plain = ids.abacus(is_digit)
    drawn = ids.abacus(is_digit, offset=93, jumps=2, generator=stream(0, "ids"))
    parts = drawn[is_digit].view(500, 3, 8)
    assert (parts == parts[:, :1]).all() and drawn.max() <= 100
    cuts = (parts[:, 0].diff(dim=1) != 1).sum(1)
    assert {*cuts.tolist()} == {0, 1, 2}
    assert all(len({*row}) == 8 for row in parts[:, 0].tolist())
    lost = ids.unknowable(plain, drawn)
    first = parts[:, 0].diff(dim=1, prepend=parts[:, 0, :1] - 1) != 1
    assert torch.equal(lost[is_digit].view(500, 3, 8), first[:, None].expand(-1, 3, -1))


@pytest.mark.parametrize("pair", ALL, ids=str)
def test_unknowable_tokens_are_those_of_training(pair):
    _, batch, _ = write(*pair)
    scheme = Abacus(offset=40, jumps=2, per_example=True)
    drawn, plain = scheme.train_ids(batch, stream(2, "ids")), scheme.ids(batch)
    assert torch.equal(ids.unknowable(plain, drawn), scheme.unknowable(batch, drawn))
    assert not ids.unknowable(plain, torch.where(plain > 0, plain + 7, 0)).any()


@pytest.mark.parametrize("pair", ALL, ids=str)
def test_abacus_ids_of_a_prefix_are_a_prefix(pair):
    """So a model that writes token by token needs no ids but those of the tokens so far."""
    _, batch, _ = write(*pair, count=8)
    is_digit = batch.tokens < PLUS
    all_ids = ids.abacus(is_digit)
    for end in range(1, is_digit.shape[1]):
        assert torch.equal(ids.abacus(is_digit[:, :end]), all_ids[:, :end])


@pytest.mark.parametrize("pair", COUPLED, ids=str)
def test_coupled_ids_of_a_question_stay_while_a_reversed_answer_grows(pair):
    form, batch, response = write(*pair)
    masks = mark(form, batch, response)
    all_ids = ids.coupled(**masks)
    for end in range(int(batch.start.max()), batch.tokens.shape[1]):
        part = {name: mask if mask is True else mask[:, :end] for name, mask in masks.items()}
        assert torch.equal(ids.coupled(**part), all_ids[:, :end])


def test_ids_of_any_runs():
    """Against a loop over tokens, with digits at both ends, and runs side by side with signs."""
    kinds = torch.randint(3, (200, 12), generator=stream(0, "runs"))
    is_digit, is_sign = kinds > 0, kinds == 0
    reverse = torch.randint(2, (200, 1), generator=stream(1, "runs")).bool().expand(200, 12)
    abacus, coupled = ids.abacus(is_digit), ids.coupled(is_digit, is_sign, reverse)
    for row in range(200):
        order, texts = [], "".join("d" if digit else " " for digit in is_digit[row]).split(" ")
        places = []
        for text in texts:
            run = [*range(1, len(text) + 1)]
            order += [*run, 0]
            places += [*(1 + place for place in (run if reverse[row, 0] else run[::-1])), 1]
        assert abacus[row].tolist() == order[:-1]
        assert coupled[row].tolist() == places[:-1]


DIGITS = torch.tensor([[True, False, True]])
REFUSED = {
    "is_digit: float32 is no mask; expected bool": lambda: ids.abacus(torch.ones(2, 3)),
    "is_digit: int64 is no mask": lambda: ids.abacus(np.ones((2, 3), dtype=int)),
    "is_digit: 'abc' is no mask": lambda: ids.abacus("abc"),
    "is_digit: .* is no mask": lambda: ids.abacus([[True], [True, False]]),
    "is_digit: no tokens": lambda: ids.abacus(torch.tensor(True)),
    "abacus.offset: 0 does not fit": lambda: ids.abacus(DIGITS, offset=0),
    "abacus: offset 9 without a generator": lambda: ids.abacus(DIGITS, offset=9),
    "abacus.generator: 7 is none": lambda: ids.abacus(DIGITS, offset=9, generator=7),
    "abacus: jumps 2 does not fit ids that always start at 1": lambda: ids.abacus(
        DIGITS, jumps=2, generator=stream(0)
    ),
    "coupled: limit 9 without a generator": lambda: ids.coupled(DIGITS, limit=9),
    "coupled.limit: 1 is too small; expected at least 2": lambda: ids.coupled(
        DIGITS, limit=1, generator=stream(0)
    ),
    "is_sign: 1 x 4 tokens do not fit; expected 1 x 3": lambda: ids.coupled(
        DIGITS, torch.zeros(1, 4, dtype=torch.bool)
    ),
    "is_sign: a token is a digit too": lambda: ids.coupled(DIGITS, DIGITS),
    "ids: 1 x 2 tokens do not fit": lambda: ids.unknowable([[1, 2, 3]], [[1, 2]]),
    "plain: float32, 2 tokens; expected integers": lambda: ids.unknowable([1.5, 2.0], [1, 2]),
    "ids: 'abc' are no ids": lambda: ids.unknowable([1, 2, 3], "abc"),
    "plain: float32, 0 tokens": lambda: ids.unknowable([], []),
    "tokens: float32 are no tokens": lambda: ids.find_digits(torch.ones(2), None),
}


@pytest.mark.parametrize("words", REFUSED)
def test_wrong_input_is_refused_in_one_line(words):
    with pytest.raises(SettingsError, match=f"^{words}") as error:
        REFUSED[words]()
    assert "\n" not in str(error.value) and "expected" in str(error.value)


def make_tokenizer(pieces):
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[0]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[0]")


def test_digits_of_a_tokenizer():
    """Special tokens and words are none; with other characters a digit is no token of its own."""
    tokenizer = make_tokenizer(["[0]", *"0123456789+=", "12", "Ġ7", "H2O", "Ġ"])
    tokens = torch.tensor([[*tokenizer("653+49=702")["input_ids"], 0, 16]])
    expected = [character.isdigit() for character in "653+49=702"] + [False, False]
    assert ids.find_digits(tokens, tokenizer).tolist() == [expected]
    for token, text in ((13, "12"), (14, "Ġ7"), (15, "H2O")):
        with pytest.raises(SettingsError, match=f"^tokens: '{text}' is one token; expected a tok"):
            ids.find_digits(torch.tensor([[1, token]]), tokenizer)
