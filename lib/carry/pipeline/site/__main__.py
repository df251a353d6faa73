"""Write the site of a profile: `python -m carry.pipeline.site cpu`."""

import sys

from carry.pipeline import site

if __name__ == "__main__":
    site.write_site(sys.argv[1])
