"""Runs: from rows to results that carry their settings.

tables     results in git, to which new seeds are added
run        train, evaluate, analyse and certify: for a stage of the pipeline, or all of a row
"""

import sys

# nbformat imports jsonschema, which reads a grammar of web addresses for seconds. Notebooks do not
# need that check, and jsonschema works without the module.
sys.modules.setdefault("rfc3987_syntax", None)
