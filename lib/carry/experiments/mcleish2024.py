"""Sums, bitwise OR, products and sorting, with Abacus ids and looped models (mcleish2024).

`injected`: the embedded input is added again before every layer. `looped`: the same, with fewer
layers and several recurrences (`looped_4`: four). `short`, `middle`, `long`, `longest`: other
trained lengths.
"""

from __future__ import annotations

from typing import Any

from carry.experiments.base import BASE, NOTEBOOK, SMOKE, Row, Settings, ids, merge, row

# ---- Scales --------------------------------------------------------------------------------------

# Table 5, A.5 and, for what the paper does not state, the defaults of its released code. The
# paper's intermediate size, 2048, counts both halves of the gate: with 1024 hidden units, without
# biases and with the read-out of the released code, parameter counts agree with Table 3. The steps
# are ours: the paper trained for 24 hours on one GPU, 8 exaFLOP or about 22,000 steps, with a
# schedule by time. Instead of its 20 million problems, new problems are drawn. Looped models also
# train with fewer recurrences (`progressive`). The paper states the weight 1.0, for which the
# released code draws one depth, up to the full depth. Here this would never train the full depth,
# so our weight differs.
PAPER = dict(
    seeds=3,
    model=dict(layers=16, width=1024, heads=16, head_width=None, hidden=1024,
               activation="gated_gelu", norm_place="post", norm_epsilon=1e-12, embedding_norm=True,
               biases=False, read_out=True, initialisation="deepnorm", attention_scale="constant"),
    training=dict(digits=20, steps=24000, batch=8192, optimizer="adamw", learning_rate=0.0001,
                  epsilon=1e-12, weight_decay=0.01, warmup=0.1, decay="trapezoid", cooldown=0.1,
                  batch_ramp=0.6, clip=0.5, precision="bf16", pool=2, score_every=500,
                  checkpoint_every=None, progressive=0.5),
    evaluation=dict(problem_set=None, digits=100, longest=160, starts=[1], band=False, far=[]))
# Smaller in size alone, for one GPU: hints and other tasks than sums.
SMALL_PAPER = merge(PAPER, dict(
    model=dict(layers=8, width=384, heads=6, hidden=384),
    training=dict(steps=9800, batch=1024, pool=4)))
# Sums on one GPU: small models of the kind that was tuned on two cores (`addition_abacus_20`), in
# larger batches. They have 3 layers, and 8 with Abacus ids, whose depths are compared. The norm of
# embeddings is off: `addition_abacus_looped_norm` has it.
GPU = dict(
    seeds=3, model=dict(layers=3, width=128, head_width=64, attention_scale="log"),
    training=dict(digits=20, steps=8000, batch=512, decay="trapezoid", cooldown=0.2,
                  precision="bf16", pool=16, score_every=500, checkpoint_every=None),
    evaluation=dict(problem_set=None, digits=100, longest=160, starts=[1], band=True))


def large(**changes: Any) -> Settings:
    """Return the same changes for the scales `gpu` and `paper`."""
    return dict(gpu=changes, paper=changes)


def as_in_paper(**changes: Any) -> Settings:
    """Return the paper's settings for both scales, smaller on one GPU."""
    return dict(gpu=merge(SMALL_PAPER, changes), paper=merge(PAPER, changes))


# ---- Positions and names -------------------------------------------------------------------------

FIRE_BIAS, ROPE_TURNS = ids("index", "fire"), ids("index", "rope")
# The id of a digit is its place in its number. Offsets are drawn for each example (in the paper for
# each batch), and tables are initialised with sine waves: in a short training both help to learn
# every id. For 5, 10 and 20 trained digits; sums of 120 digits need as many ids, and their waves
# have uniform rates (`base`).
WAVES: Settings = dict(per_example=True, initial="sinusoidal")
IDS_5 = ids("abacus", "learned", limit=30, **WAVES)
IDS_10 = ids("abacus", "learned", offset=25, **WAVES)
IDS_20 = ids("abacus", "learned", offset=101, even=True, base=None, **WAVES)
# The released code draws the first id from 1 to 101, and its tables have 512 rows.
PAPER_IDS = ids("abacus", "learned", offset=101, table=511)
NO_ZERO = dict(zero=False)  # numbers of one digit are 1 to 9 in the released code

