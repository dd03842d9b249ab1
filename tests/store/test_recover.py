"""What a killed process left becomes a capture."""

from __future__ import annotations

import os
import platform
import random
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from frametap.errors import CaptureError
from frametap.store import open_capture, pack, recover


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def killed(tmp_path: Path, spool_writer: ModuleType, dead_pid: int) -> Any:
    spool = spool_writer.SpoolWriter(tmp_path)
    process = spool.process(dead_pid).kill()
    process.thread().arm().enter(process.site(process.function("f"))).exit_return()
    return spool


def test_a_killed_processs_open_segments_are_read_to_their_last_event(killed: Any) -> None:
    assert recover(killed.write()) == killed.output
    assert not killed.path.exists()
    with open_capture(killed.output) as capture:
        (record,) = capture.processes
        (segment,) = record.segments(1)
    assert segment.words.tolist() == killed.processes[0].threads[0].segments[0].words
    assert (record.complete, record.damage, capture.meta["complete"]) == (False, [], False)


@pytest.mark.parametrize(
    ("last", "kept"),
    [
        ([16, 1, 0], 2),
        ([16, 0x80000010, 0], 1),  # a resume without its payload
        ([16, 6, 0], 1),  # a SYNC without its tick
        ([16, 7, 0], 1),  # a record without its head
        ([16, 7, 1 << 8 | 12, 0], 4),  # a counter of 0.0 is whole
        ([16, 6, 5, 1], 4),
        ([16, 1 << 40, 16], 1),  # a delta without an id was never written
        ([0x80000010, 1 << 32, 1], 3),  # a payload may look like nothing in its low half
        ([16] * 497 + [6, 9], 499),  # full to the end of the chunk
        ([16] * 503 + [6], 503),  # no room for the payload
    ],
)
def test_an_open_segment_ends_at_the_first_event_that_is_not_whole(killed: Any, last: list[int], kept: int) -> None:
    (process,) = killed.processes
    process.threads.clear()
    process.thread(described=False).word(*last)
    with open_capture(killed.write()) as capture:
        (segment,) = capture.processes[0].segments(1)
    assert segment.words.tolist() == last[:kept]


def test_the_clock_of_a_killed_process_comes_from_its_segments(tmp_path: Path, spool_writer: ModuleType) -> None:
    spool = spool_writer.SpoolWriter(tmp_path)
    process = spool.process(ticks_per_ns=3.0).kill()
    process.thread(start_tick=3_000_000_000).enter(16)
    path = spool.write() / "p100-0" / "events.bin"
    data = bytearray(path.read_bytes())
    struct.pack_into("<d", data, 80, 2.0)  # ticks_per_ns as measured at the start: wrong
    path.write_bytes(data)
    with open_capture(spool.path) as capture:
        (record,) = capture.processes
        expected = [process.pair(t)[1] for t in (0, 1_500_000_000, 3_000_000_000)]
        assert record.clock.to_ns([0, 1_500_000_000, 3_000_000_000]).tolist() == expected


def test_the_spool_is_found_by_the_captures_name(killed: Any) -> None:
    killed.write()
    assert recover(killed.output) == killed.output


def test_a_spool_that_was_moved_is_recovered_beside_itself(tmp_path: Path, killed: Any) -> None:
    moved = killed.write().rename(tmp_path / "moved.ftap.part")
    assert recover(moved) == tmp_path / "moved.ftap"


def test_another_capture_is_not_overwritten_unless_named(killed: Any) -> None:
    killed.write()
    killed.output.write_bytes(b"precious")
    with pytest.raises(CaptureError, match="exists already"):
        recover(killed.path)
    assert killed.output.read_bytes() == b"precious" and killed.path.exists()
    assert recover(killed.path, killed.output) == killed.output


def test_nothing_to_recover_is_said(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="nothing to recover"):
        recover(tmp_path / "none.ftap")
    (tmp_path / "empty.part").mkdir()
    with pytest.raises(CaptureError, match="holds no process folder"):
        recover(tmp_path / "empty.part")


def running(spool_writer: ModuleType, tmp_path: Path, **info: Any) -> Any:
    """A spool of this very process, not closed."""
    spool = spool_writer.SpoolWriter(tmp_path)
    spool.process(os.getpid(), host=platform.node(), **info).kill().thread().enter(16)
    spool.write()
    return spool


def start_time() -> int:
    return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])


@pytest.mark.parametrize("info", [{}, {"start_time_ticks": start_time()}])
def test_a_process_that_is_still_recording_is_left_alone(
    tmp_path: Path, spool_writer: ModuleType, info: dict[str, int]
) -> None:
    spool = running(spool_writer, tmp_path, **info)
    with pytest.raises(CaptureError, match=f"process {os.getpid()} is still recording"):
        recover(spool.path)
    assert spool.path.exists()
    assert recover(spool.path, force=True) == spool.output


def test_another_process_of_the_same_number_is_no_obstacle(tmp_path: Path, spool_writer: ModuleType) -> None:
    recover(running(spool_writer, tmp_path, start_time_ticks=start_time() + 1).path)


def test_a_process_of_another_host_is_no_obstacle(tmp_path: Path, spool_writer: ModuleType) -> None:
    spool = running(spool_writer, tmp_path)
    spool.processes[0].info["host"] = "elsewhere"
    recover(spool.write())


def test_packing_while_a_child_records_is_told(tmp_path: Path, spool_writer: ModuleType) -> None:
    spool = spool_writer.SpoolWriter(tmp_path)
    spool.process(os.getppid(), host=platform.node()).kill().thread().enter(16)
    pack(spool.write(), spool.output)
    with open_capture(spool.output) as capture:
        assert "was still running when it was packed" in capture.processes[0].damage[0]


def test_a_capture_that_cannot_be_written_keeps_the_spool(tmp_path: Path, killed: Any) -> None:
    killed.write()
    with pytest.raises(CaptureError, match="cannot be written.*frametap recover"):
        pack(killed.path, tmp_path / "no such folder" / "x.ftap")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.ftap.part"]


def test_a_full_disk_keeps_the_spool(tmp_path: Path, spool_writer: ModuleType) -> None:
    spool = spool_writer.SpoolWriter(tmp_path)
    rng = random.Random(1)
    spool.process(chunk_bytes=1 << 20).thread().word(*map(rng.getrandbits, [64] * 100_000))
    code = (
        "import resource, sys; from pathlib import Path; from frametap.errors import CaptureError\n"
        "from frametap.store import pack\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))\n"
        "try: pack(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "except CaptureError as error: print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, spool.write(), spool.output], check=True, capture_output=True, text=True
    ).stdout
    assert "cannot be written: File too large; what was recorded is still in" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.ftap.part"]
    assert recover(spool.path) == spool.output


def test_a_failure_half_way_leaves_nothing_but_the_spool(tmp_path: Path, killed: Any) -> None:
    killed.write()

    def fail(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(killed.path, killed.output, progress=fail)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.ftap.part"]
