"""Checkers of certificates."""
