"""Ids and tokens become logits: encodings, architectures, and weights set by hand."""
