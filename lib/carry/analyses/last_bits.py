"""The last bit of parity, given the correct bits before it (cho2025, 3.2, Fig. 3).

The work counts this bit, where guessing between 0 and 1 gives one half. A model can also end the
response too early instead, which is wrong whatever the bits are; so next to the work's count this
one asks which of the two bits is more probable.
"""

from __future__ import annotations

import pandas as pd
import torch

from carry.analyses import LABELS
from carry.models.system import System
from carry.models.teacher_forcing import teacher_forced_pass
from carry.randomness import stream
from carry.training.precision import use_precision

TASK = "parity"
COLUMNS = {"last_bits": (*LABELS, "trained", "digits", "n", "right", "of_bits", "no_bit", "exact")}
PROBLEMS = 200  # of each length


@torch.inference_mode()
def tables(system: System) -> dict[str, pd.DataFrame]:
    """Score the last bit of strings from the trained length to twice that, ids from 1.

    Returns:
        last_bits: for each number of `digits`, of `n` strings: how often the last bit is `right`;
            how often it is the more probable one `of_bits`; how often `no_bit` is predicted but
            another token; and how often the whole response is `exact`.
    """
    trained, lines = system.run.training.digits, []
    generator = stream(0, "last bits")
    for digits in range(trained, 2 * trained + 1):
        problems = system.task.draw_for_cells(torch.full((PROBLEMS, 2), digits), generator)
        batch = system.format.write(problems.to(system.device))
        with use_precision("fp32", system.device):
            result = teacher_forced_pass(system, batch, keep_logits=True)
        row, last = torch.arange(PROBLEMS), result.real.sum(1).cpu() - 2  # the end is after it
        predicted, target = (part.cpu()[row, last] for part in (result.predicted, result.target))
        counts = {
            "right": predicted == target,
            "of_bits": result.logits.cpu()[row, last, :2].argmax(1) == target,
            "no_bit": predicted > 1,
            "exact": result.exact,
        }
        counts = {name: int(hits.sum()) for name, hits in counts.items()}
        lines.append({"digits": digits, "n": PROBLEMS} | counts)
    return {"last_bits": pd.DataFrame(lines)}
