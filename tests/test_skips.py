"""Training with jumps, gaps, packed problems and far digits; evaluation through a window."""

from __future__ import annotations

import math

import pytest
import torch

from carry import formats
from carry.config.settings import SettingsError
from carry.data import problem_sets
from carry.evaluation.ask import ask
from carry.evaluation.decoding import decode_greedily
from carry.evaluation.scoring import score_system
from carry.experiments.resolve import make_run
from carry.formats import ALPHABET, EOS
from carry.interpretability import far_ids
from carry.models.attention import NEUTRAL_KEYS, AttentionContext, FarKeys
from carry.models.encodings import IdRange, ModelSettings
from carry.models.encodings.learned import Learned
from carry.models.hooks import Hooks, LayerHook
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.inputs import make_inputs
from carry.training.loop import Trainer

ABACUS = {"ids": "abacus", "encoding": "learned", "offset": 20, "per_example": True}
COUPLED = {"ids": "coupled", "encoding": "learned", "limit": 30}
LEVELS = [{**COUPLED, "level": level} for level in (1, 2)]
SUMS = {
    "abacus": {"positions": [ABACUS]},
    "one offset": {"positions": [{**ABACUS, "per_example": False}]},
    "coupled": {"positions": [COUPLED]},
    "plain answers": {"positions": [COUPLED], "format": {"reverse_answer": False, "pad": True}},
    "levels": {
        "positions": LEVELS,
        "task": {"name": "multi_operand_addition"},
        "format": {"name": "scratchpad"},
    },
}


def build(positions, digits=6, training=None, **settings):
    """Return a small system of sums."""
    run = {"task": {"name": "addition"}, "model": {"width": 16, "heads": 2, "layers": 2},
           "training": {"digits": digits, "batch": 8, "steps": 2, **(training or {})},
           "evaluation": {"digits": digits, "starts": [1]}}  # fmt: skip
    return System(make_run({**run, **settings, "positions": positions}))


def draw(system, count=200, seed=0):
    digits = system.run.training.digits
    return system.format.write(system.task.draw(count, digits, stream(seed, "skips")))


def with_setting(name, **setting):
    settings = dict(SUMS[name])
    positions = [{**pair, **setting} for pair in settings.pop("positions")]
    return build(positions, **settings)


@pytest.mark.parametrize("jumps", [1, 4])
@pytest.mark.parametrize("name", SUMS)
def test_jumps_move_each_place_alike_and_never_to_an_id_in_use_or_next_to_one(name, jumps):
    system = with_setting(name, jumps=jumps)
    batch = draw(system)
    rows_with_jumps = 0
    for scheme in system.schemes:
        plain, ids = scheme.ids(batch), scheme.train_ids(batch, stream(1, "skips"))
        assert ((plain > 0) == (ids > 0)).all()
        assert ids.max() <= scheme.largest_id(system.training_extent())
        for before, after in zip(plain.tolist(), ids.tolist(), strict=True):
            places = dict(sorted(zip(before, after, strict=True)))  # the same in all numbers
            assert len({*zip(before, after, strict=True)}) == len(places)
            places.pop(0, None)
            moves = [after - before for before, after in places.items()]
            pieces = 1 + sum(one != other for one, other in zip(moves, moves[1:], strict=False))
            assert pieces <= jumps + 1
            rows_with_jumps += pieces > 1
            if pieces == 1:
                continue
            used = sorted(places.values())
            assert len({*used}) == len(used)
            # Past the end of a piece there is a free id, as past the end of a number.
            last = [places[p] for p in places if p + 1 not in places or
                    places[p + 1] != places[p] + 1]  # fmt: skip
            assert not {end + 1 for end in last} & {*used}
    # Half of the examples of one jump have one; more where up to four are drawn.
    share = rows_with_jumps / (len(system.schemes) * len(batch))
    assert name == "one offset" or (0.25 if jumps == 1 else 0.5) < share < (
        0.6 if jumps == 1 else 0.9
    )


