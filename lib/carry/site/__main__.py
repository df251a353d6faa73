"""Write the site of a profile: `python -m carry.site cpu`."""

import sys

from carry import site

if __name__ == "__main__":
    site.write(sys.argv[1])
