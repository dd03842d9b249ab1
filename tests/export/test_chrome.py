"""The Chrome JSON writer, read back by json and by Perfetto's trace processor."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from export.traces import WALL_NS, Process, Thread, Track, build, call, chain
from readers import speedscope, trace_processor

from frametap.export import check, chrome, export
from frametap.export.digits import put_decimal, put_thousandths
from frametap.table import Trace

NAN = float("nan")
BASE_NS = WALL_NS // (7_889_238 * 10**9) * (7_889_238 * 10**9)
needs_trace_processor = pytest.mark.skipif(bool(trace_processor.missing()), reason=trace_processor.missing())


def written(trace: Trace) -> bytes:
    out = io.BytesIO()
    chrome.write(trace, out)
    return out.getvalue()


def complete_events(data: bytes) -> list[dict[str, Any]]:
    """The calls, times in integer nanoseconds since the trace's start."""
    found = json.loads(data, parse_float=lambda text: int(text.replace(".", "")))
    calls = [e for e in found["traceEvents"] if e["ph"] == "X"]
    for one in calls:
        one["ts"] -= WALL_NS - found["baseTimeNanoseconds"]
    return calls


def test_events_are_kinetos_with_exact_times_and_ids() -> None:
    trace = build([[
        call("f", 0, 4_000_000_000_123, [call("C.g", 1, 2, outcome=1), call("len", 2, 2, kind="c")]),
        call("gen", 4_000_000_000_123, 4_000_000_000_124, outcome=2, flags=48, instance=300),
        call("late", 5_000_000_000_000, 5_000_000_000_001, outcome=3, flags=8),
    ]])  # fmt: skip
    data = written(trace)
    assert json.loads(data)["baseTimeNanoseconds"] == BASE_NS
    calls = complete_events(data)
    common = {"ph": "X", "cat": "python_function", "pid": 100, "tid": 100}
    expected = [
        ("/src/mod.py(3): f", 0, 4_000_000_000_123, {"Python id": 1, "Python parent id": None}),
        ("/src/mod.py(3): C.g", 1, 1, {"Python id": 2, "Python parent id": 1, "outcome": "raised"}),
        ("<built-in function len>", 2, 0, {"Python id": 3, "Python parent id": 1}),
        ("/src/mod.py(3): gen", 4_000_000_000_123, 1,
         {"Python id": 4, "Python parent id": None, "outcome": "yielded", "instance": 300}),
        ("/src/mod.py(3): late", 5_000_000_000_000, 1,
         {"Python id": 5, "Python parent id": None, "outcome": "unfinished", "note": "cut"}),
    ]  # fmt: skip
    assert calls == [common | {"name": n, "ts": s, "dur": d, "args": args} for n, s, d, args in expected]


def test_ids_are_rows_of_the_table_on_every_track() -> None:
    calls = complete_events(
        written(build([[call("f", 0, 9, [call("g", 1, 2)])], [call("h", 0, 9, [call("i", 1, 2)])]]))
    )
    ids = [(one["args"]["Python id"], one["args"]["Python parent id"]) for one in calls]
    assert ids == [(1, None), (2, 1), (3, None), (4, 3)]


def test_any_name_gives_valid_ascii_json() -> None:
    odd = ['"', "\\", "\n\0\x1f", "é🐍", "\udcff", ";", "", "x" * 100_000]
    data = written(build([[call(name, k, k + 1) for k, name in enumerate(odd)]]))
    assert data.isascii()
    names = [one["name"].removeprefix("/src/mod.py(3): ") for one in complete_events(data)]
    assert names == ['"', "\\", "\n\\0\x1f", "é🐍", "\\udcff", ";", "", "x" * 100_000]


