"""The pipeline: stages, the notebook runner, code hashes, the site and the README's numbers."""