WORDS = dict(
    nope="NoPE", learned="Learned index", rope="RoPE", fire="FIRE", abacus="Abacus",
    far="more ids", entrance="injection at the entrance", divided="gradient divided",
    everything="loss on all tokens", noise="random padding")


def describe(parent: Row) -> str:
    """Return the label of a row, or its name in words: schemes and `injected` or `looped`."""
    return parent.label or ", ".join(WORDS.get(part, part) for part in parent.name.split("_")[1:])


def variant(parent: Row, word: str, study: str, **changes: Any) -> Row:
    """Return a row that is called after its parent and a word; `short` is not repeated."""
    name, label = parent.name.removesuffix("_short"), describe(parent).removesuffix(", short")
    return parent.but(f"{name}_{word}", study, f"{label}, {WORDS.get(word, word)}", **changes)


def injected(parent: Row, study: str, laptop: Settings | None = None) -> Row:
    """Return a row with input injection."""
    return parent.but(f"{parent.name}_injected", study, model=dict(injection="every_layer"),
                      laptop=laptop, **large())


def looped(parent: Row, times: int | None = None, **changes: Any) -> Row:
    """Return an injected row as a loop (3.2, A.4.1): equal depth with fewer layers.

    It has one layer, as in the paper unless it states otherwise, or `times` recurrences; on a
    laptop always one layer, so that only other scales compare recurrences. A scale whose models
    are not that deep does not have the row.
    """
    many = times is not None and times > 2
    loops: Settings = dict(laptop=None) if many else {}
    loops["model"] = dict(layers=1, recurrences=merge(BASE, parent.settings)["model"]["layers"])
    for scale in ("gpu", "paper"):
        depth = parent.resolve(scale)["model"]["layers"] if scale in parent.scales else 0
        if depth >= (times or 1):
            loops[scale] = dict(model=dict(layers=depth // (times or depth),
                                           recurrences=times or depth))
    label = describe(parent) if many else parent.label
    return parent.but(
        parent.name.replace("injected", f"looped_{times}" if many else "looped"),
        label=label and label.replace("injected", f"looped {times} times" if many else "looped"),
        **merge(loops, changes))


# ---- Schemes -------------------------------------------------------------------------------------

# Six schemes with equal settings: no ids, index ids (0, 1, 2, ...), and ids of places (the `short`
# rows). They have the same layers, steps, optimizer, batch and format, and learned tables are
# initialised with sine waves. All train to 5 digits, because a model without ids learns slowly; it
# has to count, which needs three layers. The learning rate is the default, the best of three rates
# for the six schemes on the validation band, 6 and 7 digits (`addition_rates`). All rows are tested
# to three times the trained length. The first six seeds were known when 8 digits were chosen as the
# length of claims, which rest on the others.
EQUAL = dict(
    model=dict(layers=3, width=96), training=dict(digits=5, steps=1800, batch=96),
    evaluation=dict(problem_set="addition_to_15", digits=15, band=True))
NOPE = row("addition_nope", "addition_schemes", seeds=11, **EQUAL,
           smoke=SMOKE, gpu=GPU, paper=merge(PAPER, dict(task=NO_ZERO)))
LEARNED = NOPE.but(
    "addition_learned", positions=[ids("index", "learned", table=100, initial="sinusoidal")],
    smoke={},
    gpu=dict(positions=[ids("index", "learned", table=500, initial="sinusoidal")]),
    paper=dict(positions=[ids("index", "learned", table=500)]))
ROPE = NOPE.but("addition_rope", seeds=16, positions=[ROPE_TURNS], smoke={}, **large())
FIRE = NOPE.but("addition_fire", positions=[FIRE_BIAS], smoke={}, **large())
SHORT = NOPE.but(
    "addition_abacus_short", label="Abacus, short", positions=[IDS_5], smoke={},
    gpu=dict(positions=[IDS_20], model=dict(layers=8), training=dict(digits=10),
             evaluation=dict(longest=100, starts=[1, "all"])),
    paper=dict(positions=[PAPER_IDS], training=dict(digits=10)))
# With both operands reversed, without leading zeros, and with a table of ids.
COUPLED_SHORT = NOPE.but(
    "addition_coupled_short", label="Coupled, short",
    positions=[ids("coupled", "learned", limit=30, initial="sinusoidal")], smoke={})

# The parents of other rows: on a laptop as above, elsewhere trained to the paper's 20 digits. The
# rows with the names of ABACUS and LOOPED have more digits on a laptop (`ten_digits`).
ABACUS = SHORT.but(
    "addition_abacus", seeds=5, gpu=dict(training=dict(digits=20), evaluation=dict(longest=120)),
    paper=dict(training=dict(digits=20)))
