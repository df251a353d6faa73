"""Figures from result tables; no module here uses a trained model.

A drawing function takes tables and returns the figure and the table of its values. The figures and
their captions are listed in `gallery`, which saves both (svg, png and csv).
"""
