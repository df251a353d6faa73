"""Runs: from rows to results that carry their settings.

tables     results in git, to which new seeds are added
run        train, evaluate, analyse and certify: for a stage of the pipeline, or all of a row
"""
