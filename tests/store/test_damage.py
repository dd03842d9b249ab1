"""Damaged files: what can be read is read, the rest is told, nothing crashes."""

from __future__ import annotations

import io
import json
import random
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from frametap.errors import CaptureError, NewerFormatError
from frametap.store import Capture, open_capture, pack, recover
from frametap.store.describe import describe, dump


def read_all(path: Path) -> Capture:
    """Open and read everything that readers read."""
    with open_capture(path) as capture:
        describe(capture, count_events=True)
        for _ in dump(capture):
            pass
        for process in capture.processes:
            process.clock.to_ns([0, 1 << 63, (1 << 64) - 1])
        return capture


def words_of(capture: Capture) -> dict[int, list[int]]:
    """All words of each thread of the first process."""
    (process, *_) = capture.processes
    return {t.life: [w for s in process.segments(t.life) for w in s.words.tolist()] for t in process.threads}


@pytest.fixture
def spool(tmp_path: Path, spool_writer: ModuleType) -> Any:
    """Three threads with a few segments each, in small chunks."""
    spool = spool_writer.SpoolWriter(tmp_path)
    p = spool.process()
    site = p.site(p.function("f"))
    for life in (1, 2, 3):
        thread = p.thread(life, capacity_words=30)
        for _ in range(20):
            thread.call(site)
            thread.resume(site, first=True).exit_yield()
    return spool


# ---- any damage


def mutations(data: bytes, seed: int, n: int) -> list[bytes]:
    """Flips, cuts and overwritten numbers, spread over the data."""
    rng = random.Random(seed)
    made = []
    for i in range(n):
        at = len(data) * i // n + rng.randrange(max(1, len(data) // n))
        flipped = bytearray(data)
        flipped[at] ^= 1 << rng.randrange(8)
        made += [bytes(flipped), data[:at]]
        big = bytearray(data)
        big[at : at + 8] = struct.pack("<Q", rng.choice([0, 1 << 63, (1 << 64) - 1, 1 << 31, 0xFFFFFFFF]))
        made.append(bytes(big[: len(data)]))
    return made


