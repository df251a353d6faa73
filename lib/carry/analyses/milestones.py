"""When each digit of a sum is learned (ibrahimli2024, 4.4.2 and Fig. B.1).

Snapshots have to be close enough: at the first one, no place may be learned. The row's
`training.snapshot_every` says how close they are.
"""

from __future__ import annotations

import pandas as pd

from carry.analyses import LABELS, load_steps
from carry.analyses.learning import score_answers
from carry.data import problem_sets
from carry.models.system import System
from carry.training.precision import use_precision

TASK = "addition"
COLUMNS = {
    "milestones": (*LABELS, "trained", "digits", "place", "from_top", "n", "reached", "step")
}
PROBLEMS = 200
LEARNED = 0.5  # share of correct digits


def tables(system: System) -> dict[str, pd.DataFrame]:
    """Find the first snapshot after which half of the digits of a place are correct.

    Returns:
        milestones: for each `place` of the operands (0: least significant; `from_top` counts from
            the other end) at the longest trained length: the first `step` at which the digit is
            learned, under teacher forcing, and whether it was `reached`; else the step is the one
            after the last snapshot would be. `n` is 1.
    """
    digits = max(system.run.trained_lengths())
    questions = problem_sets.load_questions(system.run)
    part = questions[(questions["set"] == "equal") & (questions["i"] == digits)]
    problems = problem_sets.to_problems(part[:PROBLEMS], system.task).to(system.device)
    with use_precision("fp32", system.device):
        scored = [
            score_answers(system, problems)[1].assign(step=step) for step in load_steps(system)
        ]
    table = find_first(pd.concat(scored), digits)
    return {"milestones": table.assign(digits=digits)}


def find_first(scores: pd.DataFrame, digits: int) -> pd.DataFrame:
    """Return the first step of each place, from the `correct` of `n` digits at each step.

    >>> scores = pd.DataFrame({"step": [5, 5, 10, 10], "place": [0, 1, 0, 1], "n": 10,
    ...                        "correct": [2, 6, 4, 9]})
    >>> find_first(scores, 2)[["place", "from_top", "reached", "step"]].values.tolist()
    [[0, 1, False, 15], [1, 0, True, 5]]
    """
    steps = sorted(scores["step"].unique())
    after = steps[-1] + (steps[-1] - steps[-2] if len(steps) > 1 else steps[-1])
    good = scores[scores["correct"] >= LEARNED * scores["n"]]
    first = good.groupby("place")["step"].min().reindex(range(digits))
    return pd.DataFrame(
        {
            "place": first.index,
            "from_top": digits - 1 - first.index,
            "n": 1,
            "reached": first.notna().to_numpy(),
            "step": first.fillna(after).astype(int).to_numpy(),
        }
    )
