"""Pages from results: the numbers of README.md, the papers' headlines, and the site."""

import sys

# nbformat imports jsonschema, which builds a parser of addresses (RFC 3987) for a second if it
# finds this package. Notebooks are checked without it.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
