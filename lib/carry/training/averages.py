"""The mean of a model's weights over the last steps of its training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from carry.experiments.run import Training
from carry.training import checkpoint


class WeightAverage:
    """The uniform running mean of weights over the share `average_weights` of the last steps.

    It is the tail average of Polyak and Ruppert. The mean after n of these steps is
    mean + (weights - mean) / n.

    >>> network = nn.Linear(1, 1, bias=False)
    >>> average = WeightAverage(network, Training(steps=4, average_weights=0.5))
    >>> for step in (1, 2, 3, 4):
    ...     _ = nn.init.constant_(network.weight, step)
    ...     average.update(step)
    >>> average.copy_to_network()
    >>> network.weight.item()
    3.5
    """

    def __init__(self, network: nn.Module, training: Training) -> None:
        self.weights = dict(network.named_parameters())  # those that are tied once
        self.start = training.steps - round(training.average_weights * training.steps)
        self.means: dict[str, Tensor] = {}  # empty before the first of these steps

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Add the present weights, if `step`, the number of steps done, is one of the last."""
        count = step - self.start
        if count == 1:
            self.means = {name: weight.clone() for name, weight in self.weights.items()}
        elif count > 1:
            for name, mean in self.means.items():
                mean.lerp_(self.weights[name], 1 / count)

    @torch.no_grad()
    def copy_to_network(self) -> None:
        """Replace the weights by their means, if there are any."""
        for name, mean in self.means.items():
            self.weights[name].copy_(mean)

    def restore(self, means: dict[str, Tensor], step: int) -> None:
        """Continue from the means of a checkpoint of a step."""
        weights = self.weights if step > self.start else {}
        checkpoint.check_tensors(means, weights)
        self.means = {name: mean.to(weights[name].device) for name, mean in means.items()}
