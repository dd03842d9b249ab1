"""Recording: the Python side. ``frametap.trace`` lives in :mod:`frametap.record.session`.

In: options. Out: a spool folder while recording, a capture after it.
Importing this on an interpreter or platform that cannot be traced raises ``UnsupportedError``.
"""

from .support import require_supported

require_supported()

from .options import Options  # noqa: E402
from .session import Tap, trace  # noqa: E402

__all__ = ["Options", "Tap", "trace"]
