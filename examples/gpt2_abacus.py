"""Abacus ids for a GPT-2 of Hugging Face: train on sums of up to 6 digits, test longer ones.

`python examples/gpt2_abacus.py` takes a minute on one core. The ids go into `position_ids`, and
the model's table of positions becomes one of Abacus ids. `torch_abacus.py` does the same in torch.
"""

import random

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from carry import ids

CHARACTERS = "0123456789+=$ "  # `$` ends an answer, spaces fill a batch
DIGITS = torch.arange(10)
LONGEST, OFFSET, JUMPS = 6, 20, 2  # digits of trained numbers, the largest first id, cuts


def write_sum(digits):
    """Return a sum of two random numbers, least significant digits first: 356+94=207$."""
    a, b = (random.randrange(10**n) for n in digits)
    return f"{str(a)[::-1]}+{str(b)[::-1]}={str(a + b)[::-1]}$"


def tokenize(texts):
    """Return the tokens of texts, one for each character."""
    width = max(map(len, texts))
    return torch.tensor([[CHARACTERS.index(c) for c in text.ljust(width)] for text in texts])


def train(model, steps, batch):
    """Predict each token of the answers that can be known."""
    draws = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, steps, pct_start=0.1)
    for step in range(steps):
        lengths = [random.choices(range(1, LONGEST + 1), k=2) for _ in range(batch)]
        tokens = tokenize([write_sum(pair) for pair in lengths])
        is_digit = torch.isin(tokens, DIGITS)
        position_ids = ids.abacus(is_digit, OFFSET, JUMPS, draws)
        unknowable = ids.unknowable(ids.abacus(is_digit), position_ids)
        answer = (tokens == CHARACTERS.index("=")).cumsum(1) > 0
        learned = answer[:, :-1] & ~(unknowable | (tokens == CHARACTERS.index(" ")))[:, 1:]
        logits = model(tokens[:, :-1], position_ids=position_ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits[learned], tokens[:, 1:][learned])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)


@torch.inference_mode()
def score(model, digits, count):
    """Return the share of sums of two numbers with so many digits that the model answers right."""
    right = 0
    for text in [write_sum((digits, digits)) for _ in range(count)]:
        tokens = tokenize([text.split("=")[0] + "="])
        while tokens.shape[1] < len(text):
            position_ids = ids.abacus(torch.isin(tokens, DIGITS))
            logits = model(tokens, position_ids=position_ids).logits
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)
        right += "".join(CHARACTERS[token] for token in tokens[0]) == text
    return right / count


def main(steps=1000, batch=96, count=100):
    """Train a model, and return its exact match by the digits of both numbers."""
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # more threads slow down so small a model
    end = CHARACTERS.index("$")
    config = GPT2Config(
        vocab_size=len(CHARACTERS), n_positions=LONGEST + OFFSET + 1, n_embd=64, n_layer=3,
        n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.1,
        bos_token_id=end, eos_token_id=end,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    train(model.train(), steps, batch)
    return {digits: score(model.eval(), digits, count) for digits in (3, 6, 8, 10, 12)}


if __name__ == "__main__":
    for digits, right in main().items():
        print(f"{digits} digits: {right:.0%}")
