"""Transformers with constructed weights, from the proofs of the works."""
