"""A checker of certificates that shares no code with what it checks; it needs numpy alone.

Three files decide: `tasks` defines the steps of each task, `contexts` lists what windows show in
them, and `leads` bounds the lead of the due token in each. `rows` reads settings and weights, or
refuses them; `tables` and `__main__` compare the verdicts with the committed certificates.
"""
