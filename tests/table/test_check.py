"""The checker finds each kind of broken promise, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from frametap.table import Table, Trace
from frametap.table.check import validate

# Two tracks:  0 .......... 100      0 .... 50
#               10 .. 40  40 . 60      5 . 5
#                 20 30
CALLS: dict[str, list[int]] = {
    "site": [0, 0, 0, 0, 0, 0],
    "track": [0, 0, 0, 0, 1, 1],
    "start_ns": [0, 10, 20, 40, 0, 5],
    "duration_ns": [100, 30, 10, 20, 50, 0],
    "self_ns": [50, 20, 10, 20, 50, 0],
    "parent": [-1, 0, 1, 0, -1, 4],
    "depth": [0, 1, 2, 1, 0, 1],
    "outcome": [0, 0, 1, 2, 3, 0],
    "flags": [0] * 6,
    "instance": [0] * 6,
}


def trace(**other: Any) -> Trace:
    tables = {
        "calls": Table("calls", CALLS),
        "sites": Table("sites", {"function": [0], "caller": [-1], "line": [-1]}),
        "functions": Table(
            "functions",
            {"name": ["f"], "module": [""], "file": [""], "line": [1], "kind": ["python"], "process": [0]},
        ),
        "tracks": Table("tracks", {"thread": [0, 0], "stack": [0, 1], "name": ["a", "b"]}),
        "threads": Table(
            "threads", {"process": [0], "life": [1], "native_id": [-1], "name": [""], "start_ns": [0], "end_ns": [100]}
        ),
        "processes": Table(
            "processes",
            {"pid": [1], "parent_pid": [-1], "command": [""], "python": [""], "start_ns": [0], "end_ns": [100],
             "complete": [True]},
        ),
        "marks": Table.empty("marks"),
        "losses": Table.empty("losses"),
    }  # fmt: skip
    return Trace(**(tables | other), start_wall_ns=0, duration_ns=100)


def rules(broken: Trace) -> list[tuple[str, int]]:
    return [(p.rule, p.row) for p in validate(broken)]


def test_a_sound_trace_has_no_problem() -> None:
    assert validate(trace()) == []
    assert validate(trace(calls=Table.empty("calls"))) == []


@pytest.mark.parametrize(
    ("column", "row", "value", "rule"),
    [
        ("site", 1, 9, "site is a row of sites"),
        ("track", 5, 7, "track is a row of tracks"),
        ("parent", 2, 6, "parent is a row of calls"),
        ("parent", 2, -2, "parent is a row of calls"),
        ("parent", 1, 3, "parent comes first"),
        ("parent", 5, 0, "parent is on the same track"),
        ("parent", 2, 0, "parent is the call it follows"),
        ("duration_ns", 5, -1, "duration_ns is not negative"),
        ("self_ns", 2, 11, "self_ns lies in 0 .. duration_ns"),
        ("self_ns", 2, 9, "self_ns is duration_ns less that of the children"),
        ("start_ns", 0, -1, "start_ns is not negative"),
        ("start_ns", 3, 19, "start order within a track"),
        ("duration_ns", 2, 21, "lies inside its parent"),
        ("duration_ns", 1, 31, "does not cross the call before it"),
        ("depth", 2, 1, "depth is one more than the parent's"),
        ("track", 3, 1, "tracks follow one another"),
        ("outcome", 0, 4, "outcome is one of schema.Outcome"),
    ],
)
def test_each_broken_promise_is_found(column: str, row: int, value: int, rule: str) -> None:
    columns = {name: list(values) for name, values in CALLS.items()}
    columns[column][row] = value
    if rule == "tracks follow one another":
        columns[column][4:] = [0, 1]
    assert rule in [r for r, _ in rules(trace(calls=Table("calls", columns)))]


def test_roots_of_one_track_may_not_cross() -> None:
    columns = {name: values[4:] for name, values in CALLS.items()} | {"parent": [-1, -1], "depth": [0, 0]}
    assert rules(trace(calls=Table("calls", columns))) == [("does not cross the call before it", 1)]


def test_the_first_row_is_given_for_each_problem() -> None:
    columns = CALLS | {"self_ns": [50, 20, 10, 20, 49, 1]}
    (bounds, total) = validate(trace(calls=Table("calls", columns)))
    assert (bounds.rule, bounds.row, bounds.count) == ("self_ns lies in 0 .. duration_ns", 5, 1)
    assert (total.row, total.count) == (4, 2)
    assert str(total) == "calls: self_ns is duration_ns less that of the children: 2 rows, the first is row 4"


def test_losses_are_counted_documented_and_in_order() -> None:
    def loss(**values: Any) -> Trace:
        row = {"kind": "forked", "count": 1, "process": 0, "thread": -1, "first_ns": 5, "last_ns": 6} | values
        return trace(losses=Table("losses", {name: [value] for name, value in row.items()}))

    assert rules(loss()) == []
    assert rules(loss(count=0)) == [("count is positive", 0)]
    assert rules(loss(kind="sundry")) == [("kind is documented", 0)]
    assert rules(loss(last_ns=4)) == [("first_ns is not after last_ns", 0)]


def test_marks_are_in_order_and_only_spans_last() -> None:
    def marks(kind: str, duration: int, start: int = 5) -> Trace:
        row = {"track": 0, "name": "m", "value": np.nan}
        columns = {name: [value] * 2 for name, value in row.items()}
        columns |= {"kind": ["span", kind], "start_ns": [5, start], "duration_ns": [0, duration]}
        return trace(marks=Table("marks", columns))

    assert rules(marks("instant", -1)) == []
    assert rules(marks("span", -1)) == [("spans have a duration, others -1", 1)]
    assert rules(marks("counter", 3)) == [("spans have a duration, others -1", 1)]
    assert rules(marks("instant", -1, start=4)) == [("start order", 1)]


def test_a_million_rows_of_equal_times_are_sound() -> None:
    n = 1_000_000
    zeros = np.zeros(n, dtype=np.int64)
    parent = np.arange(-1, n - 1)
    calls = {name: zeros for name in CALLS} | {"parent": parent, "depth": np.arange(n)}
    assert validate(replace(trace(), calls=Table("calls", calls))) == []
