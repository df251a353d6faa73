"""Experiments: the rows of the works, a file for each work; a file of your own is found as well."""

# In the order of tables; other files with a list `ROWS` follow.
FILES = ("mcleish2024", "cho2025", "fraknoi2024", "ibrahimli2024", "every_length", "one_pass",
         "ablations")
PARTS = ("base", "run", "problems", "resolve")  # what experiments are made of
