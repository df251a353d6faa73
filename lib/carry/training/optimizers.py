"""The optimizers of one model."""

from __future__ import annotations

import torch
from torch import nn

from carry.experiments.run import Training
from carry.models.architectures import Architecture
from carry.training.muon import Muon


def make_optimizers(network: Architecture, training: Training) -> list[torch.optim.Optimizer]:
    """Return AdamW, or Muon for the matrices inside the layers and AdamW for the other parameters.

    Vectors (biases, norms) have no weight decay.
    """
    muon = training.optimizer == "muon"
    hidden_ids = {id(parameter) for parameter in network.hidden_matrices()} if muon else set()
    parameters = [*network.parameters()]
    hidden = [p for p in parameters if id(p) in hidden_ids]
    matrices = [p for p in parameters if p.ndim >= 2 and id(p) not in hidden_ids]
    vectors = [p for p in parameters if p.ndim < 2]
    adamw = make_adamw(
        [
            {"params": matrices, "weight_decay": training.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        training,
    )
    optimizers: list[torch.optim.Optimizer] = [adamw]
    if muon:
        optimizers.insert(0, Muon(hidden, training.learning_rate, training.weight_decay))
    return optimizers


def make_adamw(
    parameters: list[nn.Parameter] | list[dict], training: Training
) -> torch.optim.AdamW:
    """Return AdamW for parameters or groups of parameters, with the `epsilon` of the settings."""
    return torch.optim.AdamW(
        parameters,
        lr=training.learning_rate,
        betas=tuple(training.betas),
        eps=training.epsilon,
        weight_decay=training.weight_decay,
        fused=True,  # the fastest variant, also on CPUs
    )
