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
    >>> round_floats(table.astype({"share": "Float64"}))["share"].tolist()
    [0.123457, 3e-16, <NA>]
    """

    def round_float(number: float) -> float:
        if abs(number) < floor:
            return 0.0
        return number if number.is_integer() else float(f"{number:.{DIGITS}g}")

    columns = table.select_dtypes("floating").items()
    rounded = {name: [*map(round_float, column.astype(float))] for name, column in columns}
    return table.assign(**rounded).astype({name: table.dtypes[name] for name in rounded})
