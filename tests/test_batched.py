"""Models trained together, heads taken apart and halved, and the majority by hand (fraknoi2024)."""

import itertools
import math
import os

import pandas as pd
import pytest
import torch

from carry.analyses import heads
from carry.config.settings import SettingsError
from carry.evaluation.regions import zero_failed_models
from carry.experiments.resolve import make_run
from carry.formats import EOS
from carry.interpretability.halvings import describe_halvings
from carry.interpretability.majority_constructions import (
    boundary_counts,
    draw_strings,
    find_errors,
    score_majority,
)
from carry.interpretability.majority_constructions import write_strings as written_by_hand
from carry.interpretability.majority_limits import classify_faults, tolerates_noise
from carry.models.constructions.minimal_majority import build_minimal_majority
from carry.models.system import System
from carry.randomness import stream
from carry.tasks import to_digits
from carry.training.batched import head_halving
from carry.training.batched.head_halving import (
    HeadOutputs,
    compute_separation,
    compute_shapley_values,
    select_heads,
)
from carry.training.batched.network import BatchedNetwork, make_string_counts
from carry.training.batched.trainer import BatchedTrainer, list_groups
from carry.training.jobs import COLUMNS, list_training_jobs, train_runs
from made_up_project import move_project

MODELS = {
    "thesis": {"output": False, "final_norm": False, "logit_bias": True},
    "projected": {"head_width": 3, "final_norm": False},
    "usual": {"biases": True, "initialisation": "t5"},
    "rms": {"norm": "rms", "output": False},
    "bare": {"norm": "none", "output": False},
    "printed": {"name": "fraknoi2024", "output": False, "final_norm": False, "logit_bias": True},
    "printed_with_root": {"name": "fraknoi2024", "norm_root": True},
}
STRINGS = ["0", "1", "2", "01", "0122", "111000", "2222221", "0101012", "120120120", "00000011"]


def run_of(model="thesis", task=None, **training):
    """Return a tiny run of models that can be trained together."""
    small = {"batched_seeds": True, "digits": 9, "examples": 60, "steps": 12, "batch": 16,
             "learning_rate": 0.01, "score_every": 4, "score_problems": 30,
             "checkpoint_every": 1000}  # fmt: skip
    shape = {"width": 8, "heads": 4, "feed_forward": False, "biases": False, **MODELS[model]}
    return make_run({"task": {"name": "noisy_majority", **(task or {})}, "model": shape,
                 "training": {**small, **training}})  # fmt: skip


def systems(model="thesis", count=3, dtype=torch.float64):
    """Return systems with weights that are all different from 0 and 1."""
    made = [System(run_of(model), seed) for seed in range(count)]
    for system in made:
        generator = stream(system.seed, "test")
        for weights in system.network.to(dtype).parameters():
            weights.data += 0.3 * torch.randn(weights.shape, generator=generator, dtype=dtype)
    return made


def written(system, strings=STRINGS):
    """Return problems as a batch, and how often each symbol is there."""
    problems = system.task.solve(*to_digits([[string] for string in strings]))
    counts = system.task.count_symbols(problems.operands, problems.lengths)
    return system.format.write(problems), counts


