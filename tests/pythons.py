"""Digits by place as Python's own integers, which are the oracle of many tests."""


def digits_to_int(digits, length):
    """Return the number that digits by place spell, least significant first."""
    return int("".join(map(str, digits[: int(length)].flip(0).tolist())))
