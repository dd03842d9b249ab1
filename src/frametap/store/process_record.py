"""One process of a capture or spool, as replay and reports read it.

In: its parts, each read by a reader that trusts nothing. Out: :class:`ProcessRecord`. Invariant: every
key of ``info`` listed in :data:`INFO_DEFAULTS` is there with that type, and every thread that has events
has a :class:`ThreadRecord`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .clock import Clock, ClockPair
from .segments import EventSource, Segment, SegmentIndex
from .tables import LossDetail, Tables, ThreadRecord

#: What process.json must say; a key that is missing or of another type gets this value.
INFO_DEFAULTS: dict[str, Any] = {
    "pid": -1,
    "parent_pid": -1,
    "command": [],
    "executable": "",
    "python": "",
    "platform": "",
    "host": "",
    "engine": "",
    "c_calls": False,
    "options": {},
    "frametap": "",
    "working_directory": "",
}


@dataclass(frozen=True)
class ProcessParts:
    """What a process's files say beside its tables and events; stored in a capture's process.json."""

    folder: str  #: name of its folder in the spool
    info: dict[str, Any]
    clock_kind: str
    start: ClockPair | None  #: None: the header of events.bin could not be read
    stop: ClockPair | None
    ticks_per_ns: float
    losses: dict[str, int]
    damage: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`json.dumps`."""
        clock = {"kind": self.clock_kind, "start": self.start, "stop": self.stop, "ticks_per_ns": self.ticks_per_ns}
        return {"folder": self.folder, "info": self.info, "clock": clock, "losses": self.losses, "damage": self.damage}

    @classmethod
    def from_json(cls, stored: Any) -> ProcessParts:
        """The inverse of :meth:`to_json`; whatever has not the right form is left out and said in ``damage``."""
        damage: list[str] = []

        def take(table: Any, key: str, types: type | tuple[type, ...], otherwise: Any) -> Any:
            value = table.get(key) if isinstance(table, dict) else None
            if isinstance(value, types) and (not isinstance(value, bool) or types is bool):
                return value
            damage.append(f"process.json: {key!r} is missing or wrong")
            return otherwise

        clock = take(stored, "clock", dict, {})
        said = take(stored, "damage", list, [])
        return cls(
            folder=take(stored, "folder", str, ""),
            info=take(stored, "info", dict, {}),
            clock_kind=take(clock, "kind", str, "unknown"),
            start=_pair(clock.get("start"), damage),
            stop=_pair(clock.get("stop"), damage),
            ticks_per_ns=float(max(0, min(take(clock, "ticks_per_ns", (int, float), 1.0), 1e9))),
            losses={
                str(k): v for k, v in take(stored, "losses", dict, {}).items() if type(v) is int and 0 < v < 1 << 64
            },
            damage=[s for s in said if isinstance(s, str)] + damage,
        )


def _pair(value: Any, damage: list[str]) -> ClockPair | None:
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 3 and all(type(v) is int and 0 <= v < 1 << 64 for v in value):
        return ClockPair(*value)
    damage.append("process.json: a clock pair is wrong")
    return None


class ProcessRecord:
    """One recorded process.

    Attributes
    ----------
    info : dict
        Its process.json; has every key of :data:`INFO_DEFAULTS`.
    folder : str
        Name of its folder in the spool: ``p<pid>-<n>``.
    clock : Clock
    losses : dict of str to int
        The process-wide counters that are not zero, by name.
    loss_details : list of LossDetail
        Where and when, as far as it was noted; details are part of the totals in ``losses``.
    complete : bool
        It closed its file in order; False: it was killed, or is still running.
    functions, sites : dict of str to column
        See :class:`frametap.store.tables.Tables`.
    names : dict of int to str
    threads : list of ThreadRecord
        In life order; a thread that has events and no description is there with an empty name.
    index : SegmentIndex
        All segments: counts without reading any.
    """

    def __init__(self, parts: ProcessParts, tables: Tables, source: EventSource, damage: list[str]) -> None:
        self.parts = parts
        self.tables = tables
        self._source = source
        self._damage = [*parts.damage, *damage]
        self.folder = parts.folder
        self.info = self._checked_info(parts.info)
        self.losses = parts.losses
        self.loss_details: list[LossDetail] = tables.losses
        self.complete = parts.start is not None and parts.stop is not None
        self.functions = tables.functions
        self.sites = tables.sites
        self.names = tables.names
        self.threads = self._all_threads()
        self.clock = self._make_clock()

    @property
    def index(self) -> SegmentIndex:
        return self._source.index

    @property
    def damage(self) -> list[str]:
        """Sentences on what could not be read; reading events can add some, at the end."""
        return list(dict.fromkeys([*self._damage, *self._source.damage]))

    def add_damage(self, *sentences: str) -> None:
        """Note what a reader of this process's surroundings found."""
        self._damage.extend(sentences)

    def words(self, row: int) -> NDArray[np.uint64] | None:
        """Words of one row of :attr:`index`; None, with a sentence in ``damage``, if they cannot be read."""
        return self._source.words(row)

    def segments(self, life: int) -> Iterator[Segment]:
        """Segments of one thread in sequence order, one at a time in memory.

        A segment that cannot be read is left out and said in ``damage``.
        """
        index = self.index
        try:
            for row in index.rows(life):
                words = self._source.words(row)
                if words is not None:
                    tick, ns = int(index.tick[row]), int(index.monotonic_ns[row])
                    yield Segment(life, int(index.sequence[row]), tick, ns, words)
        finally:
            self._source.close()

    def close(self) -> None:
        self._source.close()

    def __repr__(self) -> str:
        return f"<process {self.info['pid']}: {len(self.threads)} threads, {self.index.total_words} words>"

    def _checked_info(self, info: dict[str, Any]) -> dict[str, Any]:
        checked = dict(info)
        for key, default in INFO_DEFAULTS.items():
            value = info.get(key)
            right = type(value) is type(default) and (key != "command" or all(isinstance(a, str) for a in info[key]))
            if not right:
                checked[key] = default
                if key in info:
                    self._damage.append(f"process.json: {key!r} is not {type(default).__name__}")
        return checked

    def _all_threads(self) -> list[ThreadRecord]:
        threads = dict(self.tables.threads)
        unknown = [life for life in self.index.lives() if life not in threads]
        for life in unknown:
            row = self.index.rows(life)[0]
            threads[life] = ThreadRecord(life, -1, "", int(self.index.tick[row]), None)
        if unknown:
            shown = ", ".join(map(str, unknown[:10])) + (", …" if len(unknown) > 10 else "")
            self._damage.append(f"threads without description: {shown}")
        return [threads[life] for life in sorted(threads)]

    def _make_clock(self) -> Clock:
        parts, index = self.parts, self.index
        pairs = list(self.tables.clock_pairs)
        if (parts.stop is None or parts.start is None) and len(index):
            # Segments carry both clocks: the first and the last one replace what the header lacks.
            for row in (int(index.tick.argmin()), int(index.tick.argmax())):
                pairs.append(ClockPair(int(index.tick[row]), int(index.monotonic_ns[row]), 0))
        start = parts.start or min(pairs, default=ClockPair(0, 0, 0))
        return Clock.of(parts.clock_kind, start, parts.stop, parts.ticks_per_ns, pairs)
