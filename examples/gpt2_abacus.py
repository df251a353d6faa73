"""Abacus ids for a GPT-2 of Hugging Face: train on sums of up to 6 digits, test longer ones.

`python examples/gpt2_abacus.py` takes a minute on one core. The ids go into `position_ids`, and the
model's table of positions becomes one of Abacus ids. Data, training and test are those of
`torch_abacus.py`, next to this file.
"""

import random

import torch
from torch import nn
from torch_abacus import CHARACTERS, LONGEST, OFFSET, score, train
from transformers import GPT2Config, GPT2LMHeadModel


class Adder(nn.Module):
    """A GPT-2 whose position ids are Abacus ids."""

    def __init__(self, width=64, heads=4, layers=3):
        super().__init__()
        end = CHARACTERS.index("$")
        config = GPT2Config(
            vocab_size=len(CHARACTERS), n_positions=LONGEST + OFFSET + 1, n_embd=width,
            n_layer=layers, n_head=heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            initializer_range=0.1, bos_token_id=end, eos_token_id=end,
        )  # fmt: skip
        self.model = GPT2LMHeadModel(config)

    def forward(self, tokens, places):
        """Return the logits of the next tokens."""
        return self.model(tokens, position_ids=places).logits


def main(steps=1000, batch=96, count=100):
    """Train a model, and return its exact match by the digits of both numbers."""
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # more threads slow down so small a model
    model = Adder()
    train(model.train(), steps, batch)
    return {digits: score(model.eval(), digits, count) for digits in (3, 6, 8, 10, 12)}


if __name__ == "__main__":
    for digits, right in main().items():
        print(f"{digits} digits: {right:.0%}")
