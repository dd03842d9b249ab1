"""Threads and losses of a trace, with their processes' ids and names in place of row numbers.

In: a trace. Out: :class:`Stats`.
"""

from __future__ import annotations

import numpy as np

from ..table import Trace
from .stats import Stats
from .totals import PIECE


def threads(trace: Trace) -> Stats:
    """What each thread did.

    Returns
    -------
    Stats
        name, pid, native_id, life, calls, busy_ns (time inside recorded calls, of all its stacks),
        deepest (levels), start_ns, end_ns (seen first and last, since the trace's start). In the
        trace's order. Threads without calls are there too.
    """
    t = trace.threads
    calls = trace.calls
    thread_of_track = trace.tracks["thread"].astype(np.int64)
    n_calls, busy_ns, deepest = (np.zeros(t.n_rows, np.int64) for _ in range(3))
    for low in range(0, calls.n_rows, PIECE):
        piece = slice(low, low + PIECE)
        thread, depth = thread_of_track[calls["track"][piece]], calls["depth"][piece]
        n_calls += np.bincount(thread, minlength=t.n_rows)
        outermost = depth == 0
        np.add.at(busy_ns, thread[outermost], calls["duration_ns"][piece][outermost])
        np.maximum.at(deepest, thread, depth.astype(np.int64) + 1)
    return Stats(
        {
            "name": t["name"],
            "pid": trace.processes["pid"][t["process"]],
            "native_id": t["native_id"],
            "life": t["life"],
            "calls": n_calls,
            "busy_ns": busy_ns,
            "deepest": deepest,
            "start_ns": t["start_ns"],
            "end_ns": t["end_ns"],
        }
    )


def losses(trace: Trace) -> Stats:
    """Everything that is missing or was repaired. No rows: nothing is.

    Returns
    -------
    Stats
        kind, count, pid (-1: not of one process), thread (name, "" if not of one), first_ns, last_ns
        (since the trace's start, -1 unknown).
    """
    rows = np.flatnonzero(trace.losses["count"] > 0)
    table = {name: trace.losses[name][rows] for name in trace.losses}
    pid = np.full(len(rows), -1, np.int64)
    known = table["process"] >= 0
    pid[known] = trace.processes["pid"][table["process"][known]]
    thread = np.full(len(rows), "", dtype=object)
    known = table["thread"] >= 0
    thread[known] = trace.threads["name"][table["thread"][known]]
    return Stats(
        {
            "kind": table["kind"],
            "count": table["count"],
            "pid": pid,
            "thread": thread,
            "first_ns": table["first_ns"],
            "last_ns": table["last_ns"],
        }
    )
