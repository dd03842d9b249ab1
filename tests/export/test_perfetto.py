"""The Perfetto writer, read back by Perfetto's trace processor and by its schema."""

import io

import numpy as np
import pytest
from export.traces import WALL_NS, Process, Thread, Track, build, call, chain
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readers import trace_processor

from frametap.export import check, perfetto, perfetto_records
from frametap.table import Trace
from frametap.table.schema import CallFlag, Outcome

NAN = float("nan")
needs_trace_processor = pytest.mark.skipif(bool(trace_processor.missing()), reason=trace_processor.missing())

SLICES = """
select s.ts, s.dur, s.depth, s.name, s.category, s.track_id, tt.tid, t.name as track from slice s join track t on t.id = s.track_id
left join (select k.id as id, h.tid as tid from thread_track k join thread h using (utid)) tt on tt.id = s.track_id
where t.name is not 'frametap' order by s.track_id, s.id
"""


def written(trace: Trace) -> bytes:
    out = io.BytesIO()
    perfetto.write(trace, out)
    return out.getvalue()


def slices_of(trace: Trace) -> list[list[tuple[str, int, int, int]]]:
    """What each track of the table holds: name, start, end, depth."""
    calls, names = trace.calls, np.array(check.clean_names(trace.functions["name"])[0], dtype=object)
    found = []
    for track in np.unique(calls["track"]):
        rows = calls["track"] == track
        start, end = calls["start_ns"][rows], (calls["start_ns"] + calls["duration_ns"])[rows]
        name = names[trace.sites["function"][calls["site"][rows]]]
        found.append(list(zip(name.tolist(), start.tolist(), end.tolist(), calls["depth"][rows].tolist(), strict=True)))
    return found


ODD_NAMES = [
    "naïve.Größe", "数.関数", "🐍", 'say "hi"', "back\\slash", "new\nline", "tab\t", "a;b", "100%", "<lambda>", "",
    " ", "lone\udcff", "\ud83d", "nul\0nul", "x" * 100_000, "</script>", "{}", "f.<locals>.g",
]  # fmt: skip


@needs_trace_processor
def test_trace_processor_reads_every_track_as_it_is_in_the_table() -> None:
    odd = [call(name, 10 * k, 10 * k + 5) for k, name in enumerate(ODD_NAMES)]
    ties = [
        call("a", 0, 10, [call("b", 0, 10, [call("c", 0, 0), call("d", 0, 10), call("e", 10, 10)])]),
        call("f", 10, 10, [call("g", 10, 10, [call("h", 10, 10)]), call("i", 10, 10)]),
        call("j", 10, 20, outcome=Outcome.UNFINISHED, flags=CallFlag.CUT),
    ]
    long = [call("slow", 0, 4 * 10**12, [call("gc", 5, 6, kind="gc"), call("list.append", 10**10, 10**12, kind="c")])]
    trace = build(
        [
            Track(odd, 0), Track(ties, 1), Track(long, 2), Track([call("k", 1, 2)], 3),
            Track([call("green", 3, 30, [call("leaf", 4, 5)])], 1, 1, "worker, greenlet 1"),
            Track([call("green", 6, 8)], 1, 2, "worker, greenlet 1"),
        ],
        # One system id lived twice, one is too big, one is another process's; two processes share an id.
        threads=[Thread(100, "MainThread", 0), Thread(7, "worker", 0), Thread(7, "wörker", 0), Thread(2**40, "t", 1)],
        processes=[Process(100), Process(100, "python 'child prog.py'", complete=False)],
    )  # fmt: skip
    rows, threads, names = trace_processor.query(
        written(trace), SLICES, "select t.tid, t.name, p.pid, p.name as process from thread t join process p using (upid) "
        "where t.tid and t.name is not null order by p.pid, t.tid", "select hex(name) as name from slice order by ts",
    )  # fmt: skip
    ids = check.check(trace).thread_ids
    assert ids[:2] == [100, 7] and len(set(ids)) == 4 and all(0 < i < 2**31 for i in ids)
    expected = slices_of(trace)
    read: dict[tuple[int, str | None, int], list[tuple[object, ...]]] = {}
    for row in rows:
        begin = row["ts"] - WALL_NS
        read.setdefault((row["tid"], row["track"], row["track_id"]), []).append(
            (row["name"], begin, begin + row["dur"], row["depth"])
        )
    own = {tid: slices for (tid, name, _), slices in read.items() if name is None}
    assert [own[tid] for tid in ids] == expected[:4]
    assert [slices for (_, name, _), slices in read.items() if name == "worker, greenlet 1"] == expected[4:]
    assert {(t["name"], t["pid"]) for t in threads} >= {("MainThread", 100), ("worker", 100), ("wörker", 100)}
    assert next(t for t in threads if t["tid"] == ids[3])["process"] == "python 'child prog.py'"
    assert {row["category"] for row in rows} == {"python", "gc", "c"}
    assert len(names) == sum(map(len, expected)) + 3  # the account: the recording, changed ids, changed names


@needs_trace_processor
def test_deeper_levels_than_perfetto_nests_are_cut_and_outer_frames_keep_their_time() -> None:
    trace = build([[chain(700), call("after", 1500, 1501)]])
    rows, told = trace_processor.query(
        written(trace), SLICES, "select display_value as n from args join slice using (arg_set_id) "
        "where key = 'debug.count' and name like 'loss: export_cut_depth%'",
    )  # fmt: skip
    assert [(r["name"], r["ts"] - WALL_NS, r["dur"], r["depth"]) for r in rows] == [
        *((f"f{d}", d, 1400 - 2 * d, d) for d in range(512)), ("after", 1500, 1, 0),
    ]  # fmt: skip
    assert told == [{"n": "188"}]


