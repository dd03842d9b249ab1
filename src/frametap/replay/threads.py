"""One thread's events to spans: the core's `Replayer`, fed.

In: a process record, one of its threads, the classes of its sites. Out: :class:`ThreadSpans`, whose
arrays are the core's own memory. Invariant: as in core/replay/replayer.h, on any events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core

if TYPE_CHECKING:
    from ..store import Clock, ProcessRecord

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]


@dataclass
class ThreadSpans:
    """What was recorded on one thread.

    Attributes
    ----------
    life : int
        The thread's number within its process.
    tracks : list of (int, dict of str to array)
        Stack id, and the columns of its calls: ``site`` (site id as recorded), ``start_ns``,
        ``duration_ns``, ``self_ns``, ``parent`` (row of the same track), ``depth``, ``outcome``, ``flags``.
    resumes : dict of str to array
        ``address``, ``is_first``, ``time_ns``, ``site`` (id), ``track`` (index into `tracks`), ``row``: one
        entry a resume, in order.
    marks : dict of str to array
        ``kind`` (0 span begin, 1 span end, 2 instant, 3 counter), ``track``, ``time_ns``, ``name``
        (name id), ``value`` (a span's serial, the bits of a counter's double).
    losses : dict of int to (int, int, int)
        By slot: count, first and last time.
    first_ns, last_ns : int
        Range of the thread's events; -1 and the process's start if there are none.
    """

    life: int
    tracks: list[tuple[int, Columns]]
    resumes: Columns
    marks: Columns
    losses: dict[int, tuple[int, int, int]]
    first_ns: int
    last_ns: int


@dataclass(frozen=True)
class Knots:
    """A clock for the core: points between which it runs evenly, in ns since the trace's zero."""

    ticks: Array
    ns: Array
    ns_per_tick: float

    @classmethod
    def of(cls, clock: Clock, zero_ns: int) -> Knots:
        """Between two of a clock's pairs it runs evenly; nothing is before the trace's zero."""
        ticks = np.array([p.tick for p in clock.pairs], dtype=np.uint64)
        last = int(ticks[-1])
        beyond = min(1 << 40, (1 << 64) - 1 - last)
        ns = clock.to_ns(np.append(ticks, np.uint64(last + beyond))) - np.int64(zero_ns)
        rate = float(ns[-1] - ns[-2]) / beyond if beyond else 0.0
        return cls(ticks, np.maximum(ns[:-1], 0), rate)


def replay_thread(
    record: ProcessRecord,
    life: int,
    site_classes: Array,
    knots: Knots,
    *,
    on_segment: Callable[[int], object] | None = None,
) -> ThreadSpans:
    """Replay one thread.

    Parameters
    ----------
    record : ProcessRecord
        The process, of an open capture.
    life : int
        The thread's number within the process.
    site_classes : array of uint8
        ``SITE_*`` bits by site id.
    knots : Knots
        The process's clock.
    on_segment : callable, optional
        Called with the number of words of each segment, after it was replayed.

    Returns
    -------
    ThreadSpans
    """
    replayer = _core.Replayer(site_classes, knots.ticks, knots.ns, knots.ns_per_tick)
    expected = None  # before a first segment nothing is open, so nothing can be missed
    for segment in record.segments(life):
        if expected is not None and segment.sequence != expected:
            replayer.missing(segment.tick)
        expected = segment.sequence + 1
        replayer.feed(np.ascontiguousarray(segment.words, dtype=np.uint64), segment.tick)
        if on_segment is not None:
            on_segment(len(segment.words))
    return ThreadSpans(
        life=life,
        tracks=replayer.tracks(),
        resumes=replayer.resumes(),
        marks=replayer.marks(),
        losses=replayer.losses(),
        first_ns=replayer.first_ns,
        last_ns=replayer.last_ns,
    )
