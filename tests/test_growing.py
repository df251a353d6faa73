"""Loops that grow with the question: a looped model on each sequence alone is the oracle."""

import pytest
import torch

from carry.config.settings import SettingsError
from carry.evaluation.decoding import decode_greedily
from carry.formats import EQUALS
from carry.models.hooks import Hooks
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.loop import Trainer
from model_cases import run_of, written

PER_LOOP = 3


def growing(positions="nope", **model):
    run = run_of(positions, "looped_entrance")
    own = {"name": "growing", "recurrences": 1, "tokens_per_loop": PER_LOOP}
    return run.model_copy(update={"model": {**run.model, **own, **model}})


def built(positions="nope", **model):
    return System(growing(positions, **model))


def looped_like(system):
    """Return a looped model with the same weights."""
    model = {name: of for name, of in system.run.model.items() if name != "tokens_per_loop"}
    plain = System(system.run.model_copy(update={"model": {**model, "name": "transformer"}}))
    plain.network.load_state_dict(system.network.state_dict())
    return plain


@pytest.mark.parametrize("positions", ["nope", "rope", "abacus_window"])
@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_token_has_the_logits_of_its_own_loops(positions, each, layers):
    """One sequence, cut after the token, in a looped model that reads `=` as the response."""
    system = built(positions, layers=layers, recurrences=each)
    plain, batch = looped_like(system), written(system, 4)
    ids = system.ids(batch)
    with torch.no_grad():
        logits = system.logits(batch, ids)
        for row in range(len(batch)):
            start = int(batch.start[row])
            for at in range(int(batch.length[row])):
                tokens = batch.tokens[row : row + 1, : at + 1].clone()
                tokens[:, start:] = EQUALS
                own = [of[row % len(of)][None] for of in ids]
                loops = each * -(-min(at + 1, start) // PER_LOOP)
                expected = plain.network(tokens, own, recurrences=loops)[0, -1]
                torch.testing.assert_close(logits[row, at], expected, rtol=1e-4, atol=1e-5)
        at = batch.response()[0]
        picked = system.logits(batch, ids, at)
    torch.testing.assert_close(picked, logits.gather(1, at[..., None].expand(picked.shape)))


def test_the_response_does_not_depend_on_itself():
    system, generator = built(), torch.Generator().manual_seed(0)
    batch = written(system)
    tokens = batch.tokens.clone()
    index = torch.arange(tokens.shape[1])
    noise = torch.randint(10, tokens.shape, generator=generator, dtype=tokens.dtype)
    noisy = torch.where(index >= batch.start[:, None], noise, tokens)
    at, ids = batch.response()[0], system.ids(batch)
    with torch.no_grad():
        assert torch.equal(system.network(tokens, ids, at), system.network(noisy, ids, at))


def test_decoding_writes_what_one_pass_says():
    """Also after errors, since no token of the response depends on another one."""
    system = built()
    problems = system.task.draw_for_cells(torch.full((9, 2), 3), stream(0, "growing"))
    decoded = decode_greedily(system, problems)
    seen = teacher_forced_pass(system, system.format.write_open_ended(problems))
    for row in range(len(problems)):
        ends = (decoded[row] == 13).nonzero()
        length = int(ends[0]) + 1 if len(ends) else decoded.shape[1]
        assert decoded[row, :length].tolist() == seen.predicted[row, :length].tolist()


def test_each_recurrence_is_that_of_a_model_with_fewer():
    system = built(recurrences=3)
    batch = written(system)
    ids, at = system.ids(batch), batch.response()[0]
    with torch.no_grad():
        steps = system.network.each_recurrence(batch.tokens, ids, at)
        for recurrence, logits in enumerate(steps, start=1):
            alone = system.network(batch.tokens, ids, at, recurrence)
            torch.testing.assert_close(logits, alone)


def test_hooks_are_refused():
    system = built()
    batch = written(system)
    with pytest.raises(SettingsError, match="'growing' has no hooks; expected 'transformer'"):
        system.network(batch.tokens, system.ids(batch), hooks=Hooks(["*.pattern"]))


def test_it_trains():
    run = growing()
    trainer = Trainer(run, 0, None).train()
    first = System(run, 0).network.state_dict()
    for name, weights in trainer.system.network.state_dict().items():
        if name.startswith("blocks"):
            assert not torch.equal(weights, first[name]), name
