"""Proofs by enumeration: a model with bounded contexts is correct in every local context.

`contexts` extracts local contexts, `coverings` enumerates them, `rounding` and `logit_bounds` bound
float32 errors, and `verification` checks a model in every context; `jobs` does so for the seeds of
runs, and `committed` for the weights in git. `files` reads and writes certificates, and
`window_limits` shows where no proof exists.
"""
