"""The account of losses: one row per kind, process and thread.

In: what the recorder counted for a whole process, what it told with its events, what replay found.
Out: the `losses` table. Invariant: no row with count 0; a loss that was both counted for the process
and told in a thread is in the table once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from ..table import Table
from ..table.losses import LOSSES, RECORDER_KINDS, REPLAY_KINDS
from .threads import Array

FIRST_FOUND = 32  #: slots from here on: found by replay (core/replay/replayer.h)
UNKNOWN_SITE = FIRST_FOUND + REPLAY_KINDS.index("unknown_site")
UNKNOWN_KIND = "unknown_kind"  #: a newer recorder's
NO_THREAD = -1
_MAX = (1 << 63) - 1


def slot_name(slot: int) -> str:
    """Name of a slot of the core's losses."""
    names, i = (RECORDER_KINDS, slot) if slot < FIRST_FOUND else (REPLAY_KINDS, slot - FIRST_FOUND)
    return names[i] if i < len(names) else UNKNOWN_KIND


@dataclass
class _Entry:
    noted: int = 0
    told: int = 0
    found: int = 0
    first_ns: int = -1
    last_ns: int = -1

    @property
    def from_recorder(self) -> int:
        return max(self.noted, self.told)  # two accounts of the same losses

    def seen(self, first_ns: int, last_ns: int) -> None:
        if first_ns >= 0:
            self.first_ns = first_ns if self.first_ns < 0 else min(self.first_ns, first_ns)
            self.last_ns = max(self.last_ns, last_ns)


@dataclass
class ProcessLosses:
    """One process's account. Threads are rows of the threads table, or -1 for none in particular."""

    process: int
    _entries: dict[tuple[str, int], _Entry] = field(default_factory=lambda: defaultdict(_Entry))
    _totals: dict[str, int] = field(default_factory=dict)

    def total(self, kind: str, count: int) -> None:
        """The recorder's own total; what is told of single threads is part of it."""
        if kind in LOSSES:
            self._totals[kind] = max(count, self._totals.get(kind, 0))
        else:
            self.found(UNKNOWN_KIND, NO_THREAD, count)

    def noted(self, kind: str, thread: int, count: int, first_ns: int = -1, last_ns: int = -1) -> None:
        """Noted by the recorder beside its totals; several notes add up."""
        entry = self._entries[kind if kind in LOSSES else UNKNOWN_KIND, thread]
        entry.noted += count
        entry.seen(first_ns, last_ns)

    def told(self, kind: str, thread: int, count: int, first_ns: int = -1, last_ns: int = -1) -> None:
        """Told by the recorder in a thread's events."""
        entry = self._entries[kind, thread]
        entry.told += count
        entry.seen(first_ns, last_ns)

    def found(self, kind: str, thread: int, count: int, first_ns: int = -1, last_ns: int = -1) -> None:
        """Found here, unknown to the recorder."""
        entry = self._entries[kind, thread]
        entry.found += count
        entry.seen(first_ns, last_ns)

    def found_at(self, kind: str, threads: Array, times_ns: Array) -> None:
        """As `found`, one for each of the arrays' elements."""
        for thread in np.unique(threads).tolist():
            times = times_ns[threads == thread]
            self.found(kind, thread, len(times), int(times.min()), int(times.max()))

    def slots(self, thread: int, losses: dict[int, tuple[int, int, int]]) -> None:
        """Take over what the core's `Replayer.losses` returned for a thread."""
        for slot, (count, first_ns, last_ns) in losses.items():
            (self.told if slot < FIRST_FOUND else self.found)(slot_name(slot), thread, count, first_ns, last_ns)

    def rows(self) -> list[tuple[str, int, int, int, int, int]]:
        """Kind, count, process, thread, first and last time."""
        for kind, total in self._totals.items():
            rest = total - sum(e.from_recorder for (k, _), e in self._entries.items() if k == kind)
            if rest > 0:
                self.found(kind, NO_THREAD, rest)
        self._totals.clear()
        counts = ((kind, thread, e.from_recorder + e.found, e) for (kind, thread), e in sorted(self._entries.items()))
        return [
            (kind, min(count, _MAX), self.process, thread, e.first_ns, e.last_ns)
            for kind, thread, count, e in counts
            if count > 0
        ]


def losses_table(accounts: list[ProcessLosses]) -> Table:
    """The table of all processes' losses."""
    rows = [row for account in accounts for row in account.rows()]
    names = ("kind", "count", "process", "thread", "first_ns", "last_ns")
    return Table("losses", {name: [row[i] for row in rows] for i, name in enumerate(names)})