@pytest.mark.parametrize("model", MODELS)
def test_counts_tell_what_tokens_tell(model):
    """One by one, side by side from the tokens, and side by side from counts."""
    made = systems(model)
    together = BatchedNetwork(made)
    batch, counts = written(made[0])
    at = batch.start[:, None] + torch.tensor([-1, 0])
    alone = torch.stack([of.network(batch.tokens, [], at) for of in made])
    by_tokens = together.logits_from_tokens(batch.tokens[None].expand(3, -1, -1), at[None])
    both = [make_string_counts(counts, answered) for answered in (False, True)]
    by_counts = torch.stack([together.logits_from_counts(of) for of in both], dim=2)
    quickly = torch.stack([together.logits_from_products(of.by_section()) for of in both], dim=2)
    torch.testing.assert_close(by_tokens, alone, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(by_counts, alone, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(quickly, alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_seeds_trained_together_end_as_alone(dropout):
    run = run_of(dropout=dropout, keep_weights="best", halving="svc", halving_accuracy=0.6)
    together = BatchedTrainer(run, [0, 1, 2], None).train()
    for index, seed in enumerate(together.seeds):
        alone = BatchedTrainer(run, [seed], None).train()
        for name, weights in alone.weights()[0].items():
            torch.testing.assert_close(
                together.weights()[index][name], weights, rtol=1e-4, atol=1e-5
            )
        curve = [row["heads"] for row in together.curve if row["seed"] == seed]
        assert curve == [row["heads"] for row in alone.curve]


def test_dropout_behind_attention_alone_needs_no_tokens():
    """With no dropout on embeddings, the path by tokens is that by counts."""
    runs = [run_of(dropout=0.2, dropout_embeddings=share) for share in (0.0, 1e-12)]
    by_counts, by_tokens = (BatchedTrainer(run, [0, 1], None) for run in runs)
    for _ in range(4):
        batch = by_counts._next_batch()
        loss = by_counts._compute_losses(*batch)
        torch.testing.assert_close(by_tokens._compute_losses(*by_tokens._next_batch()), loss)
        by_counts.step += 1
        by_tokens.step += 1


def test_the_weights_that_are_kept_are_the_best_on_what_is_held_out():
    trainer = BatchedTrainer(
        run_of(keep_weights="best", steps=24, learning_rate=0.1), [0, 1, 2], None
    ).train()
    last = [of.clone() for of in trainer.network.weights.values()]
    for index, weights in enumerate(trainer.weights()):
        trainer.systems[index].network.load_state_dict(weights)
    again = BatchedNetwork(trainer.systems)
    strings = make_string_counts(trainer.held_out_counts)
    due = torch.where(strings.ones_win, 5, 4)
    right = (again.logits_from_counts(strings).argmax(-1) == due).float().mean(1)
    best = [max(r["exact"] for r in trainer.curve if r["seed"] == seed) for seed in (0, 1, 2)]
    assert right.tolist() == pytest.approx(best) == trainer.best_scores.tolist()
    assert all(map(torch.equal, last, trainer.network.weights.values()))


def test_the_weights_of_a_model_that_has_diverged_are_not_kept():
    trainer = BatchedTrainer(run_of(keep_weights="best", steps=24), [0, 1], None)
    trainer.train()
    kept = {name: weight.clone() for name, weight in trainer.best_weights.items()}
    with torch.no_grad():
        for weight in trainer.network.weights.values():
            weight[1] = math.nan
    trainer._losses = [torch.zeros(2)]
    trainer._score()
    assert trainer.curve[-1]["exact"] == 0 < trainer.curve[-2]["exact"]
    assert all(weight[1].equal(kept[name][1]) for name, weight in trainer.best_weights.items())


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_products_are_finite_where_a_missing_token_has_the_highest_score(scale):
    """The thesis' norm makes scores of more than 100, and float32 holds no power of e above 88."""
    together = BatchedNetwork(systems("printed", dtype=torch.float32))
    together.weights["blocks.0.query.weight"].data *= scale
    scores = together.scores_and_values()[0]
    assert (scores.amax() - scores.amin() > 200) == (scale > 1)
    for strings in (make_string_counts(written(systems()[0])[1], end) for end in (False, True)):
        found = together.logits_from_products(strings.by_section())
        due = together.logits_from_counts(strings)
        torch.testing.assert_close(found, due, rtol=1e-4, atol=1e-3 * scale)
        found.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in together.weights.values())


@pytest.mark.parametrize("model", ["thesis", "printed", "usual"])
def test_the_loss_of_everything_is_the_mean_over_all_tokens(model):
    trainer = BatchedTrainer(run_of(model, loss="everything"), [0, 1], None)
    trainer._start_epoch()
    rows = trainer._order[:, :16]
    losses = trainer._compute_losses(rows, None)
    for index, system in enumerate(trainer.systems):
        tokens = trainer.training_batch[rows[index]].tokens.long()
        logits = system.network(tokens, [])[:, :-1]
        pads = (tokens[:, :-1] == EOS).cumsum(1) > 0
        targets = tokens[:, 1:].masked_fill(pads, -100)
        due = torch.nn.functional.cross_entropy(logits.transpose(1, 2), targets)
        torch.testing.assert_close(losses[index], due, rtol=1e-5, atol=1e-6)


def test_seeds_with_the_loss_of_everything_end_as_alone():
    run = run_of(loss="everything", dropout=0.2)
    together = BatchedTrainer(run, [0, 1, 2], None).train()
    for index, seed in enumerate(together.seeds):
        alone = BatchedTrainer(run, [seed], None).train().weights()[0]
        for name, weights in together.weights()[index].items():
            torch.testing.assert_close(weights, alone[name], rtol=1e-4, atol=1e-5)


def test_dropout_of_embeddings_is_refused_with_the_loss_of_everything():
    with pytest.raises(SettingsError, match="dropout_embeddings 0.1 does not fit"):
        run_of(loss="everything", dropout_embeddings=0.1)


def test_every_problem_is_met_once_an_epoch_in_an_order_of_its_own():
    trainer = BatchedTrainer(run_of(), [0, 1], None)
    rows = []
    for trainer.step in range(4):
        rows.append(trainer._next_batch()[0])
    orders = torch.cat(rows, dim=1)
    assert torch.equal(orders.sort(dim=1).values, torch.arange(60).expand(2, -1))
    assert not torch.equal(orders[0], orders[1])


def test_heads_that_are_left_out_are_as_if_they_were_not_there():
    made = systems("thesis")
    together = BatchedNetwork(made)
    together.head_mask[1, [0, 2]] = 0.0
    made[1].network.load_state_dict(together.model_state(1, together.weights))
    batch, counts = written(made[1])
    alone = made[1].network(batch.tokens, [], batch.start[:, None] - 1)[:, 0]
    strings = make_string_counts(counts)
    torch.testing.assert_close(
        together.logits_from_counts(strings)[1], alone, rtol=1e-10, atol=1e-10
    )
    kept = torch.tensor([[0.0, 1.0, 0.0, 1.0]]).expand(3, -1).double()
    again = BatchedNetwork(systems("thesis")).logits_from_counts(strings, head_mask=kept)[1]
    torch.testing.assert_close(again, alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("strategy", ["random", "masked", "svc", "shapley", "shapley_learned"])
def test_halving_leaves_one_head(strategy):
    trainer = BatchedTrainer(run_of(halving=strategy, halving_accuracy=0.0), [0, 1], None).train()
    left = [[row["heads"] for row in trainer.curve if row["seed"] == seed] for seed in (0, 1)]
    assert left == ([[1, 1, 1]] * 2 if strategy == "masked" else [[4, 2, 1]] * 2)
    for weights in trainer.weights():
        values = weights["blocks.0.key_value.weight"].chunk(2)[1].unflatten(0, (4, 2))
        assert (values.abs().amax((1, 2)) > 0).sum() == 1


def test_halving_by_what_heads_have_learned_keeps_the_better_head():
    outputs = HeadOutputs(torch.randn(20, 4, 2), torch.arange(20) % 2 == 0)
    draws = stream(0, "test")

    def learned(team):
        return 0.5 + 0.4 * (3 in team) + 0.1 * (1 in team)

    kept = select_heads("shapley_learned", [0, 1, 2, 3], outputs, outputs, draws, learned)
    assert kept == [1, 3]


@pytest.mark.parametrize("root", [True, False])
def test_the_printed_norm_divides_by_the_variance(root):
    network = System(run_of("printed_with_root" if root else "printed")).network
    norm = network.blocks[0].before[0]
    x = torch.tensor([[1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0]]) * 4  # variance 16
    due = torch.tensor([-1.0, 1.0]).repeat(4) * (1.0 if root else 0.25)
    torch.testing.assert_close(norm(x)[0], due, atol=1e-5, rtol=1e-4)


def test_the_printed_first_weights_have_their_variances():
    """Section 2.7, with l = 4 layers and d = 64."""
    model = {"name": "fraknoi2024", "layers": 4, "width": 64, "heads": 2, "head_width": 40}
    network = System(make_run({"task": {"name": "addition"}, "model": model})).network
    factor = 2 / 3 * 4**0.5
    for layer, block in enumerate(network.blocks):
        last = layer == 3
        maps = {"query": block.query, "keys": block.key_value, "output": block.output,
                "up": block.feed_forward.up, "down": block.feed_forward.down}  # fmt: skip
        for name, linear in maps.items():
            before_relu = name == "up" or (name == "down" and not last)
            variance = factor * (2 if before_relu else 1) / 64
            assert linear.weight.var().item() == pytest.approx(variance, rel=0.1)
            assert linear.bias.abs().max() == 0
    assert network.tokens.weight.var().item() == pytest.approx(1 / 64, rel=0.2)


def test_runs_are_told_apart_by_what_halvings_do_to_them():
    """Heads are those that a point was measured with, so the drop is at the next point."""
    runs = {
        "small drops": ([4, 4, 2, 2, 1, 1], [0.5, 0.96, 0.9, 0.95, 0.94, 0.99]),
        "large drop": ([4, 2, 2, 1, 1, 1], [0.97, 0.6, 0.98, 0.9, 0.5, 0.97]),
        "not recovered": ([4, 2, 2, 1, 1, 1], [0.97, 0.6, 0.98, 0.5, 0.5, 0.7]),
    }
    curves = pd.concat([
        pd.DataFrame({"row": "a", "seed": seed, "step": range(6), "heads": of, "exact": exact})
        for seed, (of, exact) in enumerate(runs.values())
    ])  # fmt: skip
    table = describe_halvings(curves.sample(frac=1.0, random_state=0)).set_index("kind")
    assert table.loc[[*runs], "seed"].tolist() == [0, 1, 2]
    assert table["halvings"].tolist() == [2, 2, 2] and set(table["heads"]) == {1}
    assert table.loc["large drop", ["drop", "last_drop"]].tolist() == pytest.approx([0.37, 0.48])
    two_heads = curves[curves["seed"] == 0].query("step < 4")
    assert describe_halvings(two_heads)["kind"].tolist() == ["not recovered"]


def test_learning_curves_keep_the_number_of_heads(tmp_path, monkeypatch):
    move_project(monkeypatch, tmp_path)
    run = run_of(halving="random", halving_accuracy=0.0).model_copy(update={"seeds": 2})
    curves = train_runs([run])
    assert tuple(curves.columns) == COLUMNS["curves"]
    assert curves.groupby("seed")["heads"].agg(list).tolist() == [[4, 2, 1]] * 2
    cells = pd.DataFrame({"row": run.name, "seed": [0, 1], "exact": 5, "first_right": 5})
    with pytest.raises(KeyError, match="heads"):
        zero_failed_models(cells, curves.drop(columns="heads"), {run.name: run})


def test_a_model_that_is_not_halved_to_one_head_counts_as_wrong():
    """Of rows whose training halves heads; others keep all of theirs."""
    runs = {"halved": run_of(halving="svc"), "whole": run_of()}
    keys = {"row": ["halved", "halved", "whole"], "seed": [0, 1, 0]}
    curves = pd.DataFrame({**keys, "step": 9, "heads": [1.0, 2.0, 4.0]})
    cells = pd.DataFrame({**keys, "exact": 5, "first_right": 6})
    found = zero_failed_models(cells, curves, runs)
    assert found[["exact", "first_right"]].values.tolist() == [[5, 6], [0, 0], [5, 6]]


REFUSED = {
    "layers": ({"model": {"layers": 2}}, "model.layers: 2"),
    "feed-forward": ({"model": {"feed_forward": True}}, "model.feed_forward: True"),
    "norm place": ({"model": {"norm_place": "post", "output": True}}, "model.norm_place: 'post'"),
    "attention": ({"model": {"attention": "fused"}}, "model.attention: 'fused'"),
    "adaptive": ({"model": {"name": "adaptive"}}, "model.name: 'adaptive'"),
    "spaces": ({"format": {"spaces": 0.5}}, "format.spaces: 0.5"),
    "positions": ({"positions": [{"ids": "index", "encoding": "rope"}]}, "positions: "),
    "task": ({"task": {"name": "parity"}}, "task.name: 'parity'"),
    "fresh problems": ({"training": {"examples": None}}, "examples None"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_batched_computation_ignores_is_refused_before_training(name):
    """Else another model is trained, silently."""
    changes, words = REFUSED[name]
    settings = run_of().model_dump(exclude={"name"})
    for section, change in changes.items():
        both = isinstance(change, dict) and section != "task"
        settings[section] = {**settings[section], **change} if both else change
    if name == "adaptive":
        settings["model"] = {"name": "adaptive", "layers": 1, "recurrences": 2, "width": 8}
    with pytest.raises(SettingsError) as error:
        list_groups(make_run(settings))
    line = str(error.value)
    assert words in line and "runs.mine" in line and "batched_seeds" in line, line
    assert "expected" in line and "\n" not in line and len(line) < 500


def test_the_groups_of_seeds_do_not_depend_on_the_cores(monkeypatch):
    """Models round differently in a group of another size."""
    run, found = run_of().model_copy(update={"seeds": 5}), []
    for cores in (1, 2, 3):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cores=cores: {*range(cores)})
        found.append([seeds for _, seeds in list_training_jobs(run)])
    assert found == [[[0, 2, 4], [1, 3]]] * 3


def test_heads_that_do_not_fill_the_width_need_a_projection():
    with pytest.raises(SettingsError, match="output false with heads 4 of head_width 3"):
        model = {"width": 8, "heads": 4, "head_width": 3, "output": False}
        System(make_run({"task": {"name": "addition"}, "model": model}))


def test_a_separator_finds_a_line_and_needs_both_majorities():
    generator = stream(0, "points")
    points = torch.randn(400, 1, 2, generator=generator)
    ones = points[:, 0] @ torch.tensor([1.0, -2.0]) > 0.5
    found = HeadOutputs(torch.cat([points, 0 * points], dim=1), ones)
    assert compute_separation([0], found, found) > 0.98
    assert compute_separation([1], found, found) == max(
        ones.float().mean(), 1 - ones.float().mean()
    )
    with pytest.raises(SettingsError, match="all 400 strings have the majority 1"):
        compute_separation([0], found._replace(ones_win=ones | ~ones), found)


def worth(some):
    """Return what some of five players are worth: alone, in pairs, and all of them."""
    return sum(some) + 3.0 * ({0, 1} <= {*some}) - 2.0 * ({2, 4} <= {*some}) + (len(some) == 5)


def test_shapley_values_share_out_what_all_are_worth():
    values = compute_shapley_values(worth, range(5), stream(0, "test"))
    assert sum(values) == pytest.approx(worth(range(5)) - worth(()))
    assert values == pytest.approx([0.2 + 1.5, 1.2 + 1.5, 2.2 - 1, 3.2, 4.2 - 1])


def test_of_many_players_orders_are_sampled(monkeypatch):
    monkeypatch.setattr(head_halving, "SAMPLED_ORDERS", 400)
    exact = compute_shapley_values(worth, range(5), stream(0, "test"))
    monkeypatch.setattr(head_halving, "MAX_PLAYERS_EXACT", 4)
    values = compute_shapley_values(worth, range(5), stream(0, "test"))
    assert sum(values) == pytest.approx(worth(range(5)))
    assert values == pytest.approx(exact, abs=0.3) and values != exact


def test_the_better_half_is_kept():
    generator = stream(0, "heads")
    ones = torch.rand(300, generator=generator) < 0.5
    noise = [3.0, 0.1, 2.0, 0.5]
    outputs = [ones.float() + of * torch.randn(300, generator=generator) for of in noise]
    found = HeadOutputs(torch.stack(outputs, dim=1)[..., None], ones)
    assert select_heads("svc", [0, 1, 2, 3], found, found, generator) == [1, 3]
    assert select_heads("shapley", [0, 2, 3], found, found, generator) == [3]
    assert len(select_heads("random", [0, 1, 2, 3], found, found, generator)) == 2


COUNTS = torch.tensor([*itertools.product(range(12), range(12), (0, 1, 30))])


def wrong(large, length, dtype):
    """Return of which strings the model by hand says the wrong majority, or does not end."""
    network = BatchedNetwork([build_minimal_majority(large, length, dtype)])
    due = torch.where(COUNTS[:, 1] > COUNTS[:, 0], 5, 4)
    said = network.logits_from_counts(make_string_counts(COUNTS)).argmax(-1)[0]
    ends = (
        network.logits_from_counts(make_string_counts(COUNTS, after_answer=True)).argmax(-1)[0]
        == EOS
    )
    return COUNTS[(said != due) | ~ends]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("large", [12.0, 20.0, 80.0, 1000.0])
def test_one_head_by_hand_is_right_on_all_strings(large, dtype):
    assert not len(wrong(large, 60, dtype))


def test_the_threshold_of_the_thesis_is_lost_in_rounding_where_there_are_as_many():
    assert not len(wrong(12.0, None, torch.float64))
    lost = wrong(80.0, None, torch.float64)
    assert len(lost) and (lost[:, 0] == lost[:, 1]).all()
    few = wrong(2.0, 60, torch.float64)  # too small an N: twos are not far enough behind
    assert len(few) and (few[:, 2] > 0).any()


def test_read_token_by_token_a_large_number_is_lost_in_single_precision():
    """Among 200 symbols one more one moves what is found by less than a step between numbers."""
    found = score_majority([10_000.0], [200]).set_index(["dtype", "threshold"])["wrong"]
    assert found["float32", "mended"] > 0 and found["float64", "mended"] == 0


def test_noise_is_tolerated_as_far_as_the_model_shows():
    """The formula agrees with the strings themselves, wherever nothing is lost in rounding."""
    larges, lengths = [3.0, 3.5, 4.0, 4.5, 5.0, 6.0], [1, 2, 3, 5, 8, 13, 21]
    for threshold, part in score_majority(larges, lengths, dtypes=["float64"]).groupby("threshold"):
        sizes = part["large"].to_numpy(), part["length"].to_numpy()
        tolerated = tolerates_noise(*sizes, threshold)
        assert 0 < tolerated.sum() < len(part) and (tolerated == (part["ones"] == 0)).all()
        assert {*classify_faults(part)} == {"no fault", "noise: ones missed"}


def test_with_the_answers_of_the_thesis_every_majority_is_the_wrong_one():
    model = build_minimal_majority(12.0, 20)
    batch = written_by_hand(model, draw_strings(boundary_counts(20)[:60]))
    assert not find_errors(model, batch).any()
    with torch.no_grad():
        model.network.logits.weight[[4, 5]] *= -1
        model.network.logits.bias[[4, 5]] *= -1
    assert find_errors(model, batch)[:, 0].all()


def test_by_hand_looks_as_told():
    values = torch.tensor([[2.0, 0.0], [0.0, 4.0], [8.0, 8.0]])
    counts = torch.tensor([[1, 1, 5], [0, 0, 3]])
    equal = heads.attend_by_ratios(values, 1.0, float("inf"), counts)
    assert equal[:, 0].tolist() == [[1.0, 2.0], [0.0, 0.0]]
    assert heads.attend_by_ratios(values, 1.0, 1.0, counts)[1, 0].tolist() == [8.0, 8.0]


def test_metrics_of_heads_are_about_those_that_are_there():
    network = BatchedNetwork(systems(count=1, dtype=torch.float32))
    network.head_mask[0, 0] = 0.0
    counts = torch.randint(0, 9, (80, 3), generator=stream(0, "counts"))
    table = heads.score_head_sets(network, counts, counts, sizes=(1, 2))
    assert table["heads"].tolist() == ["1", "2", "3", "1 2", "1 3", "2 3"]
    assert table["learned"].between(0, 1).all() and table["separation"].between(0, 1).all()
    looked = heads.measure_ratios(network)
    scores = network.scores_and_values()[0][:, :, 0].detach()
    assert looked["w01"].iloc[0] == pytest.approx(float((scores[0, 0, 1] - scores[0, 0, 2]).exp()))
    assert len(looked) == 4