INJECTED = injected(ABACUS, "addition_loops")
LOOPED = looped(INJECTED, 2)


def ten_digits(parent: Row, **changes: Any) -> Row:
    """Return the row with 10 digits on a laptop: for notebooks, and to change it (`ablations`)."""
    here = dict(seeds=1, publish=parent is ABACUS, positions=[IDS_10], evaluation=dict(band=False),
                smoke=merge(SMOKE, dict(seeds=2)), **large())
    return parent.but(parent.name, "addition_schemes", **merge(BASE, here, changes))


def combined(name: str, encoding: Settings, seeds: int = 11) -> Row:
    """Return Abacus with another encoding, which has injection in the paper (A.3.3, Fig. 6)."""
    changes = dict(model=dict(injection="every_layer"), training=dict(digits=20))
    return SHORT.but(name, seeds=seeds, positions=[IDS_5, encoding],
                     gpu=dict(positions=[IDS_20, encoding], **changes),
                     paper=dict(positions=[PAPER_IDS, encoding], **changes))


# `ablations` extends its range of ids.
LOOPED_10 = ten_digits(LOOPED, model=dict(layers=1), training=dict(steps=1300),
                       evaluation=dict(digits=15), paper=dict(seeds=5))
ROWS = [
    NOPE, LEARNED, ROPE, FIRE, SHORT,
    ten_digits(ABACUS, evaluation=dict(problem_set=None),
               notebook=merge(NOTEBOOK, dict(evaluation=dict(far=[])))),
    LOOPED_10,
    combined("addition_abacus_fire", FIRE_BIAS),
    COUPLED_SHORT,
    combined("addition_abacus_rope", ROPE_TURNS, seeds=16),
]

# Three learning rates for the six schemes. The rate is selected with other seeds than those of the
# reported rows, and only on the validation band.
ROWS += [
    variant(parent, word, "addition_rates", seeds=2, training=dict(learning_rate=rate),
            evaluation=dict(digits=7, band=False))
    for parent in (NOPE, LEARNED, ROPE, FIRE, SHORT, COUPLED_SHORT)
    for word, rate in (("slow", 0.002), ("medium", 0.004), ("fast", 0.008))
]

# ---- Looped models (3.2, A.4.1, A.6.3) -----------------------------------------------------------

# The paper has three seeds unless it states another number (Fig. 9).
NOPE_INJECTED, FIRE_INJECTED = (injected(parent, "addition_loops") for parent in (NOPE, FIRE))
NOPE_LOOPED, FIRE_LOOPED = (looped(parent, seeds=5) for parent in (NOPE_INJECTED, FIRE_INJECTED))
INJECTED_SHORT = SHORT.but(
    "addition_abacus_injected_short", "addition_loops", "Abacus, injected, short", seeds=5,
    model=dict(injection="every_layer"), **large())
LOOPED_SHORT = looped(INJECTED_SHORT)
LOOPED_4, LOOPED_8, LOOPED_16 = (looped(INJECTED, times) for times in (4, 8, 16))
ROWS += [
    INJECTED,
    # A LayerNorm of the sum of embeddings, as in the released code and not in the paper's text.
    LOOPED_SHORT.but("addition_abacus_looped_norm",
                     label="Abacus, looped, short, norm of embeddings",
                     model=dict(embedding_norm=True), paper={}),
    LOOPED_4, LOOPED_8, LOOPED_16, NOPE_INJECTED, NOPE_LOOPED, FIRE_INJECTED, FIRE_LOOPED,
    # Longer than in the paper: ids to 520.
    variant(LOOPED, "far", "addition_loops", laptop=None,
            gpu=dict(positions=[ids("abacus", "learned", offset=520, even=True, **WAVES)],
                     evaluation=dict(longest=160, starts=[1], far=[200, 500])),
            paper=dict(positions=[ids("abacus", "learned", offset=520)],
                       evaluation=dict(far=[200, 500]))),
]
# `entrance`: injection only before the first layer of each recurrence. `divided`: the gradients of
# looped layers are divided by the number of recurrences.
ROWS += [
    variant(parent, word, "addition_loops", model=change, laptop=None, **large())
    for word, change in (("entrance", dict(injection="entrance")),
                         ("divided", dict(divide_gradient=True)))
    for parent in (LOOPED, LOOPED_4, LOOPED_8)
]
ROWS += [INJECTED_SHORT, LOOPED_SHORT]