def survives(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        read_all(path)
    except CaptureError as error:
        assert str(error).startswith(str(error.path))


def test_a_damaged_capture_is_a_clear_error_or_a_partial_capture(tmp_path: Path, spool: Any) -> None:
    pack(spool.write(), spool.output)
    data = spool.output.read_bytes()
    for mutated in mutations(data, 1, 100):
        survives(tmp_path / "x.ftap", mutated)


@pytest.mark.parametrize("name", ["events.bin", "tables.jsonl", "process.json", "../spool.json"])
def test_a_damaged_spool_is_a_clear_error_or_a_partial_capture(spool: Any, name: str) -> None:
    path = spool.write() / "p100-0" / name
    data = path.read_bytes()
    for mutated in mutations(data, 2, 25):
        path.write_bytes(mutated)
        try:
            read_all(spool.path)
        except NewerFormatError:
            assert name in ("events.bin", "../spool.json")


def test_a_damaged_spool_is_recovered_to_a_capture_that_opens(tmp_path: Path, spool: Any) -> None:
    data = (spool.write() / "p100-0" / "events.bin").read_bytes()
    for i, mutated in enumerate(mutations(data, 3, 30)):
        copy = tmp_path / f"c{i}.ftap.part"
        shutil.copytree(spool.path, copy)
        (copy / "p100-0" / "events.bin").write_bytes(mutated)
        try:
            with open_capture(copy) as in_place:
                expected = words_of(in_place)
            with open_capture(recover(copy)) as capture:
                assert words_of(capture) == expected
        except NewerFormatError:
            pass


# ---- events.bin


def damaged_events(spool: Any, change: Callable[[bytearray], Any]) -> tuple[dict[int, list[int]], str]:
    path = spool.write() / "p100-0" / "events.bin"
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    with open_capture(spool.path) as capture:
        words = words_of(capture)
        return words, "\n".join(capture.processes[0].damage)


def written(spool: Any) -> dict[int, list[int]]:
    return {t.life: [w for s in t.segments for w in s.words] for t in spool.processes[0].threads}


def test_a_bad_magic_loses_no_events(spool: Any) -> None:
    words, damage = damaged_events(spool, lambda d: d.__setitem__(0, 0))
    assert words == written(spool)
    assert "expected b'FTAPEVT1'" in damage


@pytest.mark.parametrize("chunk_bytes", [0, 1, 4097, 0xFFFFFFC0])
def test_an_impossible_chunk_size_loses_no_events(spool: Any, chunk_bytes: int) -> None:
    words, damage = damaged_events(spool, lambda d: struct.pack_into("<I", d, 16, chunk_bytes))
    assert words == written(spool)
    assert f"a chunk has {chunk_bytes} bytes" in damage


def test_a_damaged_segment_header_loses_that_segment_only(spool: Any) -> None:
    words, damage = damaged_events(spool, lambda d: d.__setitem__(4096, 0))
    first = spool.processes[0].threads[0].segments[0].words
    assert words == {**written(spool), 1: written(spool)[1][len(first) :]}
    assert "bytes that are no segment were skipped (byte 4096)" in damage
    assert "thread 1: 1 segments are missing" in damage


def test_a_cut_file_keeps_what_is_left(spool: Any) -> None:
    def cut(data: bytearray) -> None:
        del data[4096 + 64 + 5 * 8 :]

    words, damage = damaged_events(spool, cut)
    assert words[1] == written(spool)[1][:5] and words[2] == []
    assert "a segment is cut" in damage and "is cut: it has 4200 bytes and should have 8192" in damage


@pytest.mark.parametrize("n_words", [31, 1 << 31, 0xFFFFFFFF])
def test_a_segment_never_reaches_into_the_next(spool: Any, n_words: int) -> None:
    words, damage = damaged_events(spool, lambda d: struct.pack_into("<I", d, 4096 + 12, n_words))
    assert words == written(spool)
    assert "a segment is cut" in damage


def test_a_capacity_beyond_the_chunk_is_told(spool: Any) -> None:
    words, damage = damaged_events(spool, lambda d: struct.pack_into("<Q", d, 4096 + 32, 1 << 63))
    assert words == written(spool)
    assert "reaches beyond its chunk" in damage


def test_a_segment_that_appears_twice_is_read_once(tmp_path: Path, spool_writer: ModuleType) -> None:
    spool = spool_writer.SpoolWriter(tmp_path)
    thread = spool.process().thread().enter(16).segment(0).enter(17)
    spool.processes[0].line("function", 1, "python", "f", "", "", 1, 0)
    with open_capture(spool.write()) as capture:
        assert words_of(capture) == {1: thread.segments[0].words}
        assert "1 segments appear twice" in capture.processes[0].damage[0]


def test_gaps_are_damage_unless_old_segments_were_dropped_on_purpose(tmp_path: Path, spool_writer: ModuleType) -> None:
    for keep, expected in ((None, "thread 1: 7 segments are missing"), ("30s", "")):
        spool = spool_writer.SpoolWriter(tmp_path, f"keep-{keep}", keep=keep)
        spool.process().thread().segment(5).enter(16).segment(8).enter(16)
        with open_capture(spool.write()) as capture:
            assert expected in "".join(capture.processes[0].damage)
            assert bool(capture.processes[0].damage) == bool(expected)


def test_an_events_file_that_shrinks_while_it_is_read_is_told(spool: Any) -> None:
    with open_capture(spool.write()) as capture:
        (spool.path / "p100-0" / "events.bin").write_bytes(b"")
        assert words_of(capture) == {1: [], 2: [], 3: []}
        assert "became shorter while it was read" in capture.processes[0].damage[0]


def test_a_thread_without_description_keeps_its_events(tmp_path: Path, spool_writer: ModuleType) -> None:
    spool = spool_writer.SpoolWriter(tmp_path)
    spool.process().thread(4, described=False, start_tick=9).enter(16)
    pack(spool.write(), spool.output)
    with open_capture(spool.output) as capture:
        (record,) = capture.processes
        assert record.threads == [(4, -1, "", 9, None)]
        assert record.damage == ["threads without description: 4"]


def test_many_processes_need_few_open_files(tmp_path: Path, spool_writer: ModuleType) -> None:
    import resource

    spool = spool_writer.SpoolWriter(tmp_path)
    for i in range(80):
        spool.process(100 + i).thread().enter(16)
    spool.write()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (60, hard))
    try:
        assert not any(p.damage for p in read_all(spool.path).processes)
        pack(spool.path, spool.output)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(read_all(spool.output).processes) == 80


