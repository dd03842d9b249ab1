"""Makes ``export.traces`` and ``readers`` importable from the tests of the writers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
