"""Learning of sums of equally long numbers: loss and accuracy over training, and kinds of errors.

On test problems of each length: the loss and the correct places after each snapshot of training,
and the answers that greedy decoding writes with the last weights:

    right             the correct answer
    wrong digits      the correct number of tokens, some of them wrong
    stops early       a beginning of the correct answer, then the end token
    middle lost       beginning and end of the correct answer, without tokens between them
    shorter           other answers with too few tokens
    longer            too many tokens, or no end token

Nogueira et al. 2021 and ibrahimli2024 (3.4) describe "stops early" and "middle lost". An answer of
one token never counts as "middle lost".

With the last weights too: how certain each next token is, and how probable the end
(ibrahimli2024, 4.3.1); and whether an answer is the one that the model's own steps in words spell
(4.4.3).
"""

from __future__ import annotations

import math
import re

import pandas as pd
import torch
import torch.nn.functional as F

from carry.analyses import INTERVAL, LABELS, load_steps
from carry.data import problem_sets
from carry.data.problems import Problems
from carry.data.tables import concat_by_name
from carry.evaluation.decoding import decode_greedily
from carry.evaluation.intervals import add_interval
from carry.evaluation.scoring import locate_digits
from carry.formats import EOS, to_text
from carry.formats.worded import Worded
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.training.precision import use_precision

