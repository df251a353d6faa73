"""Numbers are kept to the digits that they have, so that noise below changes no file in git.

Processors add in different orders, which changes the last digits of sums: of a float64 from about
the 15th on. A number between two rounded ones can still change, at 6 digits one in about a thousand
million. In float32 the 7th digit is noise: there one number in five changed, so what figures draw
of these is rounded to fewer digits where it is computed.
"""

from __future__ import annotations

import pandas as pd

DIGITS = 6  # significant ones


def round_floats(table: pd.DataFrame, floor: float = 0.0) -> pd.DataFrame:
    """Return a table with `DIGITS` significant digits of each float, and 0 for those below `floor`.

    Whole numbers, such as counts, stay as they are.

    >>> table = pd.DataFrame({"share": [0.12345678, 3e-16, None], "n": [1234567.0, 2, 3]})
    >>> round_floats(table, floor=1e-12).values.tolist()
    [[0.123457, 1234567.0], [0.0, 2.0], [nan, 3.0]]
    """
    rounded = {}
    for name, column in table.select_dtypes("floating").items():
        values = [
            number if number.is_integer() else float(f"{number:.{DIGITS}g}")
            for number in column.astype(float)
        ]
        kept = pd.Series(values, index=column.index, dtype=column.dtype)
        rounded[name] = kept.mask(kept.abs() < floor, 0.0)
    return table.assign(**rounded)