@needs_trace_processor
def test_marks_read_back_on_tracks_of_their_own() -> None:
    marks = [
        (0, "span", "epoch", 0, 100, NAN), (0, "span", "step", 10, 20, NAN), (0, "span", "crosses", 25, 50, NAN),
        (0, "span", "empty", 10, 0, NAN), (0, "instant", "now", 12, -1, NAN), (0, "counter", "mem", 11, -1, 1.5),
        (0, "counter", "mem", 13, -1, -2.5), (1, "counter", "mem", 14, -1, 7.0),
    ]  # fmt: skip
    trace = build(
        [[call("f", 0, 100)], Track([call("g", 0, 9)], 1)], threads=[Thread(100), Thread(101, "b")], marks=marks
    )
    slices, counters = trace_processor.query(
        written(trace), SLICES,
        "select c.ts, c.value, t.name, c.track_id from counter c join counter_track t on t.id = c.track_id order by c.ts",
    )  # fmt: skip
    spans = {(r["name"], r["track"], r["ts"] - WALL_NS, r["dur"]) for r in slices if r["category"] == "mark"}
    assert spans == {
        ("epoch", "spans", 0, 100), ("step", "spans", 10, 20), ("empty", "spans", 10, 0),
        ("crosses", "spans (2)", 25, 50), ("now", None, 12, 0),
    }  # fmt: skip
    assert [(r["ts"] - WALL_NS, r["value"], r["name"]) for r in counters] == [
        (11, 1.5, "mem"), (13, -2.5, "mem"), (14, 7.0, "mem"),
    ]  # fmt: skip
    assert len({r["track_id"] for r in counters}) == 2


@needs_trace_processor
def test_empty_trace_and_losses_are_told_and_times_line_up_with_the_monotonic_clock() -> None:
    trace = build([], losses=[("dropped_events", 12, 0, 0, 5, 9)], meta={"start_monotonic_ns": 5_000})
    rows, args = trace_processor.query(
        written(trace), "select name, ts from slice order by ts",
        "select key, display_value as said from args join slice using (arg_set_id) where name like 'loss%'",
    )  # fmt: skip
    assert [tuple(r.values()) for r in rows] == [
        ("recording", 5_000), ("loss: dropped_events: 12 in thread MainThread (100)", 5_005),
    ]  # fmt: skip
    assert {"key": "debug.count", "said": "12"} in args


@st.composite
def stacks(draw: st.DrawFn, first: int = 0, room: int = 6, levels: int = 4) -> list:
    """Nested calls with many ties and empty calls, and gaps too long for a short time."""
    calls = []
    now = first
    for _ in range(draw(st.integers(0, 3 if levels else 0))):
        now += draw(st.sampled_from([0, 0, 1, 3 * 10**6]))
        children = draw(stacks(now, room, levels - 1))
        end = (children[-1].end if children else now) + draw(st.sampled_from([0, 0, 1, 5, 2**21]))
        calls.append(
            call(
                draw(st.sampled_from(["f", "g", "h\u00e9"])), now, end, children,
                kind=draw(st.sampled_from(["python", "c", "gc"])), line=draw(st.integers(1, 3)),
                outcome=draw(st.sampled_from([0, 0, 1, 2, 3])), flags=draw(st.sampled_from([0, 0, 1, 6, 8, 48])),
                instance=draw(st.sampled_from([0, 0, 1, 300, 2**32 - 1])),
            )
        )  # fmt: skip
        now = end
    return calls


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tracks=st.lists(stacks(), min_size=1, max_size=3), piece=st.sampled_from([1, 2, 5, 1 << 15]))
def test_any_nested_calls_read_back_by_the_schema_are_the_table(tracks: list, piece: int) -> None:
    pytest.importorskip("perfetto")
    from readers import perfetto_protos

    threads = [Thread(200 + k, f"t{k}") for k in range(len(tracks))]
    trace = build([Track(calls, k) for k, calls in enumerate(tracks)], threads=threads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "PIECE", piece)
        patch.setattr(perfetto_records, "PIECE", piece)
        read = perfetto_protos.read(written(trace))
    got = [one for track in read.values() for one in track]
    calls, sites, functions = trace.calls, trace.sites, trace.functions
    assert [(s.name, s.start, s.end, s.depth) for s in got] == [one for track in slices_of(trace) for one in track]
    notes = {1: "begun before the recording", 6: "start guessed, end guessed", 8: "cut when recording ended"}
    for row, one in enumerate(got):
        site = calls["site"][row]
        caller = sites["caller"][site]
        assert one.category == functions["kind"][sites["function"][site]]
        assert one.place == (
            None if caller < 0 else (functions["file"][caller], functions["name"][caller], sites["line"][site])
        )
        expected = {"outcome": Outcome(calls["outcome"][row]).name.lower(), "instance": calls["instance"][row],
                    "note": notes.get(calls["flags"][row])}  # fmt: skip
        assert one.notes == {k: v for k, v in expected.items() if v and v != "returned"}


def test_the_same_trace_gives_the_same_bytes_in_bounded_pieces() -> None:
    trace = build([[call("f", 4 * k, 4 * k + 3, [call("g", 4 * k + 1, 4 * k + 2)]) for k in range(60_000)]])
    sizes = []

    class Out(io.BytesIO):
        def write(self, data) -> int:  # type: ignore[no-untyped-def]
            sizes.append(len(data))
            return super().write(data)

    out = Out()
    perfetto.write(trace, out)
    assert out.getvalue() == written(trace)
    assert max(sizes) < 2 * 40 * check.PIECE
    assert len(out.getvalue()) / trace.n_calls < 40
