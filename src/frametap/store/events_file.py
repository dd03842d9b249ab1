"""Reads a process's events.bin in its spool folder.

In: a file in the layout of core/store/format.h, perhaps still being written, cut or damaged. Out: its
header, an index of its segments, and their words one segment at a time. Invariant: what the file says
is compared with its size before it is used; everything that does not fit becomes a sentence in
``damage``, never an exception (but for a newer format, which could be misread).

The file is read, not mapped: a mapped file that another process cuts kills the reader, and its pages
would count as this process's memory.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..errors import NewerFormatError
from .clock import ClockPair
from .format import (
    FILE_HEADER,
    FILE_MAGIC,
    FORMAT_VERSION,
    HEADER_BYTES,
    SEGMENT_ALIGN,
    ClockKind,
    loss_name,
)
from .segments import INDEX_DTYPES, SegmentIndex, sorted_index

#: A chunk larger than this is taken for damage; readers hold one in memory.
MAX_CHUNK_BYTES = 256 << 20
_MIN_CHUNK_BYTES = 4096

_FAULTS = {
    1: "bytes that are no segment were skipped",
    2: "a segment is cut: its last events are missing",
    3: "a segment says that it reaches beyond its chunk",
    4: "the system could not read a segment",
}


@dataclass(frozen=True)
class EventsHeader:
    """The file header. ``stop`` is None until the process closed the file in order."""

    clock_kind: str
    chunk_bytes: int  #: 0: not known, the value in the file is impossible
    pid: int
    start: ClockPair
    stop: ClockPair | None
    n_chunks: int
    ticks_per_ns: float
    losses: dict[str, int]  #: those that are not zero


class EventsFile:
    """An events.bin, open for reading; an :class:`~frametap.store.segments.EventSource`.

    Parameters
    ----------
    path : Path
    ring : bool
        Recorded with ``keep=``: old segments are missing on purpose.

    Attributes
    ----------
    header : EventsHeader or None
        None if it cannot be read; segments are then searched for.
    index : SegmentIndex
    damage : list of str

    Raises
    ------
    NewerFormatError
    """

    def __init__(self, path: Path, *, ring: bool = False) -> None:
        self.path = path
        self.header: EventsHeader | None = None
        self.index = SegmentIndex.empty()
        self.damage: list[str] = []
        self._fd = -1
        try:
            self._open()
            self.bytes = os.fstat(self._fd).st_size
            head = os.pread(self._fd, HEADER_BYTES, 0)
        except OSError as error:
            self.bytes = 0
            self._say(f"{error.strerror or error}; its events are missing")
            return
        try:
            self._read_header(head)
            self._read_index(ring)
        except NewerFormatError:
            self.close()
            raise

    def _open(self) -> None:
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)

    def _say(self, sentence: str) -> None:
        self.damage.append(f"{self.path.name}: {sentence}")

    def _read_header(self, head: bytes) -> None:
        if len(head) < FILE_HEADER.size:
            self._say(f"has {len(head)} bytes, its header alone takes {HEADER_BYTES}; its events are missing")
            return
        magic, version, clock_kind, chunk_bytes, pid, *numbers = FILE_HEADER.unpack_from(head)
        if magic != FILE_MAGIC:
            self._say(f"starts with {magic!r}, expected {FILE_MAGIC!r}; its segments were searched for")
            return
        if version > FORMAT_VERSION:
            raise NewerFormatError(self.path, version, FORMAT_VERSION)
        if not _MIN_CHUNK_BYTES <= chunk_bytes <= MAX_CHUNK_BYTES or chunk_bytes % SEGMENT_ALIGN:
            self._say(f"says that a chunk has {chunk_bytes} bytes, which cannot be; its segments were searched for")
            chunk_bytes = 0
        n_chunks, ticks_per_ns, *losses = numbers[6:]
        self.header = EventsHeader(
            clock_kind=ClockKind(clock_kind).name.lower() if clock_kind in set(ClockKind) else "unknown",
            chunk_bytes=chunk_bytes,
            pid=pid,
            start=ClockPair(*numbers[:3]),
            stop=ClockPair(*numbers[3:6]) if any(numbers[3:6]) else None,
            n_chunks=n_chunks,
            ticks_per_ns=ticks_per_ns,
            losses={loss_name(i): n for i, n in enumerate(losses) if n},
        )
        end = HEADER_BYTES + n_chunks * chunk_bytes
        if chunk_bytes and self.bytes < end:
            self._say(f"is cut: it has {self.bytes} bytes and should have {end}")

    def _read_index(self, ring: bool) -> None:
        found = _core.find_segments(self._fd, self.bytes, self.header.chunk_bytes if self.header else 0)
        for kind, count in sorted(Counter(found["fault_kind"].tolist()).items()):
            first = int(found["fault_offset"][found["fault_kind"] == kind][0])
            times = "" if count == 1 else f", and {count - 1} times more"
            self._say(f"{_FAULTS[kind]} (byte {first}{times})")
        columns = {name: found[name] for name in (*INDEX_DTYPES, "offset")}
        self.index, damage = sorted_index(columns, gaps_expected=ring)
        for sentence in damage:
            self._say(sentence)

    def words(self, row: int) -> NDArray[np.uint64] | None:
        """Words of one row of the index; None, with a sentence in ``damage``, if they cannot be read."""
        n_bytes = int(self.index.n_words[row]) * 8
        offset = int(self.index.where["offset"][row])
        try:
            self._open()
            data = os.pread(self._fd, n_bytes, offset)
        except OSError as error:
            self._say(f"segment at byte {offset}: {error.strerror or error}; its events are missing")
            return None
        if len(data) < n_bytes:
            self._say(f"became shorter while it was read; events from byte {offset} on are missing")
            data = data[: len(data) & ~7]
        return np.frombuffer(data, dtype=np.uint64)

    def close(self) -> None:
        """Close the file; reading opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
