"""What windows show: neighbours found by sorting are those found by comparing, at any length."""

import itertools

import pytest
import torch

from carry.config.settings import SettingsError
from carry.models import attention
from carry.models.encodings import Window
from carry.models.neighbours import MAX_TOKENS_PER_ID, NO_TOKEN, WindowedIds, find_neighbours
from carry.models.system import System
from carry.randomness import stream
from model_cases import MODELS, run_of, written
from test_encodings import WINDOWS


def slowly(levels, row, at, first):
    """Return what a query sees, by the definition in `Encoding`."""
    seen = []
    for key in range(at + 1):
        says = []
        for ids, (behind, ahead), absent in levels:
            one, other = int(ids[row, at]), int(ids[row, key])
            if absent not in (one, other):
                says.append(one - behind <= other <= one + ahead)
        if key == at or (first and key == 0) or (says and all(says)):
            seen.append(key)
    return seen


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_sorting_and_comparing_find_the_same_neighbours(seed, first):
    random = torch.Generator().manual_seed(seed)
    count, absents = 1 + seed % 3, [None, 0]
    levels = [
        WindowedIds(
            torch.randint(0, 6, (3, 40), generator=random),
            Window(*torch.randint(0, 3, (2,), generator=random).tolist()),
            absents[(seed + level) % 2],
        )
        for level in range(count)
    ]
    query = torch.randint(0, 40, (3, 11), generator=random)
    found = find_neighbours(levels, query, first)
    for row in range(3):
        for asked in range(11):
            seen = found[row, asked]
            expected = slowly(levels, row, int(query[row, asked]), first)
            assert seen[seen != NO_TOKEN].tolist() == expected
            assert (seen[len(expected) :] == NO_TOKEN).all()  # they stand at the end


def system_of(positions, model, attention):
    form = "steps" if "levels" in positions else "reversed"
    run = run_of(positions, model, form)
    return System(run.model_copy(update={"model": {**run.model, "attention": attention}}))


@pytest.mark.parametrize(("positions", "model"), [
    *((positions, "standard") for positions in WINDOWS),
    *zip(itertools.cycle(WINDOWS), (name for name in MODELS if name != "adaptive"), strict=False),
])  # fmt: skip
def test_gathered_attention_is_dense_attention(positions, model):
    """Logits and gradients, at all tokens and at those asked for."""
    found = []
    for setting in ("plain", "gathered"):
        system = system_of(positions, model, setting)
        batch = written(system, 5)
        ids, (at, _, _) = system.train_ids(batch, stream(0, "ids")), batch.response()
        whole, asked = system.logits(batch, ids), system.logits(batch, ids, at)
        (whole.square().mean() + asked.square().mean()).backward()
        gradients = [of.grad for of in system.network.parameters() if of.grad is not None]
        found.append([whole.detach(), asked.detach(), *gradients])
    for dense, gathered in zip(*found, strict=True):
        torch.testing.assert_close(gathered, dense, rtol=1e-4, atol=2e-5)


def test_neighbours_are_gathered_in_long_sequences_only(monkeypatch):
    system = system_of("abacus_window", "standard", "auto")
    batch, calls = written(system, 2), []
    monkeypatch.setattr(
        attention, "find_neighbours", lambda *args: calls.append(args) or find_neighbours(*args)
    )
    with torch.inference_mode():
        dense = system.logits(batch, system.ids(batch))
        assert not calls
        monkeypatch.setattr(attention, "GATHER_FROM_LENGTH", 4)
        monkeypatch.setattr(attention, "MAX_GATHERED_NUMBERS", 1000)  # a few queries at a time
        gathered = system.logits(batch, system.ids(batch))
    assert len(calls) == 1  # for all layers
    torch.testing.assert_close(gathered, dense, rtol=1e-4, atol=1e-5)


def test_memory_of_gathered_attention_is_linear():
    """Twice the digits, twice the numbers kept for the gradient: the dense way has four times."""
    system, sizes = system_of("abacus_window", "standard", "gathered"), []
    for digits in (40, 80):
        problems = system.task.draw_for_cells(torch.tensor([[digits, digits]]), stream(0, "long"))
        batch, kept = system.format.write(problems), []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x, kept=kept: kept.append(x.numel()) or x, lambda x: x
        ):
            system.logits(batch, system.ids(batch))
        sizes.append(sum(kept))
    assert sizes[1] < 2.1 * sizes[0]


def test_an_unbounded_neighbourhood_is_refused():
    """Numbers that all begin at id 1: a token sees one more for every operand."""
    level = WindowedIds(torch.ones(1, 2 * MAX_TOKENS_PER_ID, dtype=torch.long), Window(0, 0), None)
    with pytest.raises(SettingsError, match="a token attends to 512 others .* at most 256"):
        find_neighbours([level], torch.tensor([[2 * MAX_TOKENS_PER_ID - 1]]), True)
