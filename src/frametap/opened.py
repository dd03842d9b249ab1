"""A capture, opened for reading: :func:`frametap.open`.

In: the path of a capture, or of the ``.part`` folder a killed process left. Out: an
:class:`OpenedCapture`, whose :meth:`~OpenedCapture.trace` gives the tables.
Invariant: nothing is interpreted before ``trace`` is called, and then once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

    from .store import Capture
    from .table import Trace

Progress = Callable[[int, int], None]


class OpenedCapture:
    """A capture's metadata, and its trace on request. Also a context manager, which closes it.

    Attributes
    ----------
    capture : frametap.store.Capture
        The stored bytes behind it: processes, threads, segments.
    """

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self._trace: Trace | None = None

    @property
    def path(self) -> Path:
        """The file or folder."""
        return Path(self.capture.path)

    @property
    def meta(self) -> dict[str, Any]:
        """Versions, options and host, as stored."""
        return self.capture.meta

    def trace(self, *, progress: Progress | None = None) -> Trace:
        """The tables of everything recorded.

        Parameters
        ----------
        progress : callable, optional
            Called with (done, total) now and then.
        """
        if self._trace is None:
            from .replay import build_trace

            self._trace = build_trace(self.capture, progress=progress)
        return self._trace

    def close(self) -> None:
        self.capture.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<capture {str(self.path)!r}>"


def open(path: str | os.PathLike[str]) -> OpenedCapture:
    """Open a capture.

    Parameters
    ----------
    path : path-like
        ``run.ftap``, or the folder ``run.ftap.part`` of a process that was killed.

    Raises
    ------
    CaptureError
        It is missing, or not a capture.

    Examples
    --------
    >>> with frametap.open("run.ftap") as capture:  # doctest: +SKIP
    ...     calls = capture.trace().calls
    """
    from .errors import CaptureError
    from .store import open_capture

    path = Path(path)
    if not path.exists():
        spool = Path(f"{path}.part")
        if spool.is_dir():
            raise CaptureError(
                path,
                f"does not exist, but {spool.name} does: it is still being recorded, or its process was killed; "
                f"for the latter: frametap recover {spool}",
            )
        raise CaptureError(path, "no such file")
    return OpenedCapture(open_capture(path))
