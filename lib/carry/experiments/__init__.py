"""Experiments: the rows of the works, a file for each work."""
