"""`info` and `dump` tell what is in a capture."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from frametap.store import open_capture, pack
from frametap.store.describe import describe, dump


@pytest.fixture
def spool(tmp_path: Path, spool_writer: ModuleType) -> Any:
    spool = spool_writer.SpoolWriter(tmp_path)
    p = spool.process()
    main = p.function("main", "m.py", 1)
    work = p.function("Work.run\n", "w.py", 20)
    call, top = p.site(work, main, 7), p.site(main)
    gen = p.site(p.function("<genexpr>", "w.py", 30), work, -1, resume=True)
    p.loss("table_full", 3)
    one = p.thread().arm().enter(top).enter(call).exit_raise()
    one.resume(gen, 0x7F00, first=True).exit_yield().missed(gen, 0x7F00).gone(2)
    one.sync(1 << 40).counter(p.name("rss"), 1.5).instant(9).gap_begin("deep_stack").c_return().disarm()
    p.thread(2, "\x1b[31m").event(9).enter(999)
    return spool


def test_dump_has_one_line_an_event(spool: Any) -> None:
    with open_capture(spool.write()) as capture:
        lines = list(dump(capture))
    assert lines == [
        "# process 100: python app.py",
        "# thread 1: MainThread (native id 5001)",
        "# segment 0: tick 1000, 25 words",
        "0.000001000 1000 100/1 arm",
        "0.000001010 1010 100/1 enter m.py:1 main",
        "0.000001020 1020 100/1 enter w.py:20 Work.run\\n from m.py:7 main",
        "0.000001030 1030 100/1 raise",
        "0.000001040 1040 100/1 resume w.py:30 <genexpr> from w.py:? Work.run\\n instance 0x7f00 first",
        "0.000001050 1050 100/1 yield",
        "0.000001060 1060 100/1 missed w.py:30 <genexpr> from w.py:? Work.run\\n instance 0x7f00",
        "0.000001070 1070 100/1 gone 2",
        "1099.511628846 1099511628846 100/1 sync 1099511628846",
        "1099.511628856 1099511628856 100/1 counter rss 1.5",
        "1099.511628866 1099511628866 100/1 instant <name 9>",
        "1099.511628876 1099511628876 100/1 gap_begin deep_stack",
        "1099.511628886 1099511628886 100/1 c_return",
        "1099.511628896 1099511628896 100/1 disarm",
        "# thread 2: \\x1b[31m (native id 5002)",
        "# segment 0: tick 1000, 2 words",
        "0.000001010 1010 100/2 invalid 9",
        "0.000001020 1020 100/2 enter <site 999>",
    ]


def test_dump_of_one_thread_has_no_other(spool: Any) -> None:
    with open_capture(spool.write()) as capture:
        assert [line for line in dump(capture, thread=2) if "/1 " in line] == []
        assert list(dump(capture, pid=5)) == []


def test_summary_counts_what_was_written(spool: Any) -> None:
    pack(spool.write(), spool.output)
    with open_capture(spool.output) as capture:
        summary = describe(capture, count_events=True)
    assert summary.events == {
        "enter": 3, "resume": 1, "raise": 1, "yield": 1, "c_return": 1, "sync": 1, "record": 7, "invalid": 1,
        "record.arm": 1, "record.missed": 1, "record.gone": 1, "record.counter": 1, "record.instant": 1,
        "record.gap_begin": 1, "record.disarm": 1,
    }  # fmt: skip
    (process,) = summary.processes
    assert (process.n_functions, process.n_sites, process.n_segments, process.n_words) == (3, 3, 2, 27)
    assert process.losses == {"table_full": 3}
    assert [(t.life, t.n_words) for t in process.threads] == [(1, 25), (2, 2)]
    assert summary.complete and summary.bytes == spool.output.stat().st_size
    json.dumps(summary.to_json())


def test_summary_without_counting_reads_no_events(spool: Any) -> None:
    with open_capture(spool.write()) as capture:
        for process in capture.processes:
            process.segments = None  # type: ignore[assignment]
        assert describe(capture).events is None
