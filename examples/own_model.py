"""A model of your own: `carry score sums.csv --model examples/own_model.py` scores it.

The file holds settings and a function from tokens to logits. This one is a rule with a fault: a
carry into a place comes from the three places below alone, so 9999+1 is wrong. A trained model
fits in the same way: load it here, and return its logits, such as `model(tokens).logits` of Hugging
Face, for the symbols of `carry.formats.ALPHABET` that the format uses.
"""

import torch

from carry.formats import ALPHABET

# 653+49=702 is written ^356+94=207$, least significant digit first.
SETTINGS = {"task": {"name": "addition"}, "format": {"reverse_operands": True}}
SYMBOLS = "0123456789+=^$_"  # the first of ALPHABET; `_` is padding after the end
REACH = 3  # places


def logits(tokens):
    """Return the logits [B, T, symbols] of the next token after each of the tokens [B, T]."""
    values = torch.zeros(*tokens.shape, len(SYMBOLS))
    for row, line in enumerate(tokens.tolist()):
        text = "".join(ALPHABET[token] for token in line)
        question, equals, answer = text.partition("=")
        for place in range(len(answer) + 1 if equals else 0):
            symbol = choose_symbol(*question[1:].split("+"), place)
            values[row, len(question) + place, SYMBOLS.index(symbol)] = 10.0
    return values


def choose_symbol(a, b, place):
    """Return the digit of a + b at a place, or the end `$`; numbers begin with their last digit."""
    low = max(0, place - REACH)
    below = sum(int(number[low:place][::-1] or 0) for number in (a, b))
    carry = int(below >= 10 ** (place - low))
    if place >= max(len(a), len(b)) + carry:
        return "$"
    return str((sum(int(number[place : place + 1] or 0) for number in (a, b)) + carry) % 10)
