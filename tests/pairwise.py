"""Few combinations of options that contain each pair of values at least once."""

import itertools


def pairwise(valid=lambda row: True, **options):
    """Return rows, as dictionaries, that cover each pair of two options' values in a valid row.

    >>> rows = pairwise(a=[0, 1], b=[0, 1], c=[0, 1])
    >>> len(rows) < 8, len({(row["a"], row["c"]) for row in rows})
    (True, 4)
    """
    combinations = (
        dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())
    )
    rows = [row for row in combinations if valid(row)]
    pairs = [{*itertools.combinations([*map(repr, row.items())], 2)} for row in rows]
    uncovered, chosen = set().union(*pairs), []
    while uncovered:
        best = max(range(len(rows)), key=lambda index: len(pairs[index] & uncovered))
        uncovered -= pairs[best]
        chosen.append(rows[best])
    return chosen
