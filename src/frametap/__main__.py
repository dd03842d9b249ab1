"""``python -m frametap``: the same as the ``frametap`` command."""

import sys

from frametap.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