@needs_trace_processor
def test_trace_processor_reads_every_row_as_it_is_in_the_table() -> None:
    trace = build(
        [
            Track([chain(700, name="d"), call("after", 1400, 1500, [call("in", 1400, 1500, [call("in2", 1450, 1450)])])]),
            Track([call("a", 3, 9, [call("gc", 4, 5, kind="gc")])], 1), Track([call("b", 20, 30)], 2),
            Track([call("c", 0, 5)], 3), Track([call("green", 0, 100)], 1, 1, "worker, greenlet 1"),
        ],
        threads=[Thread(100), Thread(7, "worker"), Thread(7, "again"), Thread(100, "MainThread", 1)],
        processes=[Process(100), Process(100, "other")],
        marks=[(1, "span", "s", 0, 5, NAN), (1, "span", "x", 3, 9, NAN), (1, "instant", "i", 4, -1, NAN),
               (1, "counter", "m", 4, -1, 1.5), (2, "counter", "m", 5, -1, NAN)],
    )  # fmt: skip
    rows, told, counters = trace_processor.query(
        written(trace),
        "select s.ts, s.dur, s.depth, s.name, t.name as thread, t.tid, p.pid, p.name as process from slice s "
        "join thread_track k on k.id = s.track_id join thread t using (utid) join process p using (upid) "
        "where s.category glob 'python*' or s.category = 'user_annotation' order by s.track_id, s.ts, s.depth",
        "select name from slice where category = 'frametap' order by name", "select value from counter",
    )  # fmt: skip
    shift = WALL_NS - BASE_NS
    read: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        name = row["name"].removeprefix("/src/mod.py(3): ")
        key = f"{row['process']}/{row['thread']}"
        read.setdefault(key, []).append((name, row["ts"] - shift, row["dur"], row["depth"]))
    ids = check.check(trace)
    assert read == {
        "python prog.py/MainThread": [
            *((f"d{k}", k, 1400 - 2 * k, k) for k in range(512)),
            ("after", 1400, 100, 0), ("in", 1400, 100, 1), ("in2", 1450, 0, 2),
        ],
        "python prog.py/worker": [("a", 3, 6, 0), ("gc", 4, 1, 1), ("i", 4, 0, 2)],
        "python prog.py/again": [("b", 20, 10, 0)], "other/MainThread": [("c", 0, 5, 0)],
        "python prog.py/worker, greenlet 1": [("green", 0, 100, 0)],
        "python prog.py/worker: spans": [("s", 0, 5, 0)], "python prog.py/worker: spans (2)": [("x", 3, 9, 0)],
    }  # fmt: skip
    assert {row["tid"] for row in rows} >= set(ids.thread_ids)
    assert [t["name"] for t in told] == [
        "loss: export_changed_ids: 3", f"loss: export_cut_depth: 188 in thread MainThread ({ids.thread_ids[0]})",
        "loss: export_dropped_counters: 1",
    ]  # fmt: skip
    assert counters == [{"value": 1.5}]


def test_empty_trace_is_valid_and_losses_are_objects() -> None:
    found = json.loads(written(build([], threads=[], processes=[], losses=[("dropped_events", 3, -1, -1, -1, -1)])))
    assert found["frametap"]["losses"] == [
        {"kind": "dropped_events", "count": 3, "process": -1, "thread": -1, "first_ns": -1, "last_ns": -1}
    ]


def test_long_names_are_written_in_bounded_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome, "_MAX_BYTES", 10_000)
    trace = build([[call("x" * 500, k, k + 1) for k in range(200)]])
    sizes = []

    class Out(io.BytesIO):
        def write(self, data: Any) -> int:
            sizes.append(len(data))
            return super().write(data)

    out = Out()
    chrome.write(trace, out)
    assert [e["ts"] for e in complete_events(out.getvalue())] == list(range(200))
    assert max(sizes) < 15_000


@pytest.mark.parametrize("values", [[0], [0, 9, 10, 99, 100, 9999, 10_000, 99_999_999, 10**8], [2**63 - 1, 0, 10**18]])
def test_digits_are_those_of_str(values: list[int]) -> None:
    width = len(str(max(values))) + 1
    out = np.zeros((len(values), width), dtype=np.uint8)
    put_decimal(out, np.array(values))
    assert [bytes(row).decode() for row in out] == [str(v).rjust(width) for v in values]
    out = np.zeros((len(values), width + 4), dtype=np.uint8)
    put_thousandths(out, np.array(values))
    assert [bytes(row).decode().strip() for row in out] == [f"{v // 1000}.{v % 1000:03d}" for v in values]


@pytest.mark.skipif(bool(speedscope.missing()), reason=speedscope.missing())
def test_speedscope_imports_it_whatever_a_mark_is_called(tmp_path: Path) -> None:
    trace = build(
        [[call("f", 0, 10_000, [call("g", 1_000, 4_000)])]],
        marks=[(0, "span", name, 0, 10, NAN) for name in ("Profile", "ProfileChunk", "CpuProfile")],
    )
    export(trace, tmp_path / "x.json")
    profiles = speedscope.nodes(tmp_path / "x.json")
    calls = next(p for p in profiles if "spans" not in p["name"])
    weights = [(stack[-1].split(" {")[0], weight) for stack, weight in calls["nodes"]]
    assert weights == [("/src/mod.py(3): f", 7), ("/src/mod.py(3): g", 3)]
