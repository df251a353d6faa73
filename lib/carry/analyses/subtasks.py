"""Which part of an addition comes last (Quirke & Barez 2024, as in fraknoi2024, section 4).

What a digit of the answer takes, of what comes in from below:

    base_add      no carry comes in: the digits of this place, added
    use_carry     the place below makes a carry by itself
    use_sum_9     the place below adds up to nine, and passes on a carry from further below

and of what goes out:

    make_carry    the digits of this place make ten or more
    make_sum_9    they make nine, so that a carry would go through

A cascade is how many places of nine a carry goes through: 99999 + 00001 has one of four. All are
told from the steps of the task.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from carry import processes, progress
from carry.config import run_settings
from carry.data.problems import Problems
from carry.evaluation import trained_models
from carry.evaluation.intervals import add_interval
from carry.models.system import System
from carry.models.teacher_forcing import TeacherForcedPass, teacher_forced_pass
from carry.randomness import stream
from carry.tasks.addition import Addition
from carry.training.loop import device_of
from carry.training.precision import training_in

TASK = "addition"
NAMES = ("base_add", "make_carry", "make_sum_9", "use_carry", "use_sum_9")
EVEN, EACH = 2000, 100  # problems drawn evenly, and for each cascade that there is


def tables(row: str, profile: str) -> dict[str, pd.DataFrame]:
    """Score the snapshots of a row of additions by what each digit of an answer takes.

    Returns:
        subtasks: for each `step` of training, `subtask` and `place` of the answer, how many of `n`
            digits are `correct`, given the truth before them; of all problems.
        cascades: for each `step` and `cascade`, how many of `n` problems are `exact`.
        Both with an interval; of a row without snapshots, of its last step alone.
    """
    asked = run_settings.load_run(row, profile)
    jobs = [(row, profile, seed) for seed in range(asked.seeds)]
    with progress.progress_bar(len(jobs), row, unit="seed") as shown:
        found = processes.run_jobs(_tables_of, jobs, shown.update)
    return {
        "subtasks": add_interval(pd.concat([of[0] for of in found], ignore_index=True), "correct"),
        "cascades": add_interval(pd.concat([of[1] for of in found], ignore_index=True), "exact"),
    }


def _tables_of(report: Any, row: str, profile: str, seed: int) -> tuple[pd.DataFrame, ...]:
    system = trained_models.load_trained(profile, row, seed)
    asked = system.run.training
    problems = drawn(system.task, asked.digits)
    labels, long = labelled(system.task, problems), cascade(system.task, problems)
    by_place, by_cascade = [], []
    kept = trained_models.load_snapshots(profile, row, seed)
    for step, weights in (kept or {asked.steps: dict(system.network.state_dict())}).items():
        system.network.load_state_dict(weights)
        seen = _seen(system, problems)
        names = {
            "row": row,
            "profile": profile,
            "seed": seed,
            "trained": asked.digits,
            "step": step,
        }
        by_place.append(_by_place(system, problems, seen, labels).assign(**names))
        exact = pd.DataFrame({"cascade": long.numpy(), "n": 1, "exact": seen.exact.cpu().numpy()})
        by_cascade.append(exact.groupby("cascade", as_index=False).sum().assign(**names))
    report(1)
    return tuple(pd.concat(parts, ignore_index=True) for parts in (by_place, by_cascade))


@torch.inference_mode()
def _seen(system: System, problems: Problems) -> TeacherForcedPass:
    device = device_of(system.run)
    with training_in("fp32", device):
        return teacher_forced_pass(system, system.format.write(problems.to(device)))


def drawn(task: Addition, digits: int) -> Problems:
    """Return sums of so many digits: some drawn evenly, then as many of each cascade there is.

    Of both operands one has all these digits. The latter sums hold one carry and no more: a place
    makes it, those above it that add up to nine pass it on, and no other makes nine or more.

    >>> from carry.tasks import build
    >>> addition = build({"name": "addition"})
    >>> longest = cascade(addition, drawn(addition, 3))
    >>> (longest[EVEN:].bincount() // EACH).tolist()
    [3, 2, 1]
    """
    generator = stream(0, "sub-tasks", digits)
    even = torch.randint(10, (EVEN, 2, digits), generator=generator)
    even[:, 0, -1] = torch.randint(1, 10, (EVEN,), generator=generator)  # as training has it
    kinds = [(begin, by) for by in range(digits) for begin in range(digits - by)]
    begin, by = torch.tensor(kinds).repeat_interleave(EACH, 0).T[:, :, None]
    place = torch.arange(digits)
    total = torch.randint(9, (len(begin), digits), generator=generator)
    total[:, -1] = torch.randint(1, 9, (len(begin),), generator=generator)
    makes = torch.randint(10, 19, total.shape, generator=generator)
    total = torch.where(place == begin, makes, total)
    total = torch.where((place > begin) & (place <= begin + by), 9, total)
    least, most = (total - 9).clamp(min=0), total.clamp(max=9)
    share = torch.rand(total.shape, generator=generator, dtype=torch.float64)
    first = least + (share * (most - least + 1)).long()
    operands = torch.cat([even, torch.stack([first, total - first], dim=1)])
    lengths = torch.full((len(operands), 2), digits)
    return task.solve(operands.to(torch.uint8), lengths)


def labelled(task: Addition, problems: Problems) -> dict[str, Bool[Tensor, "B K"]]:
    """Return for each of `NAMES` the places of the answers that take this sub-task.

    The highest place, where there is nothing to add, has those of the carry that comes in.

    >>> from carry.tasks import build, to_digits
    >>> addition = build({"name": "addition"})
    >>> labels = labelled(addition, addition.solve(*to_digits([["99958", "00045"]])))
    >>> {name: "".join(str(int(x)) for x in of[0].flip(0)) for name, of in labels.items()}
    {'base_add': '000001', 'make_carry': '000001', 'make_sum_9': '011110', 'use_carry': '000010', \
'use_sum_9': '111100'}
    """
    steps = task.steps(problems)
    total, used = steps["digit_sum"], steps["carry_used"] > 0
    below = total.roll(1, dims=1)
    below[:, 0] = 0
    there = torch.arange(total.shape[1]) < problems.lengths.amax(1, keepdim=True)
    return {
        "base_add": ~used & there,
        "make_carry": (total >= 10) & there,
        "make_sum_9": (total == 9) & there,
        "use_carry": used & (below >= 10),
        "use_sum_9": used & (below == 9),
    }


def cascade(task: Addition, problems: Problems) -> Integer[Tensor, " B"]:
    """Return through how many places of nine the longest carry of each problem goes.

    >>> from carry.tasks import build, to_digits
    >>> addition = build({"name": "addition"})
    >>> problems = addition.solve(*to_digits([["99999", "00001"], ["95", "05"], ["12", "30"]]))
    >>> cascade(addition, problems).tolist()
    [4, 1, 0]
    """
    run = longest = torch.zeros(len(problems), dtype=torch.long)
    for through in task.steps(problems)["cascade"].long().unbind(1):
        run = (run + through) * through
        longest = torch.maximum(longest, run)
    return longest


def _by_place(
    system: System,
    problems: Problems,
    seen: TeacherForcedPass,
    labels: dict[str, Bool[Tensor, "B K"]],
) -> pd.DataFrame:
    """Count right digits by sub-task and place."""
    batch = system.format.write(problems)
    place = batch.place.gather(1, batch.slots())
    right = (~seen.wrong).cpu()
    rows = []
    for name, of in labels.items():
        asked = of.gather(1, place.clamp(min=0)) & (place >= 0)
        for at in range(of.shape[1]):
            here = asked & (place == at)
            if here.any():
                counts = {"n": int(here.sum()), "correct": int((right & here).sum())}
                rows.append({"subtask": name, "place": at, **counts})
    return pd.DataFrame(rows)
