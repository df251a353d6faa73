"""Digits by place as Python's own integers, which are the oracle of many tests."""

import itertools

from carry.data.batch import NO_PLACE
from carry.formats import FIRST_LETTER


def digits_to_int(digits, length):
    """Return the number that digits by place spell, least significant first."""
    return int("".join(map(str, digits[: int(length)].flip(0).tolist())))


def write_stages(task, operands, from_zero):
    """Return (room, number) for each number of each stage of a scratchpad."""
    longest, name = max(map(len, operands)), type(task).__name__
    if name == "Parity":
        bits = operands[0]
        parities = (str(bits[index:].count("1") % 2) for index in range(longest))
        return [[(longest, "".join(parities))]]
    if name == "Subtraction":
        return [[(longest, task.solve_text(*operands))]]
    if name == "Comparison":
        a, b = (number.zfill(longest) for number in operands)
        so_far = (task.solve_text(a[place:], b[place:]) for place in range(longest))
        return [[(longest, "".join(so_far))]]
    if name == "Multiplication":
        first, digits, total = operands[0], operands[1][::-1], 0
        products, sums = [], []
        for place, digit in enumerate(map(int, digits)):
            total += int(first) * digit * 10**place
            products.append((len(first) + 1, str(int(first) * digit)))
            room = 1 + place if task.local else len(digits)
            sums.append((len(first) + room, str(total)))
        return [products, sums]
    count = len(operands)
    length = len(str(count * (10**longest - 1)))
    room = task.spare + (longest + len(str(count)) if task.room == "bound" else length)
    ends = range(0 if from_zero else 1, count + 1)
    return [[(room, task.solve_text(*operands[:end])) for end in ends]]


def assert_places(batch, numbers):
    """Check that marks name digits; beyond the digits of a number there are zeros."""
    for row, at in itertools.product(range(0, len(batch), 7), range(batch.tokens.shape[1])):
        number, place = int(batch.number[row, at]), int(batch.place[row, at])
        token = int(batch.tokens[row, at])
        if number and token < FIRST_LETTER:
            of = numbers[number - 1][row]
            assert token == (of[place] if place < len(of) else 0)
        elif not number:
            assert place == NO_PLACE and token >= 10
