"""Proofs by enumeration: a model with bounded contexts is correct in every local context.

`contexts` extracts local contexts, `coverings` enumerates them, `rounding` and `logit_bounds` bound
float32 errors, `verification` checks a model in every context, and `certify` does so for the rows
of a profile. `files` reads and writes certificates; `window_limits` shows where no proof exists.
"""
