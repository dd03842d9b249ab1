"""The checker: a sound trace passes as it is, a broken one is mended, and each repair is counted."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from export.traces import Process, Thread, Track, build, call, chain
from hypothesis import given, settings
from hypothesis import strategies as st

from frametap.export import check
from frametap.export.lanes import lanes, nesting
from frametap.table import Table, Trace


def changed(trace: Trace, **columns: Any) -> Trace:
    return replace(trace, calls=Table("calls", {**trace.calls, **columns}))


def rows_of(trace: Trace, track: int = 0) -> tuple[list[list[int]], list[tuple[str, int]]]:
    """Start, end, parent, depth and self of each call as checked, and the repairs."""
    checked = check.check(trace)
    s = next(s for s in checked.stacks if s.track == track)
    columns = (s.start_ns, s.start_ns + s.duration_ns, s.parent, s.depth, s.self_ns)
    return [[int(c[k]) for c in columns] for k in range(len(s))], [(x.kind, x.count) for x in checked.losses]


def test_a_sound_trace_passes_without_a_copy() -> None:
    trace = build([[call("f", 0, 9, [call("g", 0, 0), call("h", 0, 9)])], [call("f", 3, 4)]])
    checked = check.check(trace)
    assert checked.losses == []
    assert all(np.shares_memory(s.start_ns, trace.calls["start_ns"]) for s in checked.stacks)


def test_levels_beyond_16_bits_are_sound() -> None:
    assert check.check(build([[chain(70_000)]])).losses == []


BROKEN = {
    "child ends after its parent": ([call("f", 0, 10, [call("g", 5, 11)])], [[0, 10], [5, 10]]),
    "child starts before its parent": ([call("f", 5, 10, [call("g", 0, 7)])], [[5, 10], [5, 7]]),
    "siblings cross": ([call("f", 0, 6), call("g", 4, 9)], [[0, 6], [6, 9]]),
    "sibling crosses at a tie": ([call("f", 0, 6), call("g", 5, 5)], [[0, 6], [6, 6]]),
    "negative duration": ([call("f", 5, 3), call("g", 6, 7)], [[5, 5], [6, 7]]),
    "children of one cross, deeper": (
        [call("f", 0, 9, [call("g", 1, 5, [call("h", 2, 8)]), call("i", 4, 7)])], [[0, 9], [1, 5], [2, 5], [5, 7]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("piece", [1, 2, 1 << 15])
@pytest.mark.parametrize("name", BROKEN)
def test_broken_times_are_clamped_and_counted(name: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "PIECE", piece)
    calls, expected = BROKEN[name]
    trace = build([calls])
    rows, losses = rows_of(trace)
    assert [row[:2] for row in rows] == expected
    assert losses == [("export_repaired_calls", 1 + (name == "children of one cross, deeper"))]
    assert next(row[4] for row in rows if row[3] == 0) == expected[0][1] - expected[0][0] - sum(
        e - s for (s, e), row in zip(expected, rows, strict=True) if row[2] == 0
    )


def test_wrong_parents_and_depths_are_redone_from_the_order() -> None:
    trace = build([[call("f", 0, 10, [call("g", 1, 5, [call("h", 2, 3)]), call("i", 6, 7)])]])
    for columns in ({"parent": [-1, 0, 1, 1]}, {"parent": [-1, 0, 1, 3]}, {"parent": [-1, 0, 1, -7]}):
        rows, losses = rows_of(changed(trace, **columns))
        assert [row[2:4] for row in rows] == [[-1, 0], [0, 1], [1, 2], [0, 1]]
        assert losses == [("export_repaired_calls", 1)]
    rows, losses = rows_of(changed(trace, depth=[3, 1, 7, 1]))
    assert [row[2:4] for row in rows] == [[-1, 0], [0, 1], [1, 2], [0, 1]]
    assert losses == [("export_repaired_calls", 2)]


def test_tracks_that_are_mixed_are_sorted_apart() -> None:
    trace = build([[call("f", 0, 9, [call("g", 1, 2)])], Track([call("h", 0, 5)])])
    order = [0, 2, 1]
    mixed = replace(trace, calls=Table("calls", {name: column[order] for name, column in trace.calls.items()}))
    assert rows_of(mixed)[0] == rows_of(trace)[0]
    assert rows_of(mixed, 1)[0] == rows_of(trace, 1)[0]


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.integers(-3, 9), st.integers(0, 3), st.integers(-1, 9)), min_size=1),
    piece=st.sampled_from([1, 3, 1 << 15]),
)
def test_any_rows_come_out_nested(rows: list[tuple[int, int, int, int]], piece: int) -> None:
    start, duration, depth, parent = (list(column) for column in zip(*rows, strict=True))
    trace = build([[call("f", 0, 1) for _ in rows]])
    trace = changed(trace, start_ns=start, duration_ns=duration, depth=depth, parent=parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "PIECE", piece)
        found, _ = rows_of(trace)
    stack: list[int] = []
    for k, (first, last, up, level, _) in enumerate(found):
        while len(stack) > level:
            assert found[stack.pop()][1] <= first <= last
        assert len(stack) == level and up == (stack[-1] if stack else -1)
        assert all(found[s][0] <= first <= last <= found[s][1] for s in stack)
        stack.append(k)


def test_ids_are_unique_and_fit_31_bits() -> None:
    trace = build(
        [],
        processes=[Process(5), Process(5), Process(9), Process(-1)],
        threads=[Thread(5, "a", 0), Thread(5, "b", 1), Thread(9, "c", 0), Thread(6, "d", 2), Thread(6, "e", 2),
                 Thread(-1, "f", 3), Thread(2**33, "g", 3)],
    )  # fmt: skip
    checked = check.check(trace)
    assert checked.process_ids[0] == 5 and checked.process_ids[2] == 9
    assert checked.thread_ids[0] == 5 and checked.thread_ids[3] == 6
    everyone = [*checked.process_ids, *checked.thread_ids]
    assert all(0 < i < 2**31 for i in everyone)
    assert len(set(checked.process_ids)) == 4 and len(set(checked.thread_ids)) == 7
    own = {(checked.process_ids[p], t) for p, t in zip(trace.threads["process"], checked.thread_ids, strict=True)}
    assert all(pid == t for pid, t in own if t in checked.process_ids)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), min_size=1, max_size=12))
def test_lanes_never_cross_and_depths_are_those_of_a_stack(spans: list[tuple[int, int]]) -> None:
    spans.sort(key=lambda s: (s[0], -s[1]))
    start = np.array([s for s, _ in spans])
    end = start + np.array([d for _, d in spans])
    lane = lanes(start, end)
    for k in range(int(lane.max()) + 1):
        depth, sound = nesting(start[lane == k], end[lane == k])
        assert sound
        stack: list[tuple[int, int]] = []
        for s, e, d in zip(start[lane == k].tolist(), end[lane == k].tolist(), depth.tolist(), strict=True):
            while len(stack) > d:
                stack.pop()
            assert len(stack) == d and all(a <= s <= e <= b for a, b in stack)
            stack.append((s, e))
    crossing = any(a < s < b < e for a, b in zip(start, end, strict=True) for s, e in zip(start, end, strict=True))
    assert (int(lane.max()) > 0) == crossing
