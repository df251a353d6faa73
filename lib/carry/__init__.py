"""Companion to four papers on arithmetic transformers: positions, lengths and exactness."""
