"""Proofs by enumeration: a model with bounded neighbourhoods is right in every local context."""
