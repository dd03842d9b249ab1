"""Opens a capture, or a spool in place.

In: a path. Out: :class:`Capture`. Invariant: whatever the file holds, the result is a capture, perhaps
partial and with ``damage``, or a :class:`CaptureError` that says what to do; memory is bounded by the
file's size and one frame.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import CaptureError, NewerFormatError
from . import frames
from .container import Container
from .format import CAPTURE_FORMAT, FORMAT_VERSION
from .process_record import ProcessParts, ProcessRecord
from .segments import INDEX_DTYPES, SegmentIndex, sorted_index
from .spool import Spool
from .tables import Tables

_MEMBER = re.compile(r"processes/(0|[1-9]\d{0,8})/[a-z.]+")


class Capture:
    """A recording, open for reading; a context manager.

    Attributes
    ----------
    path : Path
    meta : dict
        Recording-wide facts: ``format_version`` and, where known, ``frametap`` (the recorder's version),
        ``output``, ``root_pid``, ``started_wall_ns``, ``options``, ``complete``.
    processes : list of ProcessRecord
        The root process first, then in the order in which they started.
    is_spool : bool
        Read in place from a ``.part`` folder.
    """

    def __init__(
        self, path: Path, meta: dict[str, Any], processes: list[ProcessRecord], container: Container | None
    ) -> None:
        self.path = path
        self.meta = meta
        self.processes = processes
        self.is_spool = container is None
        self._container = container

    def close(self) -> None:
        """Close the files; segments cannot be read afterwards."""
        for process in self.processes:
            process.close()
        if self._container is not None:
            self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<capture {str(self.path)!r}: {len(self.processes)} processes>"


def open_capture(path: str | os.PathLike[str]) -> Capture:
    """Open a capture file (``.ftap``) or a spool folder (``.ftap.part``).

    Raises
    ------
    CaptureError
        It is neither, or nothing in it can be read.
    NewerFormatError
        It was written by a newer frametap.
    """
    where = Path(path)
    if where.is_dir():
        return _open_spool(where)
    part = where.with_name(where.name + ".part")
    if not where.exists() and part.is_dir():
        raise CaptureError(where, f"does not exist, but {part} does: make it with `frametap recover {part}`")
    container = Container(where)
    try:
        return _open_container(where, container)
    except BaseException:
        container.close()
        raise


def _open_spool(path: Path) -> Capture:
    spool = Spool(path)
    processes = [spool.read_process(folder) for folder in spool.folders]
    processes[0].add_damage(*spool.damage)
    complete = all(p.complete for p in processes)
    return Capture(path, {**spool.meta, "format": CAPTURE_FORMAT, "complete": complete}, processes, None)


def _open_container(path: Path, container: Container) -> Capture:
    damage: list[str] = []
    meta = _read_object(container, "meta.json", damage)
    if "meta.json" not in container.members or (meta is not None and meta.get("format") != CAPTURE_FORMAT):
        raise CaptureError(path, "is a ZIP file, but no frametap capture: its meta.json does not say that it is one")
    meta = meta or {}
    version = meta.get("format_version", FORMAT_VERSION)
    if type(version) is not int or version < 1:
        damage.append("meta.json: 'format_version' is wrong")
        version = FORMAT_VERSION
    elif version > FORMAT_VERSION:
        raise NewerFormatError(path, version, FORMAT_VERSION)
    meta["format_version"] = version
    numbers = sorted({int(m[1]) for m in map(_MEMBER.fullmatch, container.members) if m})
    cache = FrameCache()
    processes = [_read_process(container, f"processes/{i}/", cache) for i in numbers]
    if not processes:
        raise CaptureError(path, "holds no process: it is damaged; take another copy if there is one")
    processes[0].add_damage(*damage, *container.damage)
    return Capture(path, meta, processes, container)


def _read_process(container: Container, at: str, cache: FrameCache) -> ProcessRecord:
    damage: list[str] = []
    parts = ProcessParts.from_json(_read_object(container, at + "process.json", damage) or {})
    tables = Tables.from_json(_read_object(container, at + "tables.json", damage) or {})
    if tables.n_bad:
        damage.append(f"{at}tables.json: {tables.n_bad} rows could not be understood; names are missing")
    return ProcessRecord(parts, tables, CaptureEvents(container, at, cache), damage)


def _read_object(container: Container, name: str, damage: list[str]) -> dict[str, Any] | None:
    """A JSON object, or None, with a sentence in ``damage``."""
    said = len(container.damage)
    data = container.read(name)
    if data is None:
        if len(container.damage) == said:
            damage.append(f"{name} is missing")
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        damage.append(f"{name} is no JSON object")
        return None
    return value


class FrameCache:
    """The frames decoded last, over all processes: short threads share one and are read one after another."""

    _SIZE = 4

    def __init__(self) -> None:
        self._frames: dict[tuple[str, int], NDArray[np.uint64]] = {}

    def get(self, key: tuple[str, int]) -> NDArray[np.uint64] | None:
        return self._frames.get(key)

    def add(self, key: tuple[str, int], words: NDArray[np.uint64]) -> None:
        while len(self._frames) >= self._SIZE:
            del self._frames[next(iter(self._frames))]
        self._frames[key] = words


class CaptureEvents:
    """The events of one process of a capture; an :class:`~frametap.store.segments.EventSource`."""

    def __init__(self, container: Container, at: str, cache: FrameCache) -> None:
        self.damage: list[str] = []
        self._container = container
        self._name = at + "events.zst"
        self._member = container.members.get(self._name)
        self._cache = cache
        self._unreadable: set[int] = set()
        stored = _read_object(container, at + "segments.json", self.damage)
        columns = None
        if stored is not None:
            said = stored.get("damage")
            if isinstance(said, list):
                self.damage.extend(s for s in said if isinstance(s, str))
            columns = self._stored_columns(stored)
        if columns is None and self._member is not None:
            if stored is not None:
                self.damage.append(f"{at}segments.json cannot be understood")
            columns = self._search_frames()
        if columns is None:
            self._frames = {n: np.zeros(0, np.uint64) for n in _FRAME_COLUMNS}
            self.index = SegmentIndex.empty()
            return
        segments, self._frames = columns
        self.index, again = sorted_index(self._possible(segments), gaps_expected=True)
        self.damage.extend(f"{at}segments.json: {sentence}" for sentence in again)

    def words(self, row: int) -> NDArray[np.uint64] | None:
        """Words of one row of the index; None, with a sentence in ``damage``, if they cannot be read."""
        n = int(self.index.n_words[row])
        if n == 0:
            return np.zeros(0, np.uint64)
        all_words = self._frame(int(self.index.where["frame"][row]))
        if all_words is None:
            return None
        first = int(self.index.where["first_word"][row])
        return all_words[first : first + n]

    def close(self) -> None:
        """Nothing: the file and the frames in memory are the capture's."""

    def _frame(self, number: int) -> NDArray[np.uint64] | None:
        cached = self._cache.get((self._name, number))
        if cached is not None:
            return cached
        if number in self._unreadable:
            return None
        assert self._member is not None  # else there is no row
        offset, size, n_words, crc32 = (int(self._frames[n][number]) for n in _FRAME_COLUMNS)
        try:
            words = frames.decode(self._container.read_at(self._member.offset + offset, size), n_words, crc32)
        except (frames.FrameError, OSError) as error:
            self._unreadable.add(number)
            self.damage.append(f"{self._name}: frame {number} cannot be read ({error}); its events are missing")
            return None
        self._cache.add((self._name, number), words)
        return words

    def _stored_columns(self, stored: dict[str, Any]) -> tuple[_Columns, _Columns] | None:
        segments = _int_columns(stored.get("segments"), (*INDEX_DTYPES, "frame", "first_word"))
        stored_frames = _int_columns(stored.get("frames"), _FRAME_COLUMNS)
        return None if segments is None or stored_frames is None else (segments, stored_frames)

    def _possible(self, segments: _Columns) -> _Columns:
        """Rows that lie inside a frame that lies inside the member."""
        there = self._member.bytes if self._member is not None else 0
        offset, size, n_words = (self._frames[n] for n in ("offset", "bytes", "n_words"))
        room = np.uint64(there)
        whole = (size <= room) & (offset <= room - np.minimum(size, room)) & (n_words <= frames.MAX_FRAME_WORDS)
        frame = segments["frame"]
        inside = frame < len(whole)
        at = np.where(inside, frame, 0)
        first, n = segments["first_word"], segments["n_words"]
        good = segments["thread"] < 1 << 32
        good &= segments["sequence"] < 1 << 32
        if len(whole):
            holds = n_words[at]
            good &= (n == 0) | (inside & whole[at] & (n <= holds) & (first <= holds - np.minimum(n, holds)))
        else:
            good &= n == 0
        if not good.all():
            self.damage.append(f"{self._name}: {int((~good).sum())} segments lie outside of what is there")
        return {name: column[good] for name, column in segments.items()}

    def _search_frames(self) -> tuple[_Columns, _Columns]:
        """Segments and frames as the frames themselves tell, for a capture without its index."""
        assert self._member is not None
        rows: list[NDArray[np.void]] = []
        frame_of: list[int] = []
        found: dict[str, list[int]] = {n: [] for n in _FRAME_COLUMNS}
        at = 0
        while True:
            head_bytes = self._read_member(at, frames.SKIP_HEAD.itemsize)
            if len(head_bytes) < frames.SKIP_HEAD.itemsize:
                break
            head = np.frombuffer(head_bytes, frames.SKIP_HEAD)[0]
            n_rows = (int(head["size"]) + 8 - frames.SKIP_HEAD.itemsize) // frames.SKIP_ROW.itemsize
            offset = at + int(head["size"]) + 8
            size = int(head["bytes"])
            if (
                head["magic"] != frames.SKIP_MAGIC
                or head["signature"] != frames.SKIP_SIGNATURE
                or offset + size > self._member.bytes
                or n_rows < 0
            ):
                break
            listed = self._read_member(at + frames.SKIP_HEAD.itemsize, n_rows * frames.SKIP_ROW.itemsize)
            rows.append(np.frombuffer(listed, frames.SKIP_ROW))
            frame_of.extend([len(found["offset"])] * n_rows)
            for name, value in zip(_FRAME_COLUMNS, (offset, size, head["n_words"], head["crc32"]), strict=True):
                found[name].append(int(value))
            at = offset + size
        n_cut = self._member.bytes - at
        if n_cut:
            self.damage.append(f"{self._name}: its last {n_cut} bytes are no whole frame; their events are missing")
        all_rows = np.concatenate(rows) if rows else np.zeros(0, frames.SKIP_ROW)
        segments = {n: all_rows[n].astype(np.uint64) for n in INDEX_DTYPES}
        segments["frame"] = np.array(frame_of, np.uint64)
        ends = np.cumsum(segments["n_words"], dtype=np.uint64)
        starts = ends - segments["n_words"]
        first_rows = np.searchsorted(segments["frame"], segments["frame"])
        segments["first_word"] = starts - starts[first_rows]
        return segments, {n: np.array(c, np.uint64) for n, c in found.items()}

    def _read_member(self, at: int, n_bytes: int) -> bytes:
        assert self._member is not None
        try:
            return self._container.read_at(self._member.offset + at, max(0, min(n_bytes, self._member.bytes - at)))
        except OSError:
            return b""


_Columns = dict[str, NDArray[np.uint64]]
_FRAME_COLUMNS = ("offset", "bytes", "n_words", "crc32")


def _int_columns(stored: Any, names: tuple[str, ...]) -> _Columns | None:
    """Lists of whole numbers below 2^64, all of one length, as arrays; None if they are not that."""
    if not isinstance(stored, dict):
        return None
    columns: _Columns = {}
    for name in names:
        values = stored.get(name)
        if not isinstance(values, list) or not all(type(v) is int for v in values):
            return None
        try:
            columns[name] = np.array(values, dtype=np.uint64)
        except (OverflowError, ValueError):
            return None
    return columns if len({len(c) for c in columns.values()}) == 1 else None
