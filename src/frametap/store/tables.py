"""What the ids in a process's events mean: functions, call sites, names, threads, clock pairs, losses.

In: rows, one at a time, from a journal or a capture. Out: columns. Invariant: every value has the
declared type and range; a row that has not is counted, named in ``damage``, and left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import numpy as np

from .clock import ClockPair

FUNCTION_COLUMNS = ("id", "kind", "qualname", "module", "file", "line", "flags")
SITE_COLUMNS = ("id", "function", "caller", "line", "flags")
FUNCTION_INTERNAL = 1  #: flag of a function: frametap's own, never shown
SITE_RESUME = 1  #: flag of a site: entries are resumes

_U32 = range(1 << 32)
_I32 = range(-(1 << 31), 1 << 31)
_U64 = range(1 << 64)
_I64 = range(-(1 << 63), 1 << 63)
_ID = range(1, 1 << 32)

# Fields of each kind of row after its tag: str, or the range that an int must lie in.
_FIELDS: dict[str, tuple[range | type[str], ...]] = {
    "function": (_ID, str, str, str, str, _I32, _U32),
    "site": (_ID, _U32, _U32, _I32, _U32),
    "name": (_ID, str),
    "thread": (_ID, _I64, str, _U64),
    "thread_end": (_ID, _U64),
    "clock": (_U64, _U64, _U64),
    "loss": (str, _U64, _U32, _U64, _U64),
}


class ThreadRecord(NamedTuple):
    """One life of a thread; ``end_tick`` is None if its end was not seen."""

    life: int
    native_id: int
    name: str
    start_tick: int
    end_tick: int | None


@dataclass(frozen=True)
class LossDetail:
    """Where and when something was lost; ``life`` 0: not one thread's."""

    kind: str
    count: int
    life: int
    first_tick: int
    last_tick: int


class Tables:
    """The tables of one process, filled row by row; of two rows with one id the later wins.

    Attributes
    ----------
    names : dict of int to str
        Names of spans, instants and counters.
    threads : dict of int to ThreadRecord
        By life.
    clock_pairs : list of ClockPair
    losses : list of LossDetail
    n_bad : int
        Rows that were refused.
    """

    def __init__(self) -> None:
        self._functions: dict[int, tuple[Any, ...]] = {}
        self._sites: dict[int, tuple[int, ...]] = {}
        self._ends: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.threads: dict[int, ThreadRecord] = {}
        self.clock_pairs: list[ClockPair] = []
        self.losses: list[LossDetail] = []
        self.n_bad = 0

    def add(self, row: Any) -> None:
        """Take one row ``[tag, field, …]``. An unknown tag is passed over: a newer recorder may write more."""
        if not isinstance(row, list) or not row or not isinstance(row[0], str):
            self.n_bad += 1
            return
        tag = row[0]
        fields = _FIELDS.get(tag)
        if fields is None:
            return
        values = tuple(row[1 : 1 + len(fields)])
        if len(values) != len(fields) or not all(map(_fits, values, fields)):
            self.n_bad += 1
            return
        match tag:
            case "function":
                self._functions[values[0]] = values
            case "site":
                self._sites[values[0]] = values
            case "name":
                self.names[values[0]] = values[1]
            case "thread":
                life, native_id, name, start = values
                if life in self.threads:
                    start = self.threads[life].start_tick
                self.threads[life] = ThreadRecord(life, native_id, name, start, self._ends.get(life))
            case "thread_end":
                life, end = values
                self._ends[life] = end
                if life in self.threads:
                    self.threads[life] = self.threads[life]._replace(end_tick=end)
            case "clock":
                self.clock_pairs.append(ClockPair(*values))
            case "loss":
                self.losses.append(LossDetail(*values))

    @property
    def functions(self) -> dict[str, Any]:
        """Columns :data:`FUNCTION_COLUMNS`: id, line, flags as arrays, the others as lists of str."""
        dtypes = {"id": np.uint32, "line": np.int32, "flags": np.uint32}
        columns = _transpose(self._functions.values(), FUNCTION_COLUMNS)
        return {n: np.array(c, dtype=dtypes[n]) if n in dtypes else c for n, c in columns.items()}

    @property
    def sites(self) -> dict[str, Any]:
        """Columns :data:`SITE_COLUMNS`, arrays of uint32 (``line``: int32)."""
        columns = _transpose(self._sites.values(), SITE_COLUMNS)
        return {n: np.array(c, dtype=np.int32 if n == "line" else np.uint32) for n, c in columns.items()}

    def to_json(self) -> dict[str, Any]:
        """As stored in a capture: an object of columns for each kind of row."""
        threads = [t[:4] for t in self.threads.values()]
        ends = [(t.life, t.end_tick) for t in self.threads.values() if t.end_tick is not None]
        return {
            "function": _transpose(self._functions.values(), FUNCTION_COLUMNS),
            "site": _transpose(self._sites.values(), SITE_COLUMNS),
            "name": _transpose(self.names.items(), ("id", "text")),
            "thread": _transpose(threads, ("life", "native_id", "name", "start_tick")),
            "thread_end": _transpose(ends, ("life", "end_tick")),
            "clock": _transpose(self.clock_pairs, ClockPair._fields),
            "loss": _transpose(map(astuple, self.losses), ("kind", "count", "life", "first_tick", "last_tick")),
        }

    @classmethod
    def from_json(cls, stored: Any) -> Tables:
        """The inverse of :meth:`to_json`; what is not like that is counted in ``n_bad``."""
        tables = cls()
        for tag, columns in stored.items() if isinstance(stored, dict) else ():
            if not isinstance(columns, dict) or not all(isinstance(c, list) for c in columns.values()):
                tables.n_bad += 1
                continue
            lengths = {len(c) for c in columns.values()}
            if len(lengths) > 1:
                tables.n_bad += max(lengths) - min(lengths)
            for row in zip(*columns.values(), strict=False):
                tables.add([tag, *row])
        return tables


def _fits(value: Any, field: range | type[str]) -> bool:
    return type(value) is str if field is str else type(value) is int and value in field  # type: ignore[operator]


def _transpose(rows: Iterable[Iterable[Any]], names: Iterable[str]) -> dict[str, list[Any]]:
    names = tuple(names)
    columns = list(map(list, zip(*rows, strict=True))) or [[] for _ in names]
    return dict(zip(names, columns, strict=True))