TASK = "addition"
MODEL = (*LABELS, "trained")
COLUMNS = {
    "losses": (*MODEL, "step", "digits", "n", "loss", "exact", "seen", *INTERVAL),
    "order": (*MODEL, "place", "n", "correct", "step", "digits", *INTERVAL),
    "answer_kinds": (*MODEL, "kind", "n", "count", "digits", *INTERVAL),
    "parts": (*MODEL, "part", "n", "exact", "digits", *INTERVAL),
    "next_tokens": (
        *MODEL, "token", "due", "new", "stops", "n", "entropy", "end", "correct", "right",
        "digits",
    ),
    "scratchpads": (*MODEL, "answer", "n", "agree", "steps_right", "digits", *INTERVAL),
}  # fmt: skip
HITS = {
    "losses": "exact", "order": "correct", "answer_kinds": "count", "parts": "exact",
    "scratchpads": "agree",
}  # fmt: skip
SNAPSHOT_PROBLEMS = 100  # of each length, after every snapshot
DECODED_PROBLEMS = 300  # of each length, with the last weights
KINDS = ("right", "wrong digits", "stops early", "middle lost", "shorter", "longer")


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Score the snapshots of a row, and classify the answers of its last weights.

    Returns:
        losses: for each `step` of training and number of `digits` (`seen` in training or not), the
            mean `loss` of a response token and how many of `n` responses are `exact`, under teacher
            forcing.
        order: for each `step`, number of `digits` and `place` of the answer (0: least
            significant), how many of `n` digits are `correct` under teacher forcing.
        answer_kinds: for each number of `digits`, how many of `n` decoded answers (`count`) are of
            each `kind`.
        parts: for each sub-task of a mixture (`part`, its prefix) and number of `digits`, how many
            of `n` responses are `exact`. Only for rows that were trained on a mixture.
        next_tokens: for each number of `digits` and what `score_next_tokens` tells apart, its sums.
        scratchpads: for each number of `digits` and right or wrong `answer`, what
            `score_scratchpads` counts. Only for rows with steps in words.
        All but next_tokens have intervals.
    """
    questions = problem_sets.load_questions(system.run)
    problems = {
        digits: problem_sets.to_problems(part, system.task).to(system.device)
        for digits, part in questions[questions["set"] == "equal"].groupby("i")
    }
    scores = {
        "answer_kinds": count_kinds,
        "parts": score_parts,
        "next_tokens": score_next_tokens,
        "scratchpads": score_scratchpads,
    }
    parts: list[dict[str, pd.DataFrame]] = []
    with use_precision("fp32", system.device):
        for step in load_steps(system):
            for digits, batch in problems.items():
                loss, places = score_answers(system, batch[:SNAPSHOT_PROBLEMS])
                scored = {"losses": pd.DataFrame([loss]), "order": places}
                labels = {"step": step, "digits": digits}
                parts.append({name: table.assign(**labels) for name, table in scored.items()})
        for digits, batch in problems.items():
            scored = {
                name: score(system, batch[:DECODED_PROBLEMS]) for name, score in scores.items()
            }
            parts.append({name: table.assign(digits=digits) for name, table in scored.items()})
    joined = concat_by_name(parts)
    joined["losses"]["seen"] = joined["losses"]["digits"].isin(system.run.trained_lengths())
    return {
        name: add_interval(table, HITS[name]) if name in HITS else table
        for name, table in joined.items()
        if len(table)
    }


@torch.inference_mode()
def score_answers(
    system: System, problems: Problems
) -> tuple[dict[str, float | int], pd.DataFrame]:
    """Return loss and exact responses of problems, and the correct digits of answers by place.

    >>> from carry.experiments.resolve import make_run
    >>> from carry.tasks import to_digits
    >>> system = System(make_run({"task": {"name": "addition"}}))
    >>> loss, places = score_answers(system, system.task.solve(*to_digits([[57, 48], [12, 30]])))
    >>> loss["n"], places["n"].tolist()  # 105 and 42
    (2, [2, 2, 1])
    """
    batch = system.format.write(problems)
    result = teacher_forced_pass(system, batch, keep_logits=True)
    loss = F.cross_entropy(result.logits[result.real].float(), result.target[result.real])
    place, is_digit = locate_digits(batch)
    columns = {"place": place[is_digit].cpu(), "n": 1, "correct": result.right[is_digit].cpu()}
    return (
        {"n": len(problems), "loss": float(loss), "exact": int(result.exact.sum())},
        pd.DataFrame(columns).groupby("place", as_index=False).sum(),
    )


def count_kinds(system: System, problems: Problems) -> pd.DataFrame:
    """Decode the answers to problems of one length, and count the answers of each kind."""
    _, target, real = system.format.write(problems).response()
    kinds = [
        classify_answer(to_text(written), to_text(due[ends]))
        for written, due, ends in zip(
            decode_greedily(system, problems, 1), target, real, strict=True
        )
    ]
    count = [kinds.count(kind) for kind in KINDS]
    return pd.DataFrame({"kind": KINDS, "n": len(problems), "count": count})


@torch.inference_mode()
def score_parts(system: System, problems: Problems) -> pd.DataFrame:
    """Count the exact responses to each sub-task of the training mixture, if there was one."""
    mixture = system.run.data_set.mixture if system.run.data_set else {}
    rows = []
    for prefix in mixture:
        batch = system.format.with_prefix(prefix).write(problems)
        exact = int(teacher_forced_pass(system, batch).exact.sum())
        rows.append({"part": prefix, "n": len(problems), "exact": exact})
    return pd.DataFrame(rows, columns=["part", "n", "exact"])


@torch.inference_mode()
def score_next_tokens(system: System, problems: Problems) -> pd.DataFrame:
    """Sum entropies and probabilities of the next tokens of responses, under teacher forcing.

    Returns:
        For each `token` (1: the first of the response), kind of token that is `due` ("digit",
        "sign" or "end"), whether its position is `new` (no sequence of training is so long), and
        whether the model `stops` there (the end is most probable): the number of tokens `n`, and
        sums over them of `entropy` (in shares of the largest, that of equal probabilities), of the
        probabilities of the `end` and of the `correct` token, and of digits that would be `right`
        without the end, which are most probable among all other tokens.

    Source: ibrahimli2024, 4.3.1, which decodes; here the tokens before are the correct ones.

    >>> from carry.experiments.resolve import make_run
    >>> from carry.tasks import to_digits
    >>> system = System(make_run({"task": {"name": "addition"}, "training": {"digits": 2}}))
    >>> table = score_next_tokens(system, system.task.solve(*to_digits([[57, 48], [12, 30]])))
    >>> table.groupby(["token", "due"])["n"].sum().to_dict()  # 105 and 42
    {(1, 'digit'): 2, (2, 'digit'): 2, (3, 'digit'): 1, (3, 'end'): 1, (4, 'end'): 1}
    """
    batch = system.format.write(problems)
    at, target, real = batch.response()
    result = teacher_forced_pass(system, batch, keep_logits=True)
    logits = result.logits.float()
    probabilities, without_end = logits.softmax(-1), logits.clone()
    without_end[..., EOS] = -torch.inf
    mixture = system.run.data_set.mixture if system.run.data_set else {}
    trained = [system.format.with_prefix(prefix) for prefix in mixture] or [system.format]
    longest = max(form.extent(max(system.run.trained_lengths())).tokens for form in trained)
    kind = 1 - (target < 10).int() + (target == EOS).int()  # an index into the names below
    columns = {
        "token": torch.arange(1, at.shape[1] + 1, device=at.device).expand_as(at),
        "due": kind,
        "new": at + 1 >= longest,
        "stops": result.predicted == EOS,
        "n": torch.ones_like(at),
        "entropy": torch.special.entr(probabilities).sum(-1) / math.log(logits.shape[-1]),
        "end": probabilities[..., EOS],
        "correct": probabilities.gather(-1, target[..., None])[..., 0],
        "right": (target < 10) & (without_end.argmax(-1) == target),
    }
    table = pd.DataFrame({name: values[real].cpu().numpy() for name, values in columns.items()})
    table = table.assign(due=table["due"].map(dict(enumerate(("digit", "sign", "end")))))
    return table.groupby(["token", "due", "new", "stops"], as_index=False).sum()


def score_scratchpads(system: System, problems: Problems) -> pd.DataFrame:
    """Decode steps in words, and compare each answer with the number that its own steps spell.

    Returns:
        For responses with a right and with a wrong `answer`, how many of `n` `agree` with their own
        steps, and of how many the steps spell the correct answer (`steps_right`). No rows for other
        formats.

    Source: ibrahimli2024, 4.4.3. Its released code counts `steps_right`, and calls it the accuracy
    of the answer with respect to the scratchpad.
    """
    columns = ["answer", "n", "agree", "steps_right"]
    if not isinstance(system.format, Worded):
        return pd.DataFrame(columns=columns)
    _, target, real = system.format.write(problems).response()
    rows = []
    for written, expected, ends in zip(
        decode_greedily(system, problems, 1), target, real, strict=True
    ):
        spelled, answer = read_scratchpad(to_text(written))
        correct = read_scratchpad(to_text(expected[ends]))[1]
        kind, agree = "right" if answer == correct else "wrong", bool(answer) and answer == spelled
        rows.append((kind, 1, int(agree), int(spelled == correct)))
    return pd.DataFrame(rows, columns=columns).groupby("answer", as_index=False).sum()


def read_scratchpad(text: str) -> tuple[str, str]:
    """Return the number that the lines of a response in words spell, and its answer.

    Both are empty where they cannot be read: without lines, and without an end after the answer.

    >>> read_scratchpad("7 5 + 8; c=0, 7+8+0=5, c=1; 5+0+1=6, c=0 65$$")
    ('65', '65')
    >>> read_scratchpad("7 5 + 8; c=0, 7+8+0=5, c=1|5$"), read_scratchpad("7 5 + 8; c=")
    (('15', '5'), ('', ''))
    """
    response, end, _ = text.partition("$")
    lines = re.findall(r"=(\d), c=(\d)", response)
    spelled = "".join(digit for digit, _ in reversed(lines))
    carry = lines[-1][1].strip("0") if lines else ""
    answer = re.search(r"[ |](\d+)$", response) if end else None
    return carry + spelled, answer[1] if answer else ""


def classify_answer(written: str, due: str) -> str:
    """Return the kind of a written response, by the correct one; both are in reading order.

    >>> texts = ("1234$", "1243$", "12$", "14$", "31$", "12345")
    >>> [classify_answer(text, "1234$") for text in texts]
    ['right', 'wrong digits', 'stops early', 'middle lost', 'shorter', 'longer']
    """
    written, end, _ = written.partition("$")
    due = due.removesuffix("$")
    if not end or len(written) > len(due):
        return "longer"
    if len(written) == len(due):
        return "right" if written == due else "wrong digits"
    if due.startswith(written):
        return "stops early"
    cuts = range(1, len(written))
    lost = any(due.startswith(written[:at]) and due.endswith(written[at:]) for at in cuts)
    return "middle lost" if lost else "shorter"