@pytest.mark.parametrize("name", SUMS)
def test_the_loss_leaves_out_the_tokens_past_a_jump_and_no_others(name):
    system = with_setting(name, jumps=2)
    batch = draw(system)
    ids = system.train_ids(batch, stream(2, "skips"))
    left_out = torch.zeros(batch.tokens.shape, dtype=torch.bool)
    for scheme, drawn in zip(system.schemes, ids, strict=True):
        plain = scheme.ids(batch)
        for row in range(len(batch)):
            pairs = zip(plain[row].tolist(), drawn[row].tolist(), strict=True)
            moves = {place: after - place for place, after in pairs}
            for t in range(1, batch.tokens.shape[1]):
                own, query = int(plain[row, t]), int(plain[row, t - 1])
                past_jump = own > 1 and own - 1 in moves and moves[own] != moves[own - 1]
                crossing = own > 0 and query > 0 and moves[own] != moves[query]
                left_out[row, t] |= past_jump or crossing
    assert left_out.any()
    unknowable = system.unknowable(batch, ids)
    assert torch.equal(unknowable.expand_as(left_out), left_out)
    at, target, real = batch.response()
    inputs = make_inputs(batch, ids, "answer", unknowable)
    assert torch.equal(inputs.real, real & ~left_out.gather(1, at + 1))
    everything = make_inputs(batch, ids, "everything", unknowable)
    is_token = torch.arange(1, batch.tokens.shape[1]) < batch.length[:, None]
    assert torch.equal(everything.real, is_token & ~left_out[:, 1:])


@pytest.mark.parametrize("name", SUMS)
def test_gaps_keep_the_order_of_places(name):
    system = with_setting(name, gaps=True)
    batch, gaps = draw(system), 0
    for scheme in system.schemes:
        plain, ids = scheme.ids(batch), scheme.train_ids(batch, stream(4, "skips"))
        assert scheme.unknowable(batch, ids) is None
        assert ids.max() <= scheme.largest_id(system.training_extent())
        for before, after in zip(plain.tolist(), ids.tolist(), strict=True):
            places = dict(zip(before, after, strict=True))
            assert places.pop(0, 0) == 0
            found = [places[place] for place in sorted(places)]
            assert found == sorted({*found}) and found[0] >= 1
            gaps += found[-1] - found[0] > len(found) - 1
    share = gaps / (len(system.schemes) * len(batch))
    assert name == "one offset" or 0.3 < share < 0.6


