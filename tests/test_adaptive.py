"""Tokens that halt by themselves: weights, costs and depths against a slow oracle, and training."""

import pytest
import torch

import slow
from carry.models.parameter_counts import count_parameters
from carry.models.system import System
from carry.training.loop import Trainer
from model_cases import loss_of, run_of, written


def built(positions="abacus_fire", form="reversed", training=(), **model):
    run = run_of(positions, "adaptive", form, **dict(training))
    return System(run.model_copy(update={"model": {**run.model, **model}}))


@torch.no_grad()
def halting_at(system, bias, spread=0.0):
    """Return the system with chances about a bias, which differ between tokens by a spread."""
    halting = system.network.halting
    halting.bias.fill_(bias)
    halting.weight.mul_(spread)
    return system


def halting_by(chances):
    """Return the weights of one token, the recurrences that it takes and its ponder cost."""
    found, spent = [], 0.0
    for recurrence, chance in enumerate(chances, start=1):
        if spent + chance >= 0.99 or recurrence == len(chances):
            rest = [0.0] * (len(chances) - recurrence)
            return [*found, 1 - spent, *rest], recurrence, recurrence + 1 - spent
        found.append(chance)
        spent += chance


def looped_like(system):
    """Return a looped model with the same weights, which does not halt."""
    model = {name: of for name, of in system.run.model.items() if name != "halting_bias"}
    plain = System(system.run.model_copy(update={"model": {**model, "name": "transformer"}}))
    state = system.network.state_dict()
    plain.network.load_state_dict({name: of for name, of in state.items() if "halt" not in name})
    return plain


@pytest.mark.parametrize("injection", ["none", "entrance", "every_layer"])
@pytest.mark.parametrize("norm_place", ["pre", "post"])
@pytest.mark.parametrize("everywhere", [True, False])
def test_halting_at_once_or_never_is_a_looped_model(injection, norm_place, everywhere):
    system = built(layers=2, injection=injection, norm_place=norm_place)
    plain, batch = looped_like(system), written(system)
    ids, at = system.ids(batch), None if everywhere else batch.response()[0]
    for bias, recurrences in ((30.0, 1), (-60.0, 4)):
        logits = halting_at(system, bias).logits(batch, ids, at)
        torch.testing.assert_close(logits, plain.logits(batch, ids, at, recurrences))
        taken = system.network.recurrences_taken(batch.tokens, ids, at)
        assert (taken.count == recurrences).all() and (taken.mean == recurrences).all()
    logits = system.logits(batch, ids, at, 7)  # free to differ from training
    torch.testing.assert_close(logits, plain.logits(batch, ids, at, 7))


def test_weights_are_those_of_a_looped_model_and_a_halting_unit():
    system = built()
    like = looped_like(system).run
    mine, plain = System(system.run).network.state_dict(), System(like).network.state_dict()
    assert {*mine} - {*plain} == {"halting.weight", "halting.bias"}
    assert all(torch.equal(mine[name], of) for name, of in plain.items())
    assert mine["halting.bias"].tolist() == [-0.5]
    assert count_parameters(system.run) == count_parameters(like) + 32 + 1


def slow_pass(network, tokens, ids, recurrences):
    """Return, of each token of one sequence, its stream after each recurrence and its chances."""
    start = slow.embedded(network, tokens, ids)
    x, streams, chances = start * 0, [], []
    for recurrence in range(recurrences):
        if recurrence == 0 or network.settings.injection != "none":
            x = x + start
        x = slow.through_block(network, x, ids)
        streams.append(x)
        chances.append((1 / (1 + (-network.halting(x)).exp()))[:, 0].tolist())
    return torch.stack(streams, dim=1), list(zip(*chances, strict=True))