# ---- the capture's ZIP


def rebuilt(path: Path, change: Callable[[str, bytes], bytes | None], method: int = zipfile.ZIP_STORED) -> None:
    """The ZIP again, with changed members; None leaves one out."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w", method) as new:
        for name in old.namelist():
            data = change(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    path.write_bytes(out.getvalue())


def changed_json(member: str, **changes: Any) -> Callable[[str, bytes], bytes]:
    def change(name: str, data: bytes) -> bytes:
        return json.dumps({**json.loads(data), **changes}).encode() if name.endswith(member) else data

    return change


@pytest.fixture
def capture_file(spool: Any) -> Path:
    pack(spool.write(), spool.output)
    return Path(spool.output)


def test_a_newer_capture_is_refused_by_version(capture_file: Path) -> None:
    rebuilt(capture_file, changed_json("meta.json", format_version=99))
    with pytest.raises(NewerFormatError) as caught:
        open_capture(capture_file)
    assert (caught.value.found, caught.value.supported) == (99, 1)


def test_a_newer_spool_is_refused_by_version(tmp_path: Path, spool_writer: ModuleType) -> None:
    spool = spool_writer.SpoolWriter(tmp_path, format_version=2)
    spool.process().thread().enter(16)
    with pytest.raises(NewerFormatError):
        open_capture(spool.write())
    spool.spool_json["format_version"] = 1
    spool.processes[0].format_version = 2
    with pytest.raises(NewerFormatError):
        pack(spool.write(), spool.output)
    assert spool.path.exists() and not spool.output.exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"", "is empty"), (b"hello world", "starts with b'hell'"), (b"PK\x03\x04" + b"x" * 100, "no frametap capture")],
)
def test_another_file_is_named_as_such(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "x.ftap"
    path.write_bytes(data)
    with pytest.raises(CaptureError, match=said):
        open_capture(path)


def test_another_zip_is_named_as_such(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("meta.json", "{}")
    with pytest.raises(CaptureError, match="no frametap capture"):
        open_capture(tmp_path / "x.zip")


def test_a_missing_capture_whose_spool_is_there_tells_to_recover(spool: Any) -> None:
    spool.write()
    with pytest.raises(CaptureError, match=r"frametap recover .*run\.ftap\.part"):
        open_capture(spool.output)
    with pytest.raises(CaptureError, match="cannot be opened: No such file"):
        open_capture(spool.output.with_name("other.ftap"))


def test_compressed_members_are_refused_with_a_remedy(capture_file: Path) -> None:
    rebuilt(capture_file, lambda _, data: data, zipfile.ZIP_DEFLATED)
    with pytest.raises(CaptureError, match="zip -0"):
        open_capture(capture_file)


def test_a_capture_cut_in_its_events_keeps_every_whole_frame(tmp_path: Path, spool_writer: ModuleType) -> None:
    rng = random.Random(5)
    spool = spool_writer.SpoolWriter(tmp_path)
    p = spool.process(chunk_bytes=1 << 20)
    words = [rng.randrange(1 << 64) for _ in range(400_000)]
    thread = p.thread().word(*words)
    pack(spool.write(), spool.output)
    data = spool.output.read_bytes()
    spool.output.write_bytes(data[: len(data) * 2 // 3])
    with open_capture(spool.output) as capture:
        assert capture.processes[0].info["pid"] == 100
        assert words_of(capture) == {1: words[: 2 * thread.capacity_words]}
        damage = "\n".join(capture.processes[0].damage)
    assert "the directory at the end is missing" in damage
    assert "are no whole frame; their events are missing" in damage


def test_a_capture_without_its_index_loses_no_events(capture_file: Path, spool: Any) -> None:
    rebuilt(capture_file, lambda name, data: None if name.endswith("segments.json") else data)
    with open_capture(capture_file) as capture:
        assert words_of(capture) == written(spool)
        assert capture.processes[0].damage == ["processes/0/segments.json is missing"]


def test_a_damaged_frame_is_told_once_and_left_out(capture_file: Path) -> None:
    def flip(name: str, data: bytes) -> bytes:
        return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:] if name.endswith(".zst") else data

    rebuilt(capture_file, flip)
    with open_capture(capture_file) as capture:
        assert words_of(capture) == {1: [], 2: [], 3: []}
        assert capture.processes[0].damage == [
            "processes/0/events.zst: frame 0 cannot be read (its checksum is wrong); its events are missing"
        ]


@pytest.mark.parametrize("n_words", [1 << 20, 1 << 25, 1 << 63, (1 << 64) - 1])
def test_declared_sizes_are_not_believed(capture_file: Path, n_words: int) -> None:
    def change(name: str, data: bytes) -> bytes:
        if not name.endswith("segments.json"):
            return data
        index = json.loads(data)
        index["frames"]["n_words"] = [n_words]
        index["segments"]["n_words"][0] = n_words
        return json.dumps(index).encode()

    rebuilt(capture_file, change)
    capture = read_all(capture_file)
    assert capture.processes[0].damage


@pytest.mark.parametrize(
    "column", ["[-1]", f"[{1 << 64}]", '["x"]', "[1.5]", "[true]", "[null]", '"x"', "{}", "[]", f"[1{'0' * 5000}]"],
    ids=lambda text: text[:20],
)  # fmt: skip
@pytest.mark.parametrize("name", ["offset", "n_words", "crc32"])
def test_an_index_of_anything_else_is_replaced_by_the_frames_own(
    capture_file: Path, spool: Any, name: str, column: str
) -> None:
    def change(member: str, data: bytes) -> bytes:
        if not member.endswith("segments.json"):
            return data
        index = json.loads(data)
        index["frames"][name] = "HERE"
        return json.dumps(index).replace('"HERE"', column).encode()

    rebuilt(capture_file, change)
    with open_capture(capture_file) as capture:
        assert words_of(capture) == written(spool)
        assert capture.processes[0].damage


def test_members_of_one_name_are_read_once(capture_file: Path, spool: Any) -> None:
    with zipfile.ZipFile(capture_file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("processes/0/events.zst", b"other")
    with open_capture(capture_file) as capture:
        assert words_of(capture) == written(spool)
        assert "1 members have a name that another has" in capture.processes[0].damage[0]


def test_member_names_are_never_paths(capture_file: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(capture_file, "a") as archive:
        archive.writestr("../escaped", b"x")
        archive.writestr("processes/../../meta.json", b"x")
    read_all(capture_file)
    assert not (tmp_path.parent / "escaped").exists()


@pytest.mark.parametrize("value", [None, [], "x", 1, {"function": 1}, {"function": {"id": [1], "kind": []}}])
@pytest.mark.parametrize("member", ["tables.json", "process.json"])
def test_json_of_another_shape_is_damage(capture_file: Path, member: str, value: Any) -> None:
    def change(name: str, data: bytes) -> bytes:
        return json.dumps(value).encode() if name.endswith(member) else data

    rebuilt(capture_file, change)
    assert any(member in sentence for sentence in read_all(capture_file).processes[0].damage)


def test_deeply_nested_json_is_damage(capture_file: Path) -> None:
    rebuilt(capture_file, lambda name, data: b"[" * 200_000 if name.endswith("process.json") else data)
    assert "processes/0/process.json is no JSON object" in read_all(capture_file).processes[0].damage


def test_info_has_every_key_whatever_process_json_says(capture_file: Path) -> None:
    rebuilt(capture_file, changed_json("process.json", info={"pid": "x", "command": [1], "c_calls": 1}))
    (record,) = read_all(capture_file).processes
    assert (record.info["pid"], record.info["command"], record.info["c_calls"]) == (-1, [], False)
    assert len([s for s in record.damage if "process.json" in s]) == 3
