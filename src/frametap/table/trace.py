"""A trace: the tables of one capture.

In: tables that refer to one another by row number. Out: the same, by attribute.
Invariant: on every track calls nest (``frametap.table.check``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .table import Table


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything known about one recording.

    Attributes
    ----------
    calls, sites, functions, tracks, threads, processes, marks, losses : Table
        See :data:`frametap.table.schema.SCHEMA` for columns, dtypes and units.
    start_wall_ns : int
        The trace's zero, ns since 1970-01-01 UTC.
    duration_ns : int
        From the trace's zero to the last thing recorded.
    meta : dict
        The capture's metadata: versions, options, host.
    """

    calls: Table
    sites: Table
    functions: Table
    tracks: Table
    threads: Table
    processes: Table
    marks: Table
    losses: Table
    start_wall_ns: int
    duration_ns: int
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def n_calls(self) -> int:
        return self.calls.n_rows
