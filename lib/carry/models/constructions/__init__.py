"""Transformers whose weights are set by hand, from the works' proofs."""