def test_a_short_table_has_no_room_for_a_jump_in_the_longest_sums():
    system = build([{**COUPLED, "limit": 9}], digits=7)  # sums of 7 digits need all nine ids
    (scheme,) = system.schemes
    scheme = scheme.model_copy(update={"jumps": 1})
    batch = draw(system)
    plain, ids = scheme.ids(batch), scheme.train_ids(batch, stream(5, "skips"))
    moved = torch.where(plain > 0, ids - plain, 0)
    full = plain.amax(1) == 9
    assert full.any() and not moved[full].any() and ids.max() <= 9


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ({**ABACUS, "offset": 1, "jumps": 1}, "jumps 1 does not fit ids that always start at 1"),
        ({**COUPLED, "limit": None, "gaps": True}, "gaps true does not fit ids that always"),
        ({**COUPLED, "ring": True, "jumps": 2}, "jumps 2 does not fit ring true"),
        ({**COUPLED, "gaps": True, "jumps": 2}, "jumps 2 does not fit gaps true"),
        ({**COUPLED, "jumps": -1}, "jumps"),
        ({"ids": "index", "encoding": "learned", "jumps": 1}, "jumps: unknown setting"),
        ({**COUPLED, "encoding": "relative", "jumps": 1, "window": 1}, "not distances"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_settings_that_do_not_fit(pair, message):
    with pytest.raises(SettingsError, match=message) as error:
        build([pair])
    assert "\n" not in str(error.value) and "positions.0" in str(error.value)


@pytest.mark.parametrize("name", ["abacus", "coupled", "levels"])
def test_packed_problems_follow_each_other_and_share_no_id(name):
    settings = dict(SUMS[name])
    pairs = [{**pair, "limit": 60} for pair in settings.pop("positions")]
    pairs = [{k: v for k, v in pair.items() if k != "offset"} for pair in pairs]
    system = build(pairs, training={"packing": True}, **settings)
    batch = draw(system, 21)
    packed, ids = system.pack(batch, stream(6, "skips"))
    assert len(packed) == 10
    texts = [batch[row : row + 1].trim() for row in range(21)]
    pairs = {(*one.tokens[0].tolist(), *other.tokens[0].tolist()): (first, second)
             for first, one in enumerate(texts) for second, other in enumerate(texts)}  # fmt: skip
    used = [pairs[tuple(packed[row : row + 1].trim().tokens[0].tolist())] for row in range(10)]
    assert len({*sum(used, ())}) == 20 and used != sorted(used)
    for row, (one, other) in enumerate(used):
        first, second = texts[one], texts[other]
        cut, end = int(first.length), int(packed.length[row])
        at, target, real = packed[row : row + 1].response()
        assert torch.equal(target[real], second.tokens[0, int(second.start) :])
        for values in ids:
            one, other = values[row, :cut], values[row, cut:end]
            assert not {*one[one > 0].tolist()} & {*other[other > 0].tolist()}
    trainer = Trainer(system.run, 0, None)
    assert trainer.train().step == 2


def test_packing_needs_random_starts_and_ids_for_two_problems():
    with pytest.raises(SettingsError, match="'index' does not fit training.packing true"):
        build([{"ids": "index", "encoding": "learned"}], training={"packing": True})
    with pytest.raises(SettingsError, match="ids up to 10 do not fit training.packing true"):
        build([{**COUPLED, "limit": 10}], training={"packing": True})
    with pytest.raises(SettingsError, match="'coupled' does not fit .* no ring, jumps or gaps"):
        build([{**COUPLED, "jumps": 1}], training={"packing": True})
    with pytest.raises(SettingsError, match="training.batch: 1 does not fit packing true"):
        build([COUPLED], training={"packing": True, "batch": 1})
    with pytest.raises(SettingsError, match="longer 2.0 does not fit packing true; expected 1.0"):
        build([COUPLED], training={"packing": True, "longer": 2.0})


def test_a_batch_of_one_problem_in_a_ramp_is_not_packed():
    system = build([COUPLED], training={"packing": True, "batch": 8, "batch_ramp": 1.0, "steps": 4})
    trainer = Trainer(system.run, 0, None)
    for _ in range(4):
        trainer._update()
    assert math.isfinite(trainer._losses[-1])


# ---- The window ----------------------------------------------------------------------------------


def hide_by_loops(system, batch, window):
    """Return the attention weights of each layer, with keys hidden one by one."""
    (ids,) = system.ids(batch)
    ids = ids.expand(len(batch), -1)
    first = [next(place for place in row if place) for row in ids.tolist()]

    def mask(pattern):
        for row, query, key in torch.cartesian_prod(
            *map(torch.arange, (len(ids), *[ids.shape[1]] * 2))
        ):
            own = int(ids[row, query]) or first[row]
            far = abs(own - int(ids[row, key])) > window
            far = far and batch.tokens[row, key] not in formats.SIGN_TOKENS
            if far and ids[row, key] > 0:
                pattern[row, :, query, key] = 0.0
        return pattern / pattern.sum(-1, keepdim=True)

    replace = {f"{layer}.pattern": mask for layer in range(2)}
    return system.network(batch.tokens, system.ids(batch), hooks=Hooks(["logits"], replace))


@torch.no_grad()
@pytest.mark.parametrize("attention", ["plain", "fused", "auto"])
@pytest.mark.parametrize("scale", ["constant", "log"])
@pytest.mark.parametrize("pair", [ABACUS, {**COUPLED, "limit": 50}], ids=["abacus", "coupled"])
def test_the_window_hides_far_ids_and_no_signs_on_every_path(pair, attention, scale):
    """The weights that remain are those of a plain pass, renormalised: no factor changes."""
    model = {"width": 16, "heads": 2, "layers": 2, "attention": attention, "attention_scale": scale}
    system = build([pair], digits=4, model=model)
    system.network.eval()
    batch = system.format.write(system.task.draw(6, 12, stream(7, "skips"))).trim()
    expected = hide_by_loops(system, batch, 4 if pair is ABACUS else 5)
    plain = system.logits(batch, system.ids(batch))
    with system.read_from("window") as start:
        assert start == 1
        found = system.logits(batch, system.ids(batch))
        hooked = system.network(batch.tokens, system.ids(batch), hooks=Hooks())
    real = torch.arange(batch.tokens.shape[1]) < batch.length[:, None]
    for logits in (found, hooked):
        torch.testing.assert_close(logits[real], expected[real], rtol=1e-4, atol=1e-5)
    assert (found - plain)[real].abs().max() > 1e-3
    assert torch.equal(system.logits(batch, system.ids(batch)), plain)  # it ends with the block


@pytest.mark.parametrize("pair", [ABACUS, {**COUPLED, "limit": 50}], ids=["abacus", "coupled"])
def test_decoding_through_the_window_agrees_with_one_pass(pair):
    trainer = Trainer(build([pair], digits=3, training={"steps": 150, "batch": 64}).run, 0, None)
    system = trainer.train().system
    problems = system.task.draw_for_cells(torch.full((60, 2), 6), stream(8, "skips"))
    batch = system.format.write(problems)
    verdicts = {}
    for start in (1, "window"):
        with system.read_from(start) as first:
            result = teacher_forced_pass(system, batch, first)
        decoded = decode_greedily(system, problems, start)
        _, target, real = batch.response()
        width = decoded.shape[1]
        padded = torch.where(real, target, EOS)
        padded = torch.nn.functional.pad(padded, (0, width - padded.shape[1]), value=EOS)
        assert torch.equal((decoded == padded).all(1), result.exact)
        table = problem_sets.to_table("far", problems.lengths, problems, system.task)
        cells, _, _ = score_system(system, table, [start])
        assert cells["exact"].sum() == result.exact.sum()
        verdicts[start] = decoded
        question = [str(int("".join(map(str, row.tolist()[::-1])))) for row in problems.operands[0]]
        asked = ask(system, *question, start=start)["predicted"]
        assert [ALPHABET.index(symbol) for symbol in asked] == decoded[0, : len(asked)].tolist()
    assert not torch.equal(verdicts[1], verdicts["window"])


NEVER_FAR = {
    "a model with windows of its own": [
        {"ids": "abacus", "encoding": "relative", "window": [0, 1]}
    ],
    "ids on a ring": [{**COUPLED, "ring": True}],
    "a model without ids of places": [{"ids": "index", "encoding": "learned"}],
}


@pytest.mark.parametrize(("found", "pairs"), NEVER_FAR.items())
def test_far_keys_are_refused_where_none_can_be(found, pairs):
    system = build(pairs)
    match = f"start: 'window' .* does not fit {found}; expected"
    with pytest.raises(SettingsError, match=match), system.read_from("window"):
        pass
    with pytest.raises(SettingsError, match=f"window: .* does not fit {found}; expected None"):
        far_ids.measure_errors(system, 3, window=2)
    for field, settings in {
        "evaluation.starts: 'window'": {"evaluation": {"digits": 6, "starts": ["window"]}},
        "training.longer: 8.0": {"training": {"longer": 8.0}},
    }.items():
        with pytest.raises(SettingsError, match=f"{field} does not fit {found}; expected"):
            build(pairs, **settings)


def test_a_window_is_a_start_of_its_own_without_a_table_too():
    rope = {"ids": "coupled", "encoding": "rope"}
    assert build([rope]).distinct_starts(["window", 1, 2, "all"]) == ["window", 1]


# ---- Far digits that count several times ---------------------------------------------------------


@pytest.mark.parametrize("log_scale", [False, True])
def test_counting_far_keys_is_attention_to_that_many_copies_of_them(log_scale):
    times, rows, heads, tokens, width = 3, 2, 2, 7, 4
    draws = stream(10, "skips")
    query, key, value = torch.randn(3, rows, heads, tokens, width, generator=draws)
    ids = torch.tensor([[0, 1, 2, 5, 0, 1, 4], [3, 4, 5, 0, 8, 9, 3]])
    first = 1, 3  # of tokens without an id
    model = ModelSettings(width=8, heads=2)
    encodings = torch.nn.ModuleList([Learned(Learned.Settings(), model, IdRange(9))])
    symbols = torch.randint(8, 14, (rows, tokens), generator=draws)
    far_keys = FarKeys([1], float(times), formats.SIGN_TOKENS)
    context = AttentionContext(
        encodings, torch.arange(tokens)[None], [ids], tokens, True, symbols, far_keys,
        log_scale=log_scale,
    )  # fmt: skip
    found = context.attend(0, query, key, value, 0.5, None, LayerHook(0))
    for row, head, at in torch.cartesian_prod(*map(torch.arange, (rows, heads, tokens))):
        own = int(ids[row, at]) or first[row]
        copies = [
            times if other and abs(own - other) > 1 and symbol < 10 else 1
            for other, symbol in torch.stack([ids, symbols], dim=2)[row, : at + 1].tolist()
        ]
        seen = torch.arange(at + 1).repeat_interleave(torch.tensor(copies))
        factor = math.log(max(2, len(seen))) / math.log(NEUTRAL_KEYS) if log_scale else 1.0
        scores = 0.5 * factor * key[row, head, seen] @ query[row, head, at]
        expected = scores.softmax(0) @ value[row, head, seen]
        torch.testing.assert_close(found[row, head, at], expected)


def test_a_query_with_an_id_at_one_level_only_has_no_far_keys_at_the_other():
    """Only a query without any id looks for the first tokens with ids, at each level."""
    upper = torch.tensor([[0, 0, 4, 4, 9, 0, 0], [0, 5, 5, 0, 1, 0, 0]])
    lower = torch.tensor([[0, 3, 3, 9, 3, 3, 0]])
    tokens = torch.randint(8, 14, (2, 7), generator=stream(11, "skips"))
    found = FarKeys([1, 2], 0.0, range(0)).find([(upper, upper), (lower, lower)], tokens)
    assert found.shape == (2, 7, 7)
    for row, query, key in torch.cartesian_prod(torch.arange(2), *2 * [torch.arange(7)]):
        is_far = False
        for level, window in ((upper[row], 1), (lower[0], 2)):
            own = int(level[query])
            if upper[row, query] == lower[0, query] == 0:
                own = next(place for place in level.tolist() if place)
            is_far |= bool(own and level[key] and abs(own - int(level[key])) > window)
        assert bool(found[row, query, key]) == is_far
    nothing = torch.zeros((1, 7), dtype=torch.int64)
    assert not FarKeys([1], 0.0, range(0)).find([(nothing, nothing)], tokens).any()
    assert FarKeys([None], 0.0, range(0)).find([(upper, upper)], tokens) is None


def test_longer_draws_by_seed_and_step_so_that_training_resumes(tmp_path, monkeypatch):
    def open_trainer(path):
        run = build([ABACUS], training={"longer": 8.0, "steps": 4}).run
        return Trainer(run, 0, path)

    whole, path, counts = open_trainer(None).train(), tmp_path / "seed.safetensors", []
    half = open_trainer(path)
    count = half.system.count_as_longer
    monkeypatch.setattr(
        half.system, "count_as_longer", lambda times: counts.append(float(times)) or count(times)
    )
    for _ in range(2):
        half.system.network.train()
        half._update()
    half._save_checkpoint()
    again = open_trainer(path).train()
    assert len({*counts}) == 2
    assert all(1.0 <= count <= 8.0 ** (step / 4) for step, count in enumerate(counts))
    weights = [[*trainer.system.network.parameters()] for trainer in (whole, again)]
    assert all(torch.equal(*pair) for pair in zip(*weights, strict=True))
    assert whole.system.network.far_keys is None  # outside of steps all keys count once
    once = Trainer(build([ABACUS], training={"steps": 4}).run, 0, None).train()
    assert not torch.equal(weights[0][0], [*once.system.network.parameters()][0])
