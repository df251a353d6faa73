"""Models from ids and tokens to logits: encodings, architectures, and constructed weights."""
