"""No encoding (NoPE): only the causal mask tells the order of tokens."""

from carry.models.encodings import Encoding


class NoPE(Encoding):
    """The model does not use the ids, except for a window over them."""
