"""What was recorded is what is read, from the spool and from the capture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from frametap.store import ProcessRecord, open_capture, pack
from frametap.store.frames import FRAME_WORDS


def contents(record: ProcessRecord) -> dict[str, Any]:
    """Everything a record says, as plain values."""
    return {
        "info": record.info,
        "clock": record.clock,
        "losses": record.losses,
        "details": record.loss_details,
        "complete": record.complete,
        "functions": {n: list(c) for n, c in record.functions.items()},
        "sites": {n: c.tolist() for n, c in record.sites.items()},
        "names": record.names,
        "threads": record.threads,
        "segments": [(*s[:4], s.words.tolist()) for t in record.threads for s in record.segments(t.life)],
        "damage": record.damage,
    }


@pytest.fixture
def spool(tmp_path: Path, spool_writer: ModuleType) -> Any:
    """Two processes, the second killed; several threads; every kind of row."""
    spool = spool_writer.SpoolWriter(tmp_path, keep="")
    root = spool.process(100, ticks_per_ns=2.5)
    f = root.function("f\udcff é", "a.py", 3)
    site = root.site(f, 0)
    gen = root.site(root.function("gen", kind="c"), f, 12, resume=True)
    root.loss("deep_stack", 7).loss_detail("deep_stack", 7, 1, 10, 20).line("clock", 5, 6, 7)
    one, two = root.thread(), root.thread(start_tick=77)
    for i in range(600):
        one.enter(site, i).exit_return()
        two.resume(gen, first=True).exit_yield(dt=1 << 33)
    one.span_begin(root.name("span"), 1).counter(1, 0.5).span_end(1).disarm()
    two.end()
    child = spool.process(200, parent_pid=100).kill()
    child.thread().arm().enter(child.site(child.function("g"))).sync(9).resume(99, 5).instant(1)
    return spool


def test_capture_says_the_same_as_the_spool_it_was_made_from(spool: Any) -> None:
    with open_capture(spool.write()) as read_in_place:
        before = [contents(p) for p in read_in_place.processes]
    assert [p["damage"] for p in before] == [[], []]
    assert [p["complete"] for p in before] == [True, False]

    pack(spool.path, spool.output)

    assert not spool.path.exists()
    with open_capture(spool.output) as capture:
        assert [contents(p) for p in capture.processes] == before


def test_words_are_those_that_were_written(spool: Any) -> None:
    pack(spool.write(), spool.output)
    with open_capture(spool.output) as capture:
        for record, written in zip(capture.processes, spool.processes, strict=True):
            for thread in written.threads:
                segments = list(record.segments(thread.life))
                assert [s.words.tolist() for s in segments] == [s.words for s in thread.segments]
                assert [s.tick for s in segments] == [s.tick for s in thread.segments]
                assert [s.sequence for s in segments] == list(range(len(thread.segments)))


def test_tables_are_those_that_were_written(spool: Any) -> None:
    pack(spool.write(), spool.output)
    with open_capture(spool.output) as capture:
        root = capture.processes[0]
    assert root.functions["qualname"] == ["f\udcff é", "gen"]
    assert root.functions["line"].tolist() == [3, 1]
    assert root.sites["id"].tolist() == [16, 17] and root.sites["flags"].tolist() == [0, 1]
    assert root.losses == {"deep_stack": 7}
    assert root.names == {1: "span"}
    assert root.threads[1].name == "Thread-2" and root.threads[1].end_tick == spool.processes[0].threads[1].tick


def test_capture_is_a_plain_zip_that_unpacks(spool: Any) -> None:
    pack(spool.write(), spool.output)
    with zipfile.ZipFile(spool.output) as archive:
        assert archive.testzip() is None
        assert {i.compress_type for i in archive.infolist()} == {zipfile.ZIP_STORED}
        assert json.loads(archive.read("meta.json"))["format_version"] == 1
        assert archive.namelist()[1:5] == [
            f"processes/0/{n}" for n in ("process.json", "tables.json", "events.zst", "segments.json")
        ]


def test_the_same_spool_gives_the_same_bytes(tmp_path: Path, spool: Any) -> None:
    pack(spool.write(), tmp_path / "a.ftap")
    pack(spool.write(), tmp_path / "b.ftap")
    assert (tmp_path / "a.ftap").read_bytes() == (tmp_path / "b.ftap").read_bytes()


def test_a_capture_that_is_dropped_leaves_no_file_open(spool: Any) -> None:
    def open_files() -> set[str]:
        return {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}

    for path in (spool.write(), spool.output):
        if path == spool.output:
            pack(spool.path, path)
        for record in open_capture(path).processes:
            contents(record)
        del record
        assert not [f for f in open_files() if f.startswith(str(path))]


def test_many_short_threads_share_frames(tmp_path: Path, spool_writer: ModuleType) -> None:
    spool = spool_writer.SpoolWriter(tmp_path)
    process = spool.process(chunk_bytes=65536)
    site = process.site(process.function("f"))
    for i in range(3000):
        process.thread().call(site, i)
    pack(spool.write(), spool.output)
    with zipfile.ZipFile(spool.output) as archive:
        assert len(json.loads(archive.read("processes/0/segments.json"))["frames"]["offset"]) == 1
    with open_capture(spool.output) as capture:
        (record,) = capture.processes
        for i, thread in enumerate(record.threads):
            (segment,) = record.segments(thread.life)
            assert segment.words.tolist() == [10 << 32 | 16, i << 32 | 1]


def test_long_threads_take_several_frames(tmp_path: Path, spool_writer: ModuleType) -> None:
    spool = spool_writer.SpoolWriter(tmp_path)
    process = spool.process(chunk_bytes=1 << 20)
    written = [i << 32 | 16 for i in range(3 * FRAME_WORDS)]
    process.thread().word(*written)
    pack(spool.write(), spool.output)
    with open_capture(spool.output) as capture:
        words = np.concatenate([s.words for s in capture.processes[0].segments(1)])
    assert words.tolist() == written


def test_progress_rises_to_the_total(spool: Any) -> None:
    told: list[tuple[int, int]] = []
    pack(spool.write(), spool.output, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] > 0
    assert len({total for _, total in told}) == 1


def test_process_order_is_root_first_then_start(tmp_path: Path, spool_writer: ModuleType) -> None:
    spool = spool_writer.SpoolWriter(tmp_path)
    for pid, start in ((300, 5), (200, 50), (100, 70)):
        spool.process(pid, start_tick=start)
    with open_capture(spool.write()) as capture:
        assert [p.info["pid"] for p in capture.processes] == [100, 300, 200]


def test_memory_stays_flat_while_packing(tmp_path: Path, spool_writer: ModuleType) -> None:
    spool = spool_writer.SpoolWriter(tmp_path)
    process = spool.process(chunk_bytes=1 << 20)
    main = process.thread()
    main.word(*[5 << 32 | 16] * main.capacity_words)
    spool.write()
    # 96 MiB of events: the chunk again and again, with other sequence numbers.
    chunk = (process.folder / "events.bin").read_bytes()[4096:]
    with (process.folder / "events.bin").open("ab") as file:
        for sequence in range(1, 96):
            file.write(chunk[:8] + sequence.to_bytes(4, "little") + chunk[12:])
    code = (
        "import resource, sys; from pathlib import Path; from frametap.store import pack\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak(); pack(Path(sys.argv[1]), Path(sys.argv[2])); print(peak() - before)"
    )
    grown = subprocess.run(
        [sys.executable, "-c", code, spool.path, spool.output], check=True, capture_output=True, text=True
    ).stdout
    assert int(grown) < 32 * 1024  # KiB
    with open_capture(spool.output) as capture:
        assert capture.processes[0].index.total_words == 96 * main.capacity_words