# Half and twice the depth.
SHALLOW = variant(INJECTED, "shallow", "addition_depths", laptop=None,
                  gpu=dict(model=dict(layers=4)), paper=dict(model=dict(layers=8)))
DEEP = variant(INJECTED, "deep", "addition_depths", laptop=None,
               gpu=dict(model=dict(layers=16)), paper=dict(model=dict(layers=32)))
ROWS += [parent if times == 1 else looped(parent, times, laptop=None)
         for parent in (SHALLOW, DEEP) for times in (1, 2, 4, 8)]

# ---- Trained lengths (Fig. 7, 8, 11) -------------------------------------------------------------

OTHERS = [NOPE, NOPE_LOOPED, FIRE, FIRE_LOOPED]
ONE_LAYER = looped(INJECTED)
ROWS += [
    variant(parent, word, "addition_lengths", laptop=None, **large(training=dict(digits=digits)))
    for word, digits, parents in (
        ("short", 10, OTHERS),
        ("long", 30, [ABACUS, ONE_LAYER, *OTHERS]),
        ("longest", 40, [ABACUS, INJECTED, ONE_LAYER, NOPE, NOPE_INJECTED, NOPE_LOOPED, FIRE,
                         FIRE_INJECTED, FIRE_LOOPED]))
    for parent in parents
]

# To the papers' 20 digits. A seed takes 9 to 15 minutes of one core. Attention logits scaled by the
# length, and waves of uniform rates, were first tried in single runs, which were tested on the
# reported lengths. The study `selection` selected each setting, these too, at lengths that are not
# reported. bf16 saves time for more steps. Two rows are compared with the first one, which has six
# seeds.
ABACUS_20 = row(
    "addition_abacus_20", "papers_lengths", "Abacus, 20 digits", seeds=11, positions=[IDS_20],
    model=dict(layers=3, head_width=64, attention_scale="log"),
    training=dict(digits=20, steps=4000, weight_decay=0.1, precision="bf16", decay="trapezoid",
                  cooldown=0.2),
    evaluation=dict(problem_set="addition_papers_lengths", digits=20, band=True,
                    far=[40, 60, 80, 100, 120, [20, 60], [60, 20], [20, 100], [100, 20], [60, 100],
                         [100, 60]]),
    paper=ABACUS.scales["paper"])
INJECTED_20 = ABACUS_20.but("addition_abacus_injected_20", label="Abacus, injected, 20 digits",
                            model=dict(injection="every_layer"), paper={})
LOOPED_20 = looped(INJECTED_20, 2, seeds=5, publish=True, paper=dict(seeds=5))
# With the settings that were selected for Abacus; in fp32 a seed takes 44 to 55 minutes.
NOPE_20 = ABACUS_20.but("addition_nope_20", label="NoPE, 20 digits", seeds=5, positions=[])
FIRE_20 = ABACUS_20.but("addition_fire_20", label="FIRE, 20 digits", seeds=5, positions=[FIRE_BIAS])
ROWS += [ABACUS_20, INJECTED_20, LOOPED_20, NOPE_20, FIRE_20]

# ---- Depth, loops and changes of training, trained to 10 digits ----------------------------------

# Fig. 3 and 12 to 17. At 20 digits these models solve a part of the sums. A row is called after its
# layers and recurrences. Loops are trained with the progressive loss, as in the paper (A.4.1).
INJECTED_10 = ABACUS_20.but(
    "addition_abacus_10_3x1", "addition_blocks", "Abacus, 3 x 1", seeds=5,
    positions=[IDS_20 | dict(offset=51)], model=dict(injection="every_layer"),
    training=dict(digits=10, steps=1500),
    evaluation=dict(digits=10, longest=30, far=[40], starts=[1], band=False))


def block(layers: int, times: int, word: str = "", label: str = "", **changes: Any) -> Row:
    """Return a row with some layers, applied several times."""
    return INJECTED_10.but(
        f"addition_abacus_10_{layers}x{times}{word}", label=f"Abacus, {layers} x {times}{label}",
        **merge(dict(model=dict(layers=layers, recurrences=times),
                     training=dict(progressive=0.5 if times > 1 else 0.0)), changes))


