"""Traces for tests, from nested lists.

``call("f", 0, 10, [call("g", 2, 3)])`` is one call with its children; :func:`build` turns lists of such into tables.
Times are absolute, as written; nothing is checked, so that broken traces can be built as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from frametap.table import Table, Trace
from frametap.table.schema import SCHEMA

WALL_NS = 1_790_857_026_123_456_789


@dataclass
class Call:
    name: str
    start: int
    end: int
    children: list[Call] = field(default_factory=list)
    kind: str = "python"
    line: int = 7
    outcome: int = 0
    flags: int = 0
    instance: int = 0


def call(name: str, start: int, end: int, children: Sequence[Call] = (), **more: Any) -> Call:
    return Call(name, start, end, list(children), **more)


@dataclass
class Track:
    """One track: its calls, and what is said of its thread and process."""

    calls: list[Call] = field(default_factory=list)
    thread: int = 0  #: row of threads
    stack: int = 0
    name: str = ""


@dataclass
class Thread:
    native_id: int = 100
    name: str = "MainThread"
    process: int = 0


@dataclass
class Process:
    pid: int = 100
    command: str = "python prog.py"
    complete: bool = True


def build(
    tracks: Sequence[Track | list[Call]],
    *,
    threads: Sequence[Thread] = (Thread(),),
    processes: Sequence[Process] = (Process(),),
    marks: Sequence[tuple[int, str, str, int, int, float]] = (),
    losses: Sequence[tuple[str, int, int, int, int, int]] = (),
    meta: dict[str, Any] | None = None,
) -> Trace:
    """A trace of tracks, each a list of outermost calls. Functions are told apart by name, kind and process."""
    rows: dict[str, list[Any]] = {c.name: [] for c in SCHEMA["calls"]}
    functions: dict[tuple[str, str, int], int] = {}
    sites: dict[tuple[int, int, int], int] = {}
    tracks = [t if isinstance(t, Track) else Track(t) for t in tracks]
    for number, track in enumerate(tracks):
        process = threads[track.thread].process
        work = [(c, -1, -1, 0) for c in reversed(track.calls)]
        while work:
            one, parent, caller, depth = work.pop()
            function = functions.setdefault((one.name, one.kind, process), len(functions))
            key = (function, caller, one.line if caller >= 0 else -1)
            row = len(rows["site"])
            inner = sum(c.end - c.start for c in one.children)
            for name, value in (
                ("site", sites.setdefault(key, len(sites))), ("track", number), ("start_ns", one.start),
                ("duration_ns", one.end - one.start), ("self_ns", one.end - one.start - inner), ("parent", parent),
                ("depth", depth), ("outcome", one.outcome), ("flags", one.flags), ("instance", one.instance),
            ):  # fmt: skip
                rows[name].append(value)
            work += [(c, row, function, depth + 1) for c in reversed(one.children)]

    def table(kind: str, data: list[tuple[Any, ...]]) -> Table:
        names = [c.name for c in SCHEMA[kind]]
        return Table(kind, {n: [row[k] for row in data] for k, n in enumerate(names)})

    return Trace(
        calls=Table("calls", rows),
        sites=table("sites", list(sites)),
        functions=table(
            "functions",
            [
                (name, "mod" if kind == "python" else "", "/src/mod.py" if kind == "python" else "", 3, kind, process)
                for name, kind, process in functions
            ],
        ),
        tracks=table("tracks", [(t.thread, t.stack, t.name or threads[t.thread].name) for t in tracks]),
        threads=table("threads", [(t.process, k + 1, t.native_id, t.name, 0, 10**6) for k, t in enumerate(threads)]),
        processes=table("processes", [(p.pid, -1, p.command, "3.11.7", 0, 10**6, p.complete) for p in processes]),
        marks=table("marks", list(marks)),
        losses=table("losses", list(losses)),
        start_wall_ns=WALL_NS,
        duration_ns=10**6,
        meta=meta or {},
    )


def chain(depth: int, *, name: str = "f") -> Call:
    """Calls nested ``depth`` deep; the one at depth d runs from d to 2 * depth - d."""
    inner: list[Call] = []
    for d in reversed(range(depth)):
        inner = [call(f"{name}{d}", d, 2 * depth - d, inner)]
    return inner[0]
