"""Recording: the Python side. ``frametap.trace`` lives in :mod:`frametap.record.session`.

In: options. Out: a spool folder while recording, a capture after it.
Importing this on an interpreter or platform that cannot be traced raises ``UnsupportedError``.
"""

from .support import require_supported

require_supported()

from .options import Options
from .session import Tap, trace

__all__ = ["Options", "Tap", "trace"]
