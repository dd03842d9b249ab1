"""The collapsed writer, read by splitting lines and by speedscope's importer."""

import io
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from export.traces import Process, Thread, Track, build, call, chain
from hypothesis import given, settings
from hypothesis import strategies as st
from readers import speedscope

from frametap.export import check, collapsed, export
from frametap.table import Trace

ROOT = "python prog.py [100] MainThread"


def lines(trace: Trace) -> list[tuple[tuple[str, ...], int]]:
    """Stacks and numbers, each frame's place left out."""
    out = io.BytesIO()
    collapsed.write(trace, out)
    found = []
    for line in out.getvalue().decode().splitlines():
        stack, number = line.rsplit(" ", 1)
        found.append((tuple(frame.removesuffix(" (/src/mod.py:3)") for frame in stack.split(";")), int(number)))
    return found


def test_equal_stacks_are_one_line_of_self_nanoseconds() -> None:
    trace = build([[
        call("f", 0, 10, [call("g", 1, 3), call("h h", 3, 4, kind="c"), call("g", 5, 9)]),
        call("f", 10, 11), call("g", 11, 12, [call("f", 11, 12)]),
    ]])  # fmt: skip
    assert lines(trace) == [
        ((ROOT, "f"), 4), ((ROOT, "f", "g"), 6), ((ROOT, "f", "h h"), 1), ((ROOT, "g", "f"), 1),
    ]  # fmt: skip


def test_threads_of_one_name_and_process_share_a_root() -> None:
    trace = build(
        [Track([call("f", 0, 1)], 0), Track([call("f", 5, 7)], 1), Track([call("f", 0, 4)], 2)],
        threads=[Thread(100, "pool"), Thread(101, "pool"), Thread(8, "pool", 1)],
        processes=[Process(100), Process(8)],
    )
    assert sorted(lines(trace)) == [
        (("python prog.py [100] pool", "f"), 3),
        (("python prog.py [8] pool", "f"), 4),
    ]


def test_names_cannot_break_a_stack_or_a_line() -> None:
    odd = ["a;b", "new\nline", "tab\tx", "sep\u2028x", "é", "", " 12", "lone\udcff"]
    trace = build([[call(name, k, k + 1, kind="c") for k, name in enumerate(odd)]])
    found = lines(trace)
    assert [stack[1] for stack, _ in found if stack[0] == ROOT] == [
        "a:b", "new line", "tab x", "sep x", "é", "(no name)", "12", "lone\\udcff",
    ]  # fmt: skip
    assert (("[frametap losses]", "export_changed_names: 1"), 1) in found
    assert (("[frametap losses]", "export_changed_frames: 6"), 1) in found


def test_stacks_below_the_deepest_written_keep_their_time_in_one_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collapsed, "MAX_FRAMES", 4)
    found = lines(build([[chain(10)]]))
    assert [(len(stack), stack[-1], number) for stack, number in found] == [
        (2, "f0", 2), (3, "f1", 2), (4, "f2", 2), (5, "[deeper]", 14),
    ]  # fmt: skip


def test_deep_recursion_is_written_in_bounded_lines() -> None:
    found = lines(build([[chain(20_000)]]))
    assert sum(number for _, number in found) == 40_000
    assert max(len(stack) for stack, _ in found) == collapsed.MAX_FRAMES + 1


def test_an_empty_trace_is_an_empty_file() -> None:
    assert lines(build([])) == []


@st.composite
def nested(draw: st.DrawFn, first: int = 0, levels: int = 5) -> list[Any]:
    calls = []
    for _ in range(draw(st.integers(0, 3 if levels else 0))):
        children = draw(nested(first + 1, levels - 1))
        end = (children[-1].end if children else first) + draw(st.integers(0, 3))
        calls.append(call(draw(st.sampled_from("fgh")), first, end, children))
        first = end
    return calls


@settings(max_examples=60, deadline=None)
@given(tracks=st.lists(nested(), min_size=1, max_size=3), piece=st.sampled_from([1, 1 << 15]))
def test_any_nested_calls_sum_up_as_one_by_one(tracks: list[Any], piece: int) -> None:
    expected: Counter[tuple[str, ...]] = Counter()

    def visit(one: Any, above: tuple[str, ...]) -> None:
        stack = (*above, one.name)
        expected[stack] += one.end - one.start - sum(c.end - c.start for c in one.children)
        for child in one.children:
            visit(child, stack)

    for k, calls in enumerate(tracks):
        for one in calls:
            visit(one, (f"python prog.py [100] t{k % 2}",))
    threads = [Thread(200 + k, f"t{k % 2}") for k in range(len(tracks))]
    trace = build([Track(calls, k) for k, calls in enumerate(tracks)], threads=threads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "PIECE", piece)
        found = lines(trace)
    assert len(dict(found)) == len(found)
    assert dict(found) == {stack: number for stack, number in expected.items() if number}


@pytest.mark.skipif(bool(speedscope.missing()), reason=speedscope.missing())
def test_speedscope_imports_what_the_lines_say(tmp_path: Path) -> None:
    trace = build(
        [[call("a;b", 0, 1 << 40, [call("né", 1, 3, [call("x y", 1, 2, kind="c")])]), call("f", 1 << 41, 1 << 42)]]
    )
    export(trace, tmp_path / "x.collapsed.txt")
    (profile,) = speedscope.nodes(tmp_path / "x.collapsed.txt")
    read = {
        tuple(re.sub(r" \(/src/mod.py:3\)$", "", frame) for frame in stack): weight
        for stack, weight in profile["nodes"] if weight
    }  # fmt: skip
    assert read == dict(lines(trace))
