"""Evaluation of trained models: tidy tables with one row per cell, with n and an interval."""
