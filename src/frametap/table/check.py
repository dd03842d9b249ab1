"""Checks a trace: whether its tables keep what the schema and the rest of frametap promise.

In: a :class:`frametap.table.Trace`. Out: a list of :class:`Problem`, empty if there is none.
Invariant: no finding means that on every track calls nest (no crossing, children inside parents) and
that every reference points at a row. Vectorised: 10 million calls take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .losses import LOSSES
from .schema import Outcome
from .trace import Trace

Array = np.ndarray[Any, Any]

# Column -> the table whose rows it names, and whether -1 (none) is allowed.
_REFERENCES = (
    ("calls", "site", "sites", False),
    ("calls", "track", "tracks", False),
    ("calls", "parent", "calls", True),
    ("sites", "function", "functions", False),
    ("sites", "caller", "functions", True),
    ("functions", "process", "processes", False),
    ("tracks", "thread", "threads", False),
    ("threads", "process", "processes", False),
    ("marks", "track", "tracks", False),
    ("losses", "process", "processes", True),
    ("losses", "thread", "threads", True),
)


@dataclass(frozen=True)
class Problem:
    """A promise that is not kept.

    Attributes
    ----------
    table, rule : str
        Whose promise, and which.
    count : int
        How many rows break it.
    row : int
        The first of them.
    """

    table: str
    rule: str
    count: int
    row: int

    def __str__(self) -> str:
        return f"{self.table}: {self.rule}: {self.count} rows, the first is row {self.row}"


def validate(trace: Trace) -> list[Problem]:
    """Check all tables of a trace.

    Returns
    -------
    list of Problem
        Empty for every trace that :func:`frametap.replay.build_trace` makes.
    """
    problems: list[Problem] = []

    def expect(table: str, rule: str, holds: Array, rows: Array | None = None) -> None:
        if not holds.all():
            bad = np.flatnonzero(~holds)
            problems.append(Problem(table, rule, len(bad), int(bad[0] if rows is None else rows[bad].min())))

    for table, column, target, may_miss in _REFERENCES:
        values = getattr(trace, table)[column].astype(np.int64, copy=False)
        low = -1 if may_miss else 0
        n = getattr(trace, target).n_rows
        expect(table, f"{column} is a row of {target}", (values >= low) & (values < n))
    if any(p.rule.startswith(("parent", "track")) for p in problems):
        return problems  # what follows would follow them

    _check_calls(trace, expect)
    marks, losses = trace.marks, trace.losses
    is_span = marks["kind"] == "span"
    expect(
        "marks",
        "spans have a duration, others -1",
        np.where(is_span, marks["duration_ns"] >= 0, marks["duration_ns"] == -1),
    )
    expect("marks", "start order", np.diff(marks["start_ns"], prepend=-(1 << 62)) >= 0)
    expect("losses", "count is positive", losses["count"] > 0)
    expect("losses", "kind is documented", np.isin(losses["kind"].astype(str), [*LOSSES]))
    expect("losses", "first_ns is not after last_ns", losses["first_ns"] <= losses["last_ns"])
    for kind in ("threads", "processes"):
        expect(
            kind, "end_ns is not before start_ns", getattr(trace, kind)["start_ns"] <= getattr(trace, kind)["end_ns"]
        )
    return problems


def _check_calls(trace: Trace, expect: Any) -> None:
    calls = trace.calls
    n = calls.n_rows
    track, start, duration, parent = calls["track"], calls["start_ns"], calls["duration_ns"], calls["parent"]
    self_ns, depth = calls["self_ns"], calls["depth"]
    end = start + duration

    expect("calls", "duration_ns is not negative", duration >= 0)
    expect("calls", "self_ns lies in 0 .. duration_ns", (self_ns >= 0) & (self_ns <= duration))
    expect("calls", "start_ns is not negative", start >= 0)
    expect("calls", "outcome is one of schema.Outcome", calls["outcome"] <= max(Outcome))
    same_track = np.concatenate([np.zeros(min(n, 1), dtype=bool), track[1:] == track[:-1]])
    expect("calls", "tracks follow one another", np.diff(track.astype(np.int64), prepend=0) >= 0)
    expect("calls", "start order within a track", ~same_track | (np.diff(start, prepend=0) >= 0))

    child = np.flatnonzero(parent >= 0)
    above = parent[child]
    expect("calls", "parent comes first", above < child, child)
    expect("calls", "parent is on the same track", track[above] == track[child], child)
    expect("calls", "lies inside its parent", (start[child] >= start[above]) & (end[child] <= end[above]), child)
    right_depth = depth == 0
    right_depth[child] = depth[child] == depth[above].astype(np.int64) + 1
    expect("calls", "depth is one more than the parent's", right_depth)

    # By depth, then row: calls of one depth and parent stand side by side if rows are in the order of
    # a walk over the tree, and then the parent is the last row of the depth above that comes before.
    small = depth.astype(np.uint16) if n and depth.max() < 1 << 16 else depth
    order = np.argsort(small, kind="stable")
    key = depth[order].astype(np.int64) * n + order
    inner = order[np.count_nonzero(depth == 0) :]
    last_above = order[np.searchsorted(key, (depth[inner].astype(np.int64) - 1) * n + inner) - 1]
    expect("calls", "parent is the call it follows", parent[inner] == last_above, inner)
    a, b = order[:-1], order[1:]
    siblings = (parent[a] == parent[b]) & (track[a] == track[b]) & (depth[a] == depth[b])
    expect("calls", "does not cross the call before it", ~siblings | (end[a] <= start[b]), b)

    inside = np.zeros(n, dtype=np.int64)
    np.add.at(inside, above, duration[child])
    expect("calls", "self_ns is duration_ns less that of the children", self_ns == duration - inside)
