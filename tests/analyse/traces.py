"""Traces built from rows, for analyses whose numbers can be worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from frametap.table import Table, Trace
from frametap.table.schema import Outcome

#: name, module, file, line, kind
Function = tuple[str, str, str, int, str]


def make_trace(
    calls: list[tuple[Any, ...]],
    functions: list[Function],
    *,
    sites: list[tuple[int, int, int]] | None = None,
    threads: tuple[str, ...] = ("MainThread",),
    tracks: list[int] | None = None,
    processes: int = 1,
    losses: list[tuple[str, int]] | None = None,
    **meta: Any,
) -> Trace:
    """A trace.

    Parameters
    ----------
    calls
        (track, depth, site, start_ns, duration_ns[, outcome[, instance]]), in the table's order.
    sites
        (function, caller, line); by default one for each function, without caller.
    tracks
        The thread of each track; by default one each.
    processes
        Thread i belongs to process i modulo this.
    """
    sites = sites if sites is not None else [(i, -1, -1) for i in range(len(functions))]
    tracks = tracks if tracks is not None else list(range(len(threads)))
    n = len(calls)
    rows = [(*call, *(Outcome.RETURNED, 0)[len(call) - 5 :]) for call in calls]
    track, depth, site, start, duration, outcome, instance = zip(*rows, strict=True) if rows else ([],) * 7
    parent, self_ns, open_ = [], list(duration), []
    for i in range(n):
        del open_[depth[i] :]
        if i and track[i] != track[i - 1]:
            open_ = []
        parent.append(open_[-1] if open_ else -1)
        if open_:
            self_ns[open_[-1]] -= duration[i]
        open_.append(i)
    thread_process = [i % processes for i in range(len(threads))]
    losses = losses or []
    return Trace(
        calls=Table(
            "calls",
            {
                "site": site,
                "track": track,
                "start_ns": start,
                "duration_ns": duration,
                "self_ns": self_ns,
                "parent": parent,
                "depth": depth,
                "outcome": outcome,
                "flags": [16 if i else 0 for i in instance],
                "instance": instance,
            },
        ),
        sites=Table("sites", dict(zip(("function", "caller", "line"), np.array(sites).reshape(-1, 3).T, strict=True))),
        functions=Table(
            "functions",
            {
                **{c: [f[i] for f in functions] for i, c in enumerate(("name", "module", "file", "line", "kind"))},
                "process": [0] * len(functions),
            },
        ),
        tracks=Table("tracks", {"thread": tracks, "stack": [0] * len(tracks), "name": [threads[t] for t in tracks]}),
        threads=Table(
            "threads",
            {
                "process": thread_process,
                "life": [i + 1 for i in range(len(threads))],
                "native_id": [500 + i for i in range(len(threads))],
                "name": list(threads),
                "start_ns": [0] * len(threads),
                "end_ns": [1000] * len(threads),
            },
        ),
        processes=Table(
            "processes",
            {
                "pid": [100 + i for i in range(processes)],
                "parent_pid": [1] * processes,
                "command": ["python app.py"] * processes,
                "python": ["3.13.1"] * processes,
                "start_ns": [0] * processes,
                "end_ns": [1000] * processes,
                "complete": [True] * processes,
            },
        ),
        marks=Table.empty("marks"),
        losses=Table(
            "losses",
            {
                "kind": [kind for kind, _ in losses],
                "count": [count for _, count in losses],
                "process": [0] * len(losses),
                "thread": [-1] * len(losses),
                "first_ns": [-1] * len(losses),
                "last_ns": [-1] * len(losses),
            },
        ),
        start_wall_ns=0,
        duration_ns=1000,
        meta=meta,
    )
