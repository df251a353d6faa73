"""Sub-tasks of sums that are longer than the sums: length that one task teaches another.

In a mixture of sub-tasks with `sums_to: 2`:

    add$34+67=011$         a sum
    mad$1234+4567=5791$    longer numbers are never added
    car$1234+4567=---c$
"""

from __future__ import annotations

import torch
from jaxtyping import Integer
from pydantic import Field
from torch import Tensor

from carry.data.batch import Batch
from carry.data.problems import LABEL_RANGE, Problems
from carry.experiments.run import SUB_TASKS
from carry.formats.sub_task import SubTask

SUM, CARRIES, DIGITS = map(SUB_TASKS.index, ("add", "car", "mad"))


class Transfer(SubTask):
    """A sub-task; in a mixture, a sum of more than `sums_to` digits is another sub-task instead.

    It becomes the carries or the digit sums without carries, by the label of the problem (Cai et
    al. 2025, arXiv:2506.09251, whose sums have half the length of these two).
    """

    sums_to: int = Field(ge=1)

    def write_sub_tasks(self, problems: Problems, parts: Integer[Tensor, " B"]) -> Batch:
        """Write each problem as one sub-task, an index into `SUB_TASKS`; ignore `prefix`.

        >>> from carry.formats import build_format, to_text
        >>> from carry.tasks import build_task, to_digits
        >>> task = build_task({"name": "addition"})
        >>> form = build_format({"name": "transfer", "prefix": "add", "sums_to": 2}, task)
        >>> problems = task.solve(*to_digits([[12, 34], [512, 6]]))
        >>> [to_text(row) for row in form.write_sub_tasks(problems, torch.tensor([0, 0])).tokens]
        ['add$12+34=46$_', 'car$512+6=---$']
        """
        too_long = (parts == SUM) & (problems.lengths.amax(1) > self.sums_to)
        other = torch.where(problems.label < LABEL_RANGE // 2, CARRIES, DIGITS)
        return super().write_sub_tasks(problems, torch.where(too_long, other, parts))