@pytest.mark.parametrize("injection", ["none", "every_layer"])
@pytest.mark.parametrize("positions", ["abacus_fire", "shaw"])
def test_every_token_against_a_slow_oracle(positions, injection):
    """Logits after each recurrence, depths and costs, in float64."""
    system = halting_at(built(positions, injection=injection), -0.7, 3.0)
    network, batch = system.network.double(), written(system, 3)
    ids, seen, slowly = system.ids(batch), set(), []
    for row, length in enumerate(batch.length.tolist()):
        own = [of[row % len(of), :length].tolist() for of in ids]
        slowly.append(slow_pass(network, batch.tokens[row, :length].tolist(), own, 5))
    each = network.each_recurrence(batch.tokens, ids, None, 5)
    for few in range(1, 6):
        logits, costs = network(batch.tokens, ids, None, few), network._ponder_cost.detach()
        taken = network.recurrences_taken(batch.tokens, ids, None, few)
        torch.testing.assert_close(each[few - 1], logits)
        for row, of in enumerate(slowly):
            for token, (streams, chances) in enumerate(zip(*of, strict=True)):
                parts, count, cost = halting_by(chances[:few])
                assert float(costs[row, token]) == pytest.approx(cost)
                assert int(taken.count[row, token]) == count
                mean = sum(weight * step for step, weight in enumerate(parts, start=1))
                assert float(taken.mean[row, token]) == pytest.approx(mean)
                x = sum(weight * stream for weight, stream in zip(parts, streams, strict=False))
                expected = network.logits(network.final_norm(x))
                torch.testing.assert_close(logits[row, token], expected)
                seen.add(count)
    assert len(seen) >= 4


def test_depths_of_some_tokens():
    system = halting_at(built(), -0.7, 3.0)
    batch = written(system)
    ids, at = system.ids(batch), batch.response()[0]
    whole = system.network.recurrences_taken(batch.tokens, ids)
    for rows in (at, at[:1]):
        some = system.network.recurrences_taken(batch.tokens, ids, rows)
        rows = rows.expand(len(batch), -1)
        assert torch.equal(some.count, whole.count.gather(1, rows))
        torch.testing.assert_close(some.mean, whole.mean.gather(1, rows))


def test_chances_are_worked_out_in_full_precision():
    system = halting_at(built(), 0.0, 1.0)
    batch, seen = written(system), []
    system.network.halting.register_forward_hook(lambda *a: seen.append(a[2].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        system.logits(batch, system.ids(batch))
    assert seen == [torch.float32] * 3  # and none after the last recurrence


@pytest.mark.parametrize("loss", ["answer", "everything"])
def test_training_pays_for_the_tokens_that_are_asked(loss):
    losses = {}
    for ponder in (0.0, 0.5):
        system = built("rope", training={"loss": loss}, ponder=ponder)
        trainer = Trainer(system.run, 0, None)
        batch = trainer.batches.next(8)
        losses[ponder] = float(loss_of(trainer, batch).detach())
    network = trainer.system.network
    network(batch.tokens, trainer.system.ids(batch))
    first = [int(start) if loss == "answer" else 1 for start in batch.start]
    costs = [network._ponder_cost[row, token - 1] for row, start in enumerate(first)
             for token in range(start, int(batch.length[row]))]  # fmt: skip
    expected = 0.5 * float(torch.stack(costs).mean().detach())
    assert losses[0.5] - losses[0.0] == pytest.approx(expected, rel=1e-4)


def test_a_penalty_is_of_training_and_paid_once():
    system, plain = built(), looped_like(built())
    batch = written(system)
    ids, (at, _, real) = system.ids(batch), batch.response()
    for of in (system, plain):
        of.logits(batch, ids, at)
    assert plain.network.penalty(real) is None
    assert system.network.penalty(real).requires_grad and system.network.penalty(real) is None
    with torch.no_grad():
        system.logits(batch, ids, at)
    system.network.eval()
    system.logits(batch, ids, at)
    assert system.network.penalty(real) is None


def test_training_learns_and_a_larger_ponder_takes_fewer_recurrences():
    taken = {}
    for ponder in (0.0, 0.1):
        training = {"digits": 1, "steps": 60, "batch": 32, "learning_rate": 0.01, "score_every": 20}
        system = built("coupled", "padded", training, ponder=ponder, halting_bias=-3.0)
        trainer = Trainer(system.run, 0, None).train()
        assert trainer.curve[-1]["loss"] < 0.8 * trainer.curve[0]["loss"]
        at, _, real = trainer.held_out.response()
        tokens, ids = trainer.held_out.tokens, trainer.system.ids(trainer.held_out)
        depth = trainer.system.network.recurrences_taken(tokens, ids, at)
        taken[ponder] = float(depth.count[real].float().mean())
    assert taken[0.1] < taken[0.0] - 0.5
