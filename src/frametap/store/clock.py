"""Ticks to nanoseconds.

In: the clock pairs of one process. Out: CLOCK_MONOTONIC ns for any tick. Invariant: the function is
monotone non-decreasing over all ticks and never raises, whatever the pairs say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Results stay inside ±2^62, so that differences of two of them fit an int64.
_LIMIT_NS = 1 << 62
# Two pairs closer than this give a slope that is mostly the jitter of reading two clocks.
_MIN_BASE_NS = 1_000_000


class ClockPair(NamedTuple):
    """One moment on three clocks; ``wall_ns`` is 0 where it was not taken."""

    tick: int
    monotonic_ns: int
    wall_ns: int


@dataclass(frozen=True)
class Clock:
    """The clock of one process.

    Attributes
    ----------
    kind : str
        ``tsc``, ``arm_counter``, ``monotonic`` or ``unknown``.
    start : ClockPair
        When recording started.
    stop : ClockPair or None
        When it stopped; None if the process was killed.
    ticks_per_ns : float
        As measured when the process started; used beyond the pairs, and where there is only one.
    pairs : list of ClockPair
        All pairs that agree with one another, in tick order; between two of them the conversion is linear.

    Examples
    --------
    >>> clock = Clock.of("tsc", ClockPair(1000, 5000, 0), ClockPair(3000, 6000, 0), 2.0)
    >>> clock.to_ns([1000, 1500, 3000, 3002]).tolist()
    [5000, 5250, 6000, 6001]
    """

    kind: str
    start: ClockPair
    stop: ClockPair | None
    ticks_per_ns: float
    pairs: list[ClockPair] = field(repr=False)

    @classmethod
    def of(
        cls,
        kind: str,
        start: ClockPair,
        stop: ClockPair | None,
        ticks_per_ns: float,
        more: Iterable[ClockPair] = (),
    ) -> Clock:
        """A clock from its ends and any number of pairs between; pairs that run backwards are left out."""
        ends = [start] if stop is None else [start, stop]
        pairs: list[ClockPair] = []
        for pair in sorted([*ends, *more]):
            if not 0 <= pair.monotonic_ns < _LIMIT_NS or not 0 <= pair.tick < 1 << 64:
                continue
            if not pairs or (pair.tick > pairs[-1].tick and pair.monotonic_ns >= pairs[-1].monotonic_ns):
                pairs.append(pair)
        if not pairs:
            pairs = [ClockPair(0, 0, 0)]
        first, last = pairs[0], pairs[-1]
        if not (math.isfinite(ticks_per_ns) and 1e-6 < ticks_per_ns < 1e6):
            ticks_per_ns = 1.0
            if last.monotonic_ns > first.monotonic_ns:
                ticks_per_ns = (last.tick - first.tick) / (last.monotonic_ns - first.monotonic_ns)
        return cls(kind, start, stop, ticks_per_ns, pairs)

    def to_ns(self, ticks: ArrayLike) -> NDArray[np.int64]:
        """CLOCK_MONOTONIC of each tick.

        Parameters
        ----------
        ticks : array-like of uint64, any shape

        Returns
        -------
        ndarray of int64
            Same shape, ns; never decreasing where ticks do not.
        """
        at = np.asarray(ticks, dtype=np.uint64)
        tick = np.array([p.tick for p in self.pairs], dtype=np.uint64)
        ns = np.array([p.monotonic_ns for p in self.pairs], dtype=np.int64)
        first, last = self.pairs[0], self.pairs[-1]
        beyond = 1.0 / self.ticks_per_ns
        if last.monotonic_ns - first.monotonic_ns >= _MIN_BASE_NS:
            beyond = (last.monotonic_ns - first.monotonic_ns) / (last.tick - first.tick)
        slope = np.append(np.diff(ns) / np.diff(tick).astype(np.float64), beyond)
        piece = np.maximum(np.searchsorted(tick, at, side="right"), 1) - 1
        # Distances are whole ticks from the piece's own start: exact in a double for 35 days at 3 GHz.
        before = at < tick[0]
        distance = np.where(before, tick[0] - at, at - tick[piece]).astype(np.float64)
        moved = np.minimum(distance * np.where(before, beyond, slope[piece]), float(_LIMIT_NS))
        result = ns[piece] + np.where(before, -np.ceil(moved), np.floor(moved)).astype(np.int64)
        ceiling = np.append(ns[1:], _LIMIT_NS)  # rounding must not step over the next pair
        return np.asarray(np.minimum(result, ceiling[piece]), dtype=np.int64)
