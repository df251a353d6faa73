"""A checker of certificates that shares no code with what it checks; it needs numpy alone.

The core decides whether a model is right in every step of its task: `contexts` lists what windows
show in these steps, and `leads` bounds the lead of the due token in each. These two files have at
most 300 lines of code together, without blank lines, comments and docstrings.
Around the core, `tasks` and `longhand` write down the steps of each task, `definitions` says which
rows have them, `rows` reads settings and weights, or refuses them, and `tables` and `__main__`
compare the verdicts with the committed certificates.
"""
