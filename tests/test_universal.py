"""An encoder and a decoder against a slow oracle: one sequence at a time, in plain loops."""

import math

import pytest
import torch

from carry.config.settings import SettingsError
from carry.evaluation.decoding import decode_greedily
from carry.experiments.resolve import make_run
from carry.formats import EOS, EQUALS
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.loop import Trainer
from test_adaptive import halting_by

LEARNED = [{"ids": "restarted", "encoding": "learned", "table": 40}]


def built(positions=LEARNED, form=None, training=None, **model):
    small = {"layers": 2, "width": 16, "heads": 2, "halting_bias": -0.7}
    return System(
        make_run(
            {
                "task": {"name": "addition"},
                "format": form or {},
                "positions": positions,
                "model": {"name": "universal", **small, **model},
                "training": {"digits": 3, "steps": 4, "batch": 8, **(training or {})},
                "evaluation": {"digits": 5},
            }
        )
    )


def written(system, count=6, digits=3):
    return system.format.write(system.task.draw(count, digits, stream(0, "universal")))


def heads_of(block, reader, source, sees):
    """Return what two heads find; `sees(q)` says which of the sources a query attends to."""
    query, (key, value) = block.query(reader), block.key_value(source).chunk(2, dim=1)
    width, found = query.shape[1] // 2, []
    for q in range(len(reader)):
        parts = []
        for head in (slice(0, width), slice(width, 2 * width)):
            logits = [float(query[q, head] @ key[k, head]) / math.sqrt(width) for k in sees(q)]
            scores = [math.exp(logit) for logit in logits]
            parts.append(
                sum(s / sum(scores) * value[k, head] for s, k in zip(scores, sees(q), strict=True))
            )
        found.append(torch.cat(parts))
    return torch.stack(found)


def mix(half, start, through):
    """Return the mixture of the streams of each token, and its ponder cost."""
    x, streams, chances = start * 0, [], []
    for recurrence in range(half.settings.recurrences):
        if recurrence == 0 or half.settings.injection != "none":
            x = x + start
        x = through(x)
        streams.append(x)
        chances.append(half.halting(x).sigmoid()[:, 0].tolist())
    mixed, costs = [], []
    for token in range(len(start)):
        weights, _, cost = halting_by([chance[token] for chance in chances])
        costs.append(cost)
        mixed.append(sum(w * of[token] for w, of in zip(weights, streams, strict=True)))
    return torch.stack(mixed), costs


def read(encoder, question):
    """Return the memory of one question: every token sees all of it."""

    def through(x):
        for block in encoder.blocks:
            source = block.before[0](x)
            x = x + block.output(heads_of(block, source, source, lambda q: range(len(question))))
            x = x + block.feed_forward(block.before[1](x))
        return x

    mixed, costs = mix(encoder, question, through)
    return encoder.final_norm(mixed), costs


def answer(network, start, memory):
    """Return the logits of an answer and its `=`, and their ponder costs."""

    def through(x):
        for block, across in zip(network.blocks, network.across, strict=True):
            source = block.before[0](x)
            x = x + block.output(heads_of(block, source, source, lambda q: range(q + 1)))
            reader = across.before[0](x)
            found = heads_of(across, reader, memory, lambda q: range(len(memory)))
            x = x + across.output(found)
            x = x + across.feed_forward(across.before[1](x))
        return x

    mixed, costs = mix(network, start, through)
    return network.logits(network.final_norm(mixed)), costs


@torch.no_grad()
def slow_pass(network, tokens, ids):
    """Return the logits after `=` and each token of the answer, and both halves' costs."""
    embedded = network.tokens.weight[tokens] + sum(
        encoding.rows.weight[own] for encoding, own in zip(network.encodings, ids, strict=True)
    )
    end = tokens.tolist().index(EQUALS)
    memory, first = read(network.encoder, embedded[: end + 1])
    logits, second = answer(network, embedded[end:], memory)
    return logits, first, second


