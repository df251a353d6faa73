"""Training steps as CUDA graphs: the kernels of a step are launched at once.

A step of a small model is hundreds of kernels of a few microseconds, and launching each from Python
takes longer than computing it. A graph records the kernels of one step on fixed memory. Each shape
of inputs has its own graph: its first steps run without, so that caches and the state of the
optimizer exist; then a step is recorded, which computes nothing, and replayed from then on with its
inputs copied into the recorded memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from carry.training.inputs import StepInputs

WARM_UP = 3  # steps of a shape before its graph
MOST_GRAPHS = 64  # shapes that are met later run without a graph

# A step on inputs, with the smaller depth of a progressive loss if there is one; returns the loss.
Step = Callable[[StepInputs, int | None], Tensor]


def has_graphs(device: torch.device) -> bool:
    """Return whether a device can record kernels."""
    return device.type == "cuda"


class Recorded(NamedTuple):
    """A recorded step: the memory of its inputs, what runs it, and the memory of its loss."""

    inputs: StepInputs
    replay: Callable[[], object]
    loss: Tensor


class StepGraphs:
    """Runs a step by graphs, one for each shape of its inputs.

    On a CPU there are no graphs: a recorded step is run again on the same memory, so that tests
    reach the same code.

    Args:
        step: does one step; it must not wait for the GPU, and not depend on Python values that
            change from step to step.
        draws: the generator of random numbers inside the step, if there is one. Who runs a step
            seeds it before.
    """

    def __init__(
        self, step: Step, device: torch.device, draws: torch.Generator | None = None
    ) -> None:
        self.step, self.device, self.draws = step, device, draws
        self.recorded: dict[tuple, Recorded] = {}
        self.records = False  # whether a step is recorded just now
        self._met: Counter[tuple] = Counter()
        self._uses_graphs = has_graphs(device)
        # A graph cannot be recorded on the default stream, and gradients are added on the stream
        # that first computed them: all steps are on one stream.
        self._stream = torch.cuda.Stream(device) if self._uses_graphs else None
        # Steps never run at the same time, and their results are copied: they can share memory.
        self._pool = torch.cuda.graph_pool_handle() if self._uses_graphs else None

    @contextmanager
    def use_stream(self) -> Iterator[None]:
        """Do all work of the training inside this block."""
        if self._stream is None:
            yield
            return
        outside = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(outside)
        with torch.cuda.stream(self._stream):
            yield
        outside.wait_stream(self._stream)  # streams do not wait for each other by themselves

    def run(self, inputs: StepInputs, fewer: int | None) -> Tensor:
        """Do one step on inputs of the CPU, and return its loss."""
        key = (inputs.shapes(), fewer)
        self._met[key] += 1
        if key not in self.recorded:
            if self._met[key] <= WARM_UP or len(self.recorded) == MOST_GRAPHS:
                return self.step(inputs.send(self.device), fewer)
            self.recorded[key] = self._record(inputs.send(self.device).copy(), fewer)
        recorded = self.recorded[key]
        recorded.inputs.overwrite(inputs)
        recorded.replay()
        return recorded.loss.clone()  # the next replay writes here

    def _record(self, inputs: StepInputs, fewer: int | None) -> Recorded:
        if not self._uses_graphs:
            loss = torch.zeros((), device=self.device)
            return Recorded(inputs, lambda: loss.copy_(self.step(inputs, fewer)), loss)
        graph = torch.cuda.CUDAGraph()
        if self.draws is not None:
            graph.register_generator_state(self.draws)
        self.records = True
        with torch.cuda.graph(graph, self._pool, self._stream):
            loss = self.step(inputs, fewer)
        self.records = False
        return Recorded(inputs, graph.replay, loss)
