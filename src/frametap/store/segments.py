"""Which segments a process has, and the words of one of them.

In: columns found in a spool's events.bin or a capture's index. Out: :class:`SegmentIndex`, in
(thread, sequence) order, without duplicates. Invariant: sequence numbers rise within a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

#: Columns every index has, with their dtypes; where the words lie is up to the source.
INDEX_DTYPES = {
    "thread": np.uint32,
    "sequence": np.uint32,
    "tick": np.uint64,
    "monotonic_ns": np.uint64,
    "n_words": np.uint64,
}


class Segment(NamedTuple):
    """A run of words written by one thread.

    ``tick`` is the thread's clock at the first word and ``monotonic_ns`` was taken with it; ``words`` is
    an array of uint64, possibly empty and possibly read-only.
    """

    thread: int
    sequence: int
    tick: int
    monotonic_ns: int
    words: NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class SegmentIndex:
    """Columns of all segments of a process, sorted; ``where`` has the source's own columns."""

    thread: NDArray[np.uint32]
    sequence: NDArray[np.uint32]
    tick: NDArray[np.uint64]
    monotonic_ns: NDArray[np.uint64]
    n_words: NDArray[np.uint64]
    where: dict[str, NDArray[np.uint64]]

    def __len__(self) -> int:
        return len(self.thread)

    @property
    def total_words(self) -> int:
        return int(self.n_words.sum())

    def rows(self, life: int) -> range:
        """Rows of one thread, in sequence order."""
        low, high = np.searchsorted(self.thread, [life, life + 1])
        return range(int(low), int(high))

    def lives(self) -> list[int]:
        """Thread lives that have segments."""
        return [int(t) for t in np.unique(self.thread)]

    @classmethod
    def empty(cls) -> SegmentIndex:
        return cls(**{n: np.zeros(0, d) for n, d in INDEX_DTYPES.items()}, where={})


def sorted_index(columns: Mapping[str, NDArray[Any]], *, gaps_expected: bool = False) -> tuple[SegmentIndex, list[str]]:
    """Sort columns (those of :data:`INDEX_DTYPES` and any others) into an index.

    Parameters
    ----------
    gaps_expected : bool
        Missing segments are no damage, or one that was told before.

    Returns
    -------
    index : SegmentIndex
    damage : list of str
        Duplicate and missing segments.
    """
    order = np.lexsort((columns["sequence"], columns["thread"]))
    thread = columns["thread"][order].astype(np.int64)
    sequence = columns["sequence"][order].astype(np.int64)
    again = np.zeros(len(order), bool)
    again[1:] = (thread[1:] == thread[:-1]) & (sequence[1:] == sequence[:-1])
    damage = []
    if again.any():
        damage.append(f"{int(again.sum())} segments appear twice; the first of each was kept")
        keep = ~again
        order, thread, sequence = order[keep], thread[keep], sequence[keep]
    if not gaps_expected and len(order):
        # Sequences start at 0: a thread's first segment is compared with a segment -1 before it.
        before = np.where(np.diff(thread, prepend=-1) != 0, -1, np.roll(sequence, 1))
        missing = sequence - before - 1
        for life in np.unique(thread[missing > 0])[:10].tolist():
            damage.append(f"thread {life}: {int(missing[thread == life].sum())} segments are missing")
        n_more = len(np.unique(thread[missing > 0])) - 10
        if n_more > 0:
            damage.append(f"{n_more} more threads have segments missing")
    main = {name: columns[name][order].astype(dtype) for name, dtype in INDEX_DTYPES.items()}
    where = {n: c[order].astype(np.uint64) for n, c in columns.items() if n not in INDEX_DTYPES}
    return SegmentIndex(**main, where=where), damage


class EventSource(Protocol):
    """Where a process's words come from: a spool's events.bin or a capture's frames."""

    index: SegmentIndex
    damage: list[str]  #: grows when reading finds more

    def words(self, row: int) -> NDArray[np.uint64] | None:
        """Words of one row of the index; None, with a sentence in ``damage``, if they cannot be read."""

    def close(self) -> None: ...