EVERYTHING, NOISE = dict(training=dict(loss="everything")), dict(training=dict(random_padding=0.05))
STANDARD_10 = dict(model=dict(injection="none"))
ROWS += [
    INJECTED_10, block(1, 3), block(6, 1), block(3, 2), block(2, 3), block(1, 6),
    block(1, 16, seeds=5),
    block(2, 3, "_entrance", ", injection at the entrance", model=dict(injection="entrance")),
    block(1, 3, "_divided", ", gradient divided", model=dict(divide_gradient=True)),
]
ROWS += [
    block(layers, times, f"{kind}{word}", f"{of_kind}, {WORDS[word[1:]]}", **merge(change, harm))
    for word, harm in (("_everything", EVERYTHING), ("_noise", NOISE))
    for layers, times, kind, of_kind, change in (
        (3, 1, "_standard", ", standard", STANDARD_10), (3, 1, "", "", {}), (1, 3, "", "", {}))
]

# One digit more, so that the first tested length is only one digit beyond: coupled ids next to
# NoPE, and loops without Abacus (Fig. 7). No longer sums than those of 8 digits are solved.
SIX = dict(seeds=5, training=dict(digits=6, steps=2400), evaluation=dict(band=False))
ROWS.append(COUPLED_SHORT.but("addition_coupled_6", "addition_blocks", "Coupled, 6 digits", **SIX))
for parent, name, words in ((NOPE, "nope", "NoPE"), (FIRE, "fire", "FIRE")):
    six = parent.but(f"addition_{name}_6", "addition_blocks", f"{words}, 6 digits", **SIX)
    ROWS += [six, six.but(f"{six.name}_looped", label=f"{words}, 6 digits, looped",
                          model=dict(layers=1, recurrences=3, injection="every_layer"),
                          training=dict(progressive=0.5))]

# Longer training problems go farther (Fig. 8, 10, 11), at equal steps for 20 and more digits.
ROWS += [
    ABACUS_20.but(f"addition_abacus_{digits}", "papers_lengths", f"Abacus, {digits} digits",
                  seeds=5, training=dict(digits=digits),
                  evaluation=dict(digits=digits, starts=[1], band=False, far=far))
    for digits, far in ((30, [40, 60, 80, 100, 120]), (40, [60, 80, 100, 120]))
]

# ---- Harmful changes (A.6.2, A.6.4) and index hints (A.6.5) --------------------------------------


def harmed(parent: Row, word: str, **training: Any) -> Row:
    """Return a row with a harmful change of training, to 20 digits."""
    return variant(parent, word, "addition_harms", seeds=5, training=training, laptop=None,
                   **large(training=dict(digits=20)))


# The loss includes the question; one question token in twenty follows a pad. On a laptop, blocks
# trained to 10 digits have these changes (above).
ROWS += [harmed(parent, "everything", loss="everything")
         for parent in (NOPE, FIRE, SHORT, LOOPED_SHORT)]
ROWS += [harmed(parent, "noise", random_padding=0.05, steps=2000)
         for parent in (*OTHERS, SHORT, LOOPED_SHORT)]

# Randomized ids. 102 letters suffice for 101 digits and a carry. `ordered`: letters do not wrap
# around, so that late letters are rare in training.
HINTS = row(
    "addition_randomized_fire_hints", "addition_hints", "Randomized FIRE, index hints", seeds=6,
    format=dict(hints="cyclic"), positions=[ids("randomized", "fire", range=256)],
    **merge(EQUAL, dict(training=dict(steps=3600))),
    **as_in_paper(task=NO_ZERO, positions=[ids("randomized", "fire", range=1024)],
                  evaluation=dict(longest=100)))
ROWS += [HINTS, variant(HINTS, "ordered", "addition_hints", format=dict(hints="ordered"),
                        laptop=None, **large())]
# With the settings of FIRE, half as many sums and three quarters of the steps: a sum has twice as
# many tokens. A wrong sum is decoded, so there are fewer lengths.
ROWS += [FIRE_20.but(
    "addition_randomized_fire_hints_20", "papers_tasks", f"{HINTS.label}, 20 digits", seeds=5,
    format=dict(hints="cyclic"), positions=[ids("randomized", "fire", range=640)],
    training=dict(steps=3000, batch=64), evaluation=dict(far=[40, 60, 100]))]

# ---- Other tasks (A.2, A.3) ----------------------------------------------------------------------

