"""Weights and what happens inside become tidy tables."""
