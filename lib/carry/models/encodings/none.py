"""No encoding at all (NoPE): order shows only through the causal mask."""

from carry.models.encodings import Encoding


class NoPE(Encoding):
    """Ids are not felt."""
