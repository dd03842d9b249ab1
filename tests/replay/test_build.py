"""Captures to traces."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frametap.replay import build_trace
from frametap.store import open_capture, pack
from frametap.table import Table, Trace
from frametap.table.check import validate
from frametap.table.schema import CallFlag


@pytest.fixture
def spool(spool_writer: ModuleType, tmp_path: Path) -> Any:
    return spool_writer.SpoolWriter(tmp_path)


def build(spool: Any, **options: Any) -> Trace:
    """The trace of a spool, which must be the same as that of the capture packed from it."""
    part = spool.write()
    with open_capture(part) as capture:
        in_place = build_trace(capture, **options)
    pack(part, spool.output)
    with open_capture(spool.output) as capture:
        trace = build_trace(capture)
    for kind in ("calls", "sites", "functions", "tracks", "threads", "processes", "marks", "losses"):
        assert rows(getattr(trace, kind)) == rows(getattr(in_place, kind))
    assert validate(trace) == []
    return trace


def rows(table: Table, *names: str) -> list[tuple[Any, ...]]:
    columns = (table[name].tolist() for name in names or table)
    return [
        tuple("nan" if isinstance(v, float) and math.isnan(v) else v for v in row) for row in zip(*columns, strict=True)
    ]


def names_of(trace: Trace) -> list[str]:
    names: list[str] = trace.functions["name"][trace.sites["function"][trace.calls["site"]]].tolist()
    return names


def test_calls_name_their_function_caller_and_line(spool: Any) -> None:
    process = spool.process()
    outer, inner = process.function("outer"), process.function("inner", "lib.py", 30, module="lib")
    top, below = process.site(outer), process.site(inner, outer, 12)
    process.thread().arm().enter(top).enter(below).exit_return().exit_return().disarm()
    trace = build(spool)
    assert names_of(trace) == ["outer", "inner"]
    assert rows(trace.sites, "function", "caller", "line") == [(0, -1, -1), (1, 0, 12)]
    assert rows(trace.functions) == [
        ("outer", "app", "app.py", 1, "python", 0),
        ("inner", "lib", "lib.py", 30, "python", 0),
    ]
    assert rows(trace.calls, "start_ns", "duration_ns", "parent") == [(1010, 30, -1), (1020, 10, 0)]
    assert trace.losses.n_rows == 0


def test_parents_are_rows_of_the_whole_table(spool: Any) -> None:
    process = spool.process()
    site = process.site(process.function("f"))
    for _ in range(3):
        process.thread().enter(site).call(site).switch(5).enter(site).call(site)
    trace = build(spool)
    assert trace.calls["track"].tolist() == [t for t in range(6) for _ in range(2)]
    assert trace.calls["parent"].tolist() == [-1, 0, -1, 2, -1, 4, -1, 6, -1, 8, -1, 10]
    assert rows(trace.tracks)[:3] == [(0, 0, "MainThread"), (0, 5, "MainThread, greenlet 5"), (1, 0, "Thread-2")]


def test_a_thread_without_anything_has_no_track(spool: Any) -> None:
    process = spool.process()
    process.thread()
    process.thread(name="").instant(process.name("here"), dt=500)
    trace = build(spool)
    assert rows(trace.threads, "name", "start_ns", "end_ns") == [
        ("MainThread", 1000, 1000),
        ("thread 5002", 1000, 1500),
    ]
    assert rows(trace.tracks, "thread") == [(1,)]
    assert rows(trace.marks) == [(0, "instant", "here", 1500, -1, "nan")]


def test_processes_keep_their_own_functions_and_share_one_zero(spool: Any) -> None:
    for pid, start in ((100, 5000), (101, 7000)):
        process = spool.process(pid, parent_pid=pid - 1, start_tick=start)
        process.thread(start_tick=start + 100).call(process.site(process.function(f"f{pid}")))
    trace = build(spool)
    assert names_of(trace) == ["f100", "f101"]
    assert trace.functions["process"].tolist() == [0, 1]
    assert trace.calls["start_ns"].tolist() == [110, 2110]
    assert rows(trace.processes, "pid", "parent_pid", "start_ns", "end_ns") == [
        (100, 99, 0, 120),
        (101, 100, 2000, 2120),
    ]
    assert trace.start_wall_ns == 1_700_000_000_000_005_000
    assert trace.duration_ns == 2120
    assert [p["pid"] for p in trace.meta["processes"]] == [100, 101]


def test_frametaps_own_functions_are_in_no_table(spool: Any) -> None:
    process = spool.process()
    own, user, c = process.function("Tap.stop", flags=1), process.function("work"), process.function("len", kind="c")
    own_site, c_from_own = process.site(own, user, 3), process.site(c, own, 99)
    called_by_own, c_by_user = process.site(user, own, 98), process.site(c, user, 5)
    thread = process.thread().enter(own_site).enter(c_from_own).c_return().enter(called_by_own)
    thread.enter(c_by_user).c_return().exit_return().exit_return()
    trace = build(spool)
    assert names_of(trace) == ["work", "len"]
    assert trace.functions["name"].tolist() == ["work", "len"]
    assert rows(trace.sites) == [(0, -1, -1), (1, 0, 5)]
    assert trace.calls["depth"].tolist() == [0, 1]


def test_collections_are_calls(spool: Any) -> None:
    process = spool.process()
    work = process.site(process.function("work"))
    gc = process.site(process.function("gc generation 2", "", -1, module="", kind="gc"))
    process.thread().enter(work).enter(gc).c_return().exit_return()
    trace = build(spool)
    assert names_of(trace) == ["work", "gc generation 2"]
    assert trace.functions["kind"].tolist() == ["python", "gc"]


def test_sites_without_description_are_named_by_their_number(spool: Any) -> None:
    process = spool.process()
    known, lost = process.site(process.function("f")), process.site(77)
    process.thread().call(known).call(lost).call(5000).call(1 << 30)
    trace = build(spool)
    assert names_of(trace) == ["f", f"<unknown site {lost}>", "<unknown site 5000>", f"<unknown site {1 << 30}>"]
    assert rows(trace.losses) == [("unknown_site", 3, 0, 0, 1030, 1070)]


def test_a_thousand_unknown_sites_are_named_and_no_more(spool: Any) -> None:
    thread = spool.process(chunk_bytes=1 << 20).thread()
    for i in range(1500):
        thread.call(20_000 + i)
    trace = build(spool)
    assert trace.functions.n_rows == 1001
    assert names_of(trace)[999:1002] == ["<unknown site 20999>", "<other unknown sites>", "<other unknown sites>"]


def test_instances_are_numbered_across_threads(spool: Any) -> None:
    process = spool.process()
    plain = process.site(process.function("f"))
    g = process.site(process.function("g"), resume=True)
    h = process.site(process.function("h"), resume=True)
    process.thread().enter(plain).resume(g, 0xA, first=True).exit_yield().resume(h, 0xB, first=True).exit_return()
    process.thread(start_tick=5000).resume(g, 0xA).exit_return().switch(2).resume(h, 0xB).exit_return()
    trace = build(spool)
    assert trace.calls["instance"].tolist() == [0, 1, 2, 1, 2]
    assert trace.calls["flags"].tolist()[1:] == [48, 48, CallFlag.RESUME, CallFlag.RESUME]


def test_a_killed_process_ends_where_its_events_end(spool: Any) -> None:
    process = spool.process()
    process.thread().enter(process.site(process.function("f"))).call(16, 500)
    process.kill()
    trace = build(spool)
    assert rows(trace.processes, "complete", "end_ns") == [(False, 1520)]
    assert trace.calls["flags"].tolist() == [CallFlag.CUT, 0]


def test_spans_across_threads_and_left_open(spool: Any) -> None:
    process = spool.process()
    name = process.name("step")
    process.thread().span_begin(name, 1).span_begin(name, 2)
    process.thread(start_tick=2000).span_end(1).span_end(9)
    trace = build(spool)
    assert rows(trace.marks, "start_ns", "duration_ns") == [(1010, 1000), (1020, 1000)]
    assert rows(trace.losses) == [
        ("unfinished_span", 1, 0, 0, 1020, 1020),
        ("unmatched_span", 1, 0, 1, 2020, 2020),
    ]


def test_a_missing_segment_ends_what_was_open(spool: Any) -> None:
    process = spool.process()
    site = process.site(process.function("f"))
    process.thread().enter(site).segment(sequence=4).exit_return(40)
    trace = build(spool)
    assert rows(trace.calls, "duration_ns", "flags") == [(0, CallFlag.END_GUESSED)]
    assert rows(trace.losses, "kind", "count", "thread") == [
        ("damaged_capture", 1, -1),
        ("gone_unseen", 1, 0),
        ("unmatched_exit", 1, 0),
    ]
    assert "missing" in trace.meta["damage"][0]


def test_the_first_segments_of_a_ring_are_not_missed(spool: Any) -> None:
    process = spool.process()
    process.thread().segment(sequence=9).call(process.site(process.function("f")))
    trace = build(spool)
    assert trace.calls["flags"].tolist() == [0]
    assert "gone_unseen" not in trace.losses["kind"]


def test_progress_ends_at_the_total(spool: Any) -> None:
    process = spool.process()
    site = process.site(process.function("f"))
    process.thread().call(site).segment().call(site)
    process.thread().call(site)
    said: list[tuple[int, int]] = []
    build(spool, progress=lambda done, total: said.append((done, total)))
    assert said == [(2, 6), (4, 6), (6, 6)]


@settings(max_examples=60, deadline=None)
@given(
    threads=st.lists(st.lists(st.integers(0, (1 << 64) - 1) | st.integers(0, 40), max_size=40), max_size=4),
    sites=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5), st.integers(0, 5)), max_size=8),
)
def test_any_capture_gives_a_sound_trace(
    spool_writer: ModuleType, tmp_path_factory: Any, threads: list[list[int]], sites: list[tuple[int, int, int]]
) -> None:
    process = spool_writer.SpoolWriter(tmp_path_factory.mktemp("any")).process()
    process.info["pid"] = 1 << 70
    for kind, flags in (("python", 0), ("c", 0), ("python", 1), ("c", 1)):
        process.function("f", kind=kind, flags=flags)
    for site, function, caller in sites:
        process.line("site", site, function, caller, 1, 0)
    for words in threads:
        process.thread().word(*words)
    with open_capture(process.spool.write()) as capture:
        assert validate(build_trace(capture)) == []


def test_a_capture_without_events_is_an_empty_trace(spool: Any) -> None:
    spool.process()
    trace = build(spool)
    assert trace.n_calls == trace.marks.n_rows == trace.losses.n_rows == 0
    assert trace.processes.n_rows == 1
