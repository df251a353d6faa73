"""Abacus ids for a GPT-2 of Hugging Face: train on sums of up to 8 digits, test longer ones.

`python examples/gpt2_abacus.py` takes two minutes on one core. The one line that matters gives the
model `position_ids`; its own table of positions becomes the table of Abacus ids.
"""

import random

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from carry import ids

CHARACTERS = "0123456789+=$ "  # `$` ends an answer, spaces fill a batch
DIGITS = torch.arange(10)
LONGEST, OFFSET = 8, 30  # digits of trained numbers, and the largest first id


def write_sum(digits):
    """Return a sum of two random numbers, least significant digits first: 356+94=207$."""
    a, b = (random.randrange(10**n) for n in digits)
    return f"{str(a)[::-1]}+{str(b)[::-1]}={str(a + b)[::-1]}$"


def tokenize(texts):
    """Return the tokens of texts, one for each character."""
    width = max(map(len, texts))
    return torch.tensor([[CHARACTERS.index(c) for c in text.ljust(width)] for text in texts])


def train(model, steps, batch):
    """Predict each token of the answers; ids start somewhere else in each sum."""
    draws = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, steps)
    for step in range(steps):
        lengths = [random.choices(range(1, LONGEST + 1), k=2) for _ in range(batch)]
        tokens = tokenize([write_sum(pair) for pair in lengths])
        position_ids = ids.abacus(torch.isin(tokens, DIGITS), OFFSET, generator=draws)
        in_answer = (tokens == CHARACTERS.index("=")).cumsum(1).roll(1) > 0
        labels = tokens.where(in_answer & (tokens != CHARACTERS.index(" ")), -100)
        loss = model(tokens, position_ids=position_ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)


@torch.inference_mode()
def score(model, digits, count=100):
    """Return the share of sums of two numbers with so many digits that the model answers right."""
    texts = [write_sum((digits, digits)) for _ in range(count)]
    right = 0
    for text in texts:
        question, answer = text.split("=")
        tokens = tokenize([question + "="])
        for _ in answer:
            position_ids = ids.abacus(torch.isin(tokens, DIGITS))
            logits = model(tokens, position_ids=position_ids).logits
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)
        right += "".join(CHARACTERS[token] for token in tokens[0]) == text
    return right / count


def main(steps=400, batch=128):
    """Train a model, and return its exact match by the digits of both numbers."""
    random.seed(0)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(CHARACTERS),
        n_positions=LONGEST + OFFSET + 2,
        n_embd=128,
        n_layer=2,
        n_head=4,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
    )
    model = GPT2LMHeadModel(config)
    train(model.train(), steps, batch)
    return {digits: score(model.eval(), digits) for digits in (4, 8, 10, 12, 16)}


if __name__ == "__main__":
    for digits, right in main().items():
        print(f"{digits} digits: {right:.0%}")
