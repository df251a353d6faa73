"""Weights become tidy tables: one row for each cell, with n and an interval."""
