"""What a model learns when, and how its answers go wrong in the end: sums of equally long numbers.

On some of the row's test problems of each length: the loss and which places are right after each
snapshot of training, and what greedy decoding writes with the last weights:

    right             the answer
    wrong digits      as many tokens as the answer has, and not all of them right
    stops early       the beginning of the answer, and the end where more was due
    middle lost       beginning and end of the answer, with tokens between them left out
    shorter           other answers with too few tokens
    longer            too many, or no end at all

The two in the middle are what Nogueira et al. 2021 and ibrahimli2024 (3.4) tell apart. An answer of
one token is lost in no middle.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Integer
from torch import Tensor

from carry import processes, progress
from carry.config import run_settings
from carry.data import problem_sets
from carry.data.batch import Batch
from carry.data.problems import Problems
from carry.evaluation import trained_models
from carry.evaluation.decoding import decode_greedily
from carry.evaluation.intervals import add_interval
from carry.formats import EOS
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.training.precision import training_in

TASK = "addition"
EACH = 100  # problems of each length, after every snapshot
DECODED = 300  # with the last weights
KINDS = ("right", "wrong digits", "stops early", "middle lost", "shorter", "longer")


def tables(row: str, profile: str) -> dict[str, pd.DataFrame]:
    """Ask the snapshots of a row, and its last weights.

    Returns:
        losses: for each `step` of training and number of `digits`, which are `seen` in training or
            not, the mean `loss` of a response token, given the truth before it, and how many of
            `n` responses are `exact`.
        order: for each `step`, number of `digits` and `place` of the answer (0: the ones), how many
            of `n` digits are `correct`, given the truth before them.
        written: for each number of `digits`, how many of `n` decoded answers (`count`) are of each
            `kind`.
        parts: of a row that was trained on a mixture of sub-tasks, for each of them (`part`, a
            prefix) and number of `digits`, how many of `n` responses are `exact`.
        Those that count have shares and intervals.
    """
    asked = run_settings.load_run(row, profile)
    jobs = [(row, profile, seed) for seed in range(asked.seeds)]
    with progress.progress_bar(len(jobs), row, unit="seed") as shown:
        found = processes.run_jobs(_of_seed, jobs, shown.update)
    joined = [pd.concat(parts, ignore_index=True) for parts in zip(*found, strict=True)]
    hits = {"losses": "exact", "order": "correct", "written": "count", "parts": "exact"}
    counted = zip(hits.items(), joined, strict=True)
    return {name: add_interval(table, of) for (name, of), table in counted if len(table)}


def _of_seed(report: Any, row: str, profile: str, seed: int) -> tuple[pd.DataFrame, ...]:
    system = trained_models.load_trained(profile, row, seed)
    questions = problem_sets.read_questions(system.run)
    problems = {
        digits: problem_sets.to_problems(of, system.task).to(system.network.tokens.weight.device)
        for digits, of in questions[questions["set"] == "equal"].groupby("i")
    }
    steps, losses, order = system.run.training.steps, [], []
    kept = trained_models.load_snapshots(profile, row, seed) or {
        steps: dict(system.network.state_dict())
    }
    with training_in("fp32", system.network.tokens.weight.device):
        for step, weights in kept.items():
            system.network.load_state_dict(weights)
            for digits, of in problems.items():
                loss, places = known(system, of[:EACH])
                names = {"step": step, "digits": digits}
                losses.append(pd.DataFrame([{**names, **loss}]))
                order.append(places.assign(**names))
        answers = [kinds(system, of[:DECODED]).assign(digits=n) for n, of in problems.items()]
        asked = [by_part(system, of[:DECODED]).assign(digits=n) for n, of in problems.items()]
    labels = {"row": row, "profile": profile, "seed": seed, "trained": system.run.training.digits}
    report(1)
    parts = [pd.concat(of, ignore_index=True) for of in (losses, order, answers, asked)]
    parts[0]["seen"] = parts[0]["digits"].isin(system.run.lengths())
    return tuple(part.assign(**labels)[[*labels, *part.columns]] for part in parts)


@torch.inference_mode()
def known(system: System, problems: Problems) -> tuple[dict[str, float | int], pd.DataFrame]:
    """Return the loss and the exact responses of some problems, and their right digits by place.

    >>> from carry.config.run_settings import make_run
    >>> from carry.tasks import to_digits
    >>> system = System(make_run({"task": {"name": "addition"}}))
    >>> loss, places = known(system, system.task.solve(*to_digits([[57, 48], [12, 30]])))
    >>> loss["n"], places["n"].tolist()  # 105 and 42
    (2, [2, 2, 1])
    """
    batch = system.format.write(problems)
    at, target, real = batch.response()
    logits = system.logits(batch, system.ids(batch), at)
    right = (logits.argmax(-1) == target) | ~real
    loss = F.cross_entropy(logits[real].float(), target[real])
    place, number = (of.gather(1, batch.slots()) for of in (batch.place, batch.number))
    # Behind a scratchpad the answer is the last number that is written.
    digit = real & (place >= 0) & (number == (number * real).amax(1, keepdim=True))
    counted = pd.DataFrame({"place": place[digit].cpu(), "n": 1, "correct": right[digit].cpu()})
    return (
        {"n": len(problems), "loss": float(loss), "exact": int(right.all(1).sum())},
        counted.groupby("place", as_index=False).sum(),
    )


def kinds(system: System, problems: Problems) -> pd.DataFrame:
    """Decode the answers to some problems of one length, and count what kind each is of."""
    said = decode_greedily(system, problems, 1)
    kind = told(said, system.format.write(problems))
    count = kind.bincount(minlength=len(KINDS)).tolist()
    return pd.DataFrame({"kind": KINDS, "n": len(problems), "count": count})


@torch.inference_mode()
def by_part(system: System, problems: Problems) -> pd.DataFrame:
    """Count the exact responses to each sub-task that training mixed; no rows if it mixed none."""
    mixture = system.run.data_set.mixture if system.run.data_set else {}
    rows = []
    for prefix in mixture:
        batch = system.format.asking(prefix).write(problems)
        exact = int(teacher_forced_pass(system, batch).exact.sum())
        rows.append({"part": prefix, "n": len(problems), "exact": exact})
    return pd.DataFrame(rows, columns=["part", "n", "exact"])


def told(said: Integer[Tensor, "B S"], batch: Batch) -> Integer[Tensor, " B"]:
    """Return the index in `KINDS` of what was written, beside the truth; both in reading order.

    >>> from carry.formats import build, encode
    >>> from carry.tasks import build as build_task, to_digits
    >>> task = build_task({"name": "addition"})
    >>> form = build({"reverse_answer": False}, task)
    >>> batch = form.write(task.solve(*to_digits([[1200, 34]] * 6)))  # 1234
    >>> said = [encode(text) for text in ("1234$", "1243$", "12$$$", "14$$$", "31$$$", "12345")]
    >>> [KINDS[kind] for kind in told(torch.stack(said), batch)] == list(KINDS)
    True
    """
    _, target, real = batch.response()
    due = real.sum(1) - 1  # without the end
    ended = (said == EOS).cumsum(1) > 0
    wrote = (~ended).sum(1)
    width = max(said.shape[1], target.shape[1])
    said, true = (F.pad(of, (0, width - of.shape[1]), value=-1) for of in (said, target))
    at = torch.arange(width, device=said.device)
    both = torch.minimum(wrote, due)[:, None]
    begins = ((said == true) & (at < both)).int().cumprod(1).sum(1)
    backwards = [  # counted from the last token that was written, and that was due
        of.gather(1, (length[:, None] - 1 - at).clamp(min=0))
        for of, length in ((said, wrote), (true, due))
    ]
    ends = ((backwards[0] == backwards[1]) & (at < both)).int().cumprod(1).sum(1)
    short = wrote < due
    kind = torch.full_like(wrote, KINDS.index("longer"))
    kind[wrote == due] = KINDS.index("wrong digits")
    kind[short] = KINDS.index("shorter")
    kind[short & (begins + ends >= wrote) & (begins > 0) & (ends > 0)] = KINDS.index("middle lost")
    kind[short & (begins == wrote)] = KINDS.index("stops early")
    kind[(wrote == due) & (begins == due) & ended.any(1)] = KINDS.index("right")
    kind[~ended.any(1)] = KINDS.index("longer")
    return kind