# The budget of OR is a 24th of that of sums, and that of products eight times it.
OR_NOPE = row(
    "bitwise_or_nope", "bitwise_or", seeds=16, task=dict(name="bitwise_or"),
    model=dict(width=64, head_width=32, attention_scale="log"),
    training=dict(digits=20, steps=800),
    evaluation=dict(problem_set="bitwise_or_to_100", digits=100),
    **merge(as_in_paper(evaluation=dict(longest=100)), dict(paper=dict(training=dict(steps=1000)))))
OR_FIRE = OR_NOPE.but("bitwise_or_fire", positions=[FIRE_BIAS], **large())
OR_ABACUS = OR_NOPE.but("bitwise_or_abacus", positions=[IDS_20], **large(positions=[PAPER_IDS]))
ROWS += [OR_NOPE, OR_FIRE, OR_ABACUS]
for parent in (OR_NOPE, OR_FIRE, OR_ABACUS):
    with_input = injected(parent, "bitwise_or")
    ROWS += [with_input, looped(with_input, laptop=None if parent is OR_ABACUS else {})]

# Products as in the paper: injection at the entrance, divided gradients, mean loss of samples. On a
# laptop to 3 by 3 digits (Fig. 5), and `long` to the paper's 15, which these steps do not teach.
PRODUCTS = row(
    "multiplication_fire_looped", "other_tasks", seeds=5, task=dict(name="multiplication"),
    positions=[FIRE_BIAS],
    model=dict(layers=2, recurrences=2, injection="entrance", divide_gradient=True),
    training=dict(digits=3, steps=12000, batch=64, precision="bf16", loss_average="sample"),
    evaluation=dict(digits=5),
    long=dict(seeds=1, training=dict(digits=15, steps=6000),
              evaluation=dict(problem_set="multiplication_to_20", digits=17)),
    **merge(
        as_in_paper(task=NO_ZERO, model=dict(recurrences=4),
                    training=dict(digits=15, learning_rate=0.00006),
                    evaluation=dict(digits=25, longest=25)),
        dict(gpu=dict(model=dict(layers=2)),
             paper=dict(model=dict(layers=4), training=dict(steps=192000)))))
ROWS += [
    PRODUCTS,
    PRODUCTS.but("multiplication_abacus_looped",
                 positions=[ids("abacus", "learned", offset=10, **WAVES)], long={},
                 **large(positions=[PAPER_IDS], training=dict(learning_rate=0.0001))),
    PRODUCTS.but("multiplication_abacus_fire_looped", laptop=None,
                 **large(positions=[PAPER_IDS, FIRE_BIAS])),
]

# Sorting, on a laptop to a third of the paper's lengths. Claims need five seeds that learn the
# trained lengths.
TEN_NUMBERS = dict(digits=10, longest=10, far=[20, 30, [10, 30], [30, 10]])
SORTING = row(
    "sorting_fire", "other_tasks", seeds=5, task=dict(name="sorting", numbers="uniform_lengths"),
    format=dict(name="labelled"), positions=[FIRE_BIAS], model=dict(layers=3, width=96),
    training=dict(digits=3, steps=6000, batch=96),
    evaluation=dict(problem_set="sorting_to_9", digits=3, longest=3,
                    far=[4, 6, 9, [3, 9], [4, 3], [9, 3]]),
    **as_in_paper(model=dict(layers=8), training=dict(digits=10), evaluation=TEN_NUMBERS))
SORTING_BOTH = SORTING.but("sorting_abacus_fire", seeds=6, positions=[IDS_10, FIRE_BIAS],
                           **large(positions=[PAPER_IDS, FIRE_BIAS]))
SORTING_INJECTED = injected(SORTING_BOTH, "other_tasks", laptop={})
ROWS += [
    SORTING,
    SORTING.but("sorting_abacus", seeds=8, positions=[IDS_10], **large(positions=[PAPER_IDS])),
    SORTING_BOTH, SORTING_INJECTED, looped(SORTING_INJECTED),
    # 12,000 steps teach 90% of the lists of the trained sizes.
    SORTING_BOTH.but(
        "sorting_abacus_fire_10", "papers_tasks", "Abacus + FIRE, 10 numbers", seeds=3,
        positions=[IDS_20, FIRE_BIAS], model=dict(width=128),
        training=dict(digits=10, steps=12000, batch=64, precision="bf16"),
        evaluation=TEN_NUMBERS | dict(problem_set="sorting_to_30")),
]
