"""Abacus ids for a model of plain torch: train on sums of up to 6 digits, test longer ones.

`python examples/torch_abacus.py` takes a minute on one core. `ids.abacus` needs to know which
tokens are digits; its ids are the rows of a table of embeddings. In training, `jumps` leave ids out
inside numbers, so that the model meets ids as far apart as in longer numbers.
"""

import random

import torch
from torch import nn

from carry import ids

CHARACTERS = "0123456789+=$ "  # `$` ends an answer, spaces fill a batch
DIGITS = torch.arange(10)
LONGEST, OFFSET, JUMPS = 6, 20, 2  # digits of trained numbers, the largest first id, cuts


class Adder(nn.Module):
    """A causal transformer that adds embeddings of tokens and of ids."""

    def __init__(self, width=64, heads=4, layers=3):
        super().__init__()
        self.tokens = nn.Embedding(len(CHARACTERS), width)
        self.places = nn.Embedding(LONGEST + OFFSET + 1, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), False)
        self.logits = nn.Linear(width, len(CHARACTERS))

    def forward(self, tokens, places):
        """Return the logits of the next tokens."""
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        x = self.tokens(tokens) + self.places(places)
        return self.logits(self.layers(x, mask, is_causal=True))


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
        places = ids.abacus(is_digit, OFFSET, JUMPS, draws)
        answer = (tokens == CHARACTERS.index("=")).cumsum(1) > 0
        known = ~ids.unknowable(ids.abacus(is_digit), places) & (tokens != CHARACTERS.index(" "))
        learned = answer[:, :-1] & known[:, 1:]
        logits = model(tokens[:, :-1], places[:, :-1])
        loss = nn.functional.cross_entropy(logits[learned], tokens[:, 1:][learned])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
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
            logits = model(tokens, ids.abacus(torch.isin(tokens, DIGITS)))
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)
        right += "".join(CHARACTERS[token] for token in tokens[0]) == text
    return right / count


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
