"""`python -m dtlib` is `dtlib`."""

import sys

from dtlib.cli import main

if __name__ == "__main__":
    sys.exit(main())
