"""Spans, marks and counters of whatever is being recorded in this process.

In: names and values from the program. Out: records in the running tap.
Invariant: without a running tap every function here does nothing, on any interpreter, so a program
can keep its annotations for good.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

#: The core while a tap records in this process, else None. Set by ``frametap.record.session`` only.
recording_core: Any = None


class _NoSpan:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


NO_SPAN: AbstractContextManager[Any] = _NoSpan()


def span(name: str) -> AbstractContextManager[Any]:
    """A named range on this thread's timeline, for a ``with`` statement.

    Examples
    --------
    >>> with span("load"):
    ...     pass
    """
    core = recording_core
    return NO_SPAN if core is None else core.Span(name)


def mark(name: str) -> None:
    """A named moment on this thread's timeline.

    Examples
    --------
    >>> mark("warmed up")
    """
    core = recording_core
    if core is not None:
        core.instant(name)


def counter(name: str, value: float) -> None:
    """The value of a named quantity at this moment.

    Examples
    --------
    >>> counter("queue length", 3)
    """
    core = recording_core
    if core is not None:
        core.counter(name, value)
