"""Experiments: the rows of the works, a file for each work; the order is that of tables."""

FILES = ("mcleish2024", "cho2025", "fraknoi2024", "ibrahimli2024", "every_length", "one_pass",
         "ablations")