@pytest.mark.parametrize("injection", ["none", "entrance"])
def test_answers_and_costs_of_questions_of_different_lengths(injection):
    system = built(injection=injection, ponder=0.3)
    network, batch = system.network.double(), written(system)
    for halting in (network.halting, network.encoder.halting):
        torch.nn.init.normal_(halting.weight)  # so that depths differ between tokens
    (ids,), (at, _, real) = system.ids(batch), batch.response()
    fast, first, second, depths = network(batch.tokens, [ids], at), [], [], set()
    assert len({*batch.start.tolist()}) > 1
    for row, length in enumerate(batch.length.tolist()):
        slow, asked, answered = slow_pass(network, batch.tokens[row, :length], [ids[row, :length]])
        count = int(real[row].sum())
        torch.testing.assert_close(fast[row, :count], slow[:count])
        first, second = first + asked, second + answered[:count]
        depths |= {*map(int, answered)}
    expected = 0.3 * (sum(first) / len(first) + sum(second) / len(second))
    assert float(network.penalty(real).detach()) == pytest.approx(expected)
    assert network.penalty(real) is None and len(depths) > 1


def test_decoding_with_a_cache_equals_full_passes():
    """Token by token, for questions of which none, some or all have ended."""
    system = built()
    problems = system.task.draw(9, 3, stream(0, "universal"))
    decoded, network = decode_greedily(system, problems), system.network.eval()
    for row in range(len(problems)):
        written = system.format.write_open_ended(problems[row : row + 1])
        tokens, end = written.tokens[:, : int(written.start[0])], False
        for token in decoded[row, : int(written.length[0] - written.start[0])]:
            expected = EOS if end else network(tokens, system.ids(written))[0, -1].argmax()
            assert token == expected
            end = end or token == EOS
            tokens = torch.cat([tokens, token[None, None]], dim=1)


def test_the_encoder_sees_later_tokens_and_the_decoder_only_the_memory():
    system = built()
    network, batch = system.network, written(system, 1)
    end, seen = int(batch.start[0]) - 1, {}
    original = network.encoder.read
    network.encoder.read = lambda x, *more: seen.setdefault("memory", original(x, *more))
    embedded = []
    network.tokens.register_forward_hook(lambda *a: embedded.append(a[2].requires_grad_()))
    logits = network(batch.tokens, system.ids(batch))
    first_of_memory = seen["memory"][0, 0].square().sum()
    (first,) = torch.autograd.grad(first_of_memory, embedded[0], retain_graph=True)
    assert first[0, : end + 1].abs().sum(1).all() and not first[0, end + 1 :].any()
    (direct,) = torch.autograd.grad(logits[0, end].square().sum(), seen["memory"])
    assert direct.abs().sum(2).all()


def test_training_learns_and_scores():
    training = {"digits": 1, "steps": 150, "batch": 64, "learning_rate": 0.01, "score_every": 50}
    run = built(training=training | {"optimizer": "muon"}, width=32).run
    trainer = Trainer(run, 0, None).train()
    assert trainer.curve[-1]["loss"] < 0.5 * trainer.curve[0]["loss"]
    problems = trainer.system.task.draw(20, 1, stream(0, "universal"))
    result = teacher_forced_pass(trainer.system, trainer.system.format.write(problems))
    decoded = decode_greedily(trainer.system, problems)
    for row, exact in enumerate(result.exact.tolist()):
        length = int(result.real[row].sum())
        assert (decoded[row, :length] == result.target[row, :length]).all() == exact


@pytest.mark.parametrize(
    ("positions", "training"),
    [
        ([{"ids": "index", "encoding": "t5"}], {}),
        ([{"ids": "abacus", "encoding": "relative", "window": 1}], {}),
        ([{"ids": "coupled", "encoding": "learned", "limit": 20}], {"longer": 4.0}),
    ],
)
def test_what_only_decoders_have_is_refused(positions, training):
    with pytest.raises(SettingsError, match="expected"):
        Trainer(built(positions, training=training).run, 0, None).train()
