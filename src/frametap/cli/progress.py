"""Progress of long work on stderr: shown after half a second, only on a terminal.

In: ``(done, total)`` calls. Out: a bar that is gone when the work is done.
Invariant: no thread is started (none can be at interpreter exit), nothing is imported before it shows.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

_PATIENCE_S = 0.5
_REFRESH_S = 0.1


class progress:
    """``with progress("reading") as show: work(progress=show)``; ``show`` is None where nobody looks."""

    def __init__(self, label: str, quiet: bool = False) -> None:
        self._label = label
        stream = sys.__stderr__
        self._wanted = not quiet and stream is not None and not stream.closed and stream.isatty()
        self._next_s = time.monotonic() + _PATIENCE_S
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Any:
        return self._show if self._wanted else None

    def _show(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + _REFRESH_S
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(file=sys.__stderr__), auto_refresh=False, transient=True)
            self._task = self._bar.add_task(self._label)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=max(total, 1), refresh=True)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
