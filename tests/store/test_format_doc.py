"""core/store/format.h, frametap.store.format and docs/format.md say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from frametap import _core
from frametap.store import events_file, format, frames

ROOT = Path(__file__).parents[2]
HEADER = re.sub(r"//.*", "", (ROOT / "core/store/format.h").read_text())
DOC = (ROOT / "docs/format.md").read_text()
SIZES = {"char": 1, "uint8_t": 1, "uint32_t": 4, "ClockKind": 4, "uint64_t": 8, "double": 8, "ClockPair": 24}


def snake(name: str) -> str:
    """kSpanBegin -> span_begin, as enum members and tables spell it."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name.removeprefix("k")).lower()


def enum(name: str) -> dict[str, int]:
    body = re.search(rf"enum class {name}[^{{]*{{(.*?)}}", HEADER, re.DOTALL)
    assert body
    return {snake(n): int(v) for n, v in re.findall(r"(k\w+) = (\d+)", body[1])}


def constant(name: str) -> int:
    found = re.search(rf"inline constexpr \w+ {name} = (\w+?)u?;", HEADER)
    assert found
    return int(found[1], 0)


def struct_layout(name: str) -> list[tuple[int, int, str]]:
    """(offset, bytes, field) of each field; every field is aligned to its own size or this fails."""
    body = re.search(rf"struct {name} {{(.*?)}};", HEADER, re.DOTALL)
    assert body
    layout, at = [], 0
    for type_, field, count in re.findall(r"(\w+) (\w+)(?:\[(\w+)\])?;", body[1]):
        n = 1 if not count else int(count) if count.isdigit() else constant(count)
        assert at % min(SIZES[type_], 8) == 0
        layout.append((at, SIZES[type_] * n, field))
        at += SIZES[type_] * n
    return layout


def doc_table(*heads: str) -> list[list[str]]:
    """Rows of the table in the document whose header line starts with these cells."""
    lines = DOC.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| " + " | ".join(heads) + " |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


CONTROLS = {
    snake(n): int(v)
    for n, v in re.findall(r"inline constexpr uint32_t (k\w+) = (\d+);", HEADER)
    if n not in ("kFormatVersion", "kFirstSite")
}


def test_header_defines_what_this_test_looks_for() -> None:
    assert len(CONTROLS) == 8 and len(enum("RecordKind")) == 16 and len(enum("LossKind")) == 12


def test_control_ids_agree() -> None:
    assert {c.name.lower(): c.value for c in format.Control} == CONTROLS
    documented = {name: int(id) for id, name, *_ in doc_table("id", "name") if id.isdigit()}
    assert documented == CONTROLS


@pytest.mark.parametrize(
    ("name", "heads"), [("RecordKind", ("kind", "name", "arg")), ("LossKind", ("kind", "name", "counts"))]
)
def test_kinds_agree(name: str, heads: tuple[str, ...]) -> None:
    assert {k.name.lower(): k.value for k in getattr(format, name)} == enum(name)
    assert {row[1]: int(row[0]) for row in doc_table(*heads)} == enum(name)


def test_clock_kinds_agree() -> None:
    assert {k.name.lower(): k.value for k in format.ClockKind} == enum("ClockKind")
    (meaning,) = [row[3] for row in doc_table("offset", "bytes", "FileHeader") if row[2] == "clock_kind"]
    assert {n: int(v) for v, n in re.findall(r"(\d) (\w+)", meaning)} == enum("ClockKind")


def test_constants_agree() -> None:
    assert format.FORMAT_VERSION == constant("kFormatVersion") == _core.FORMAT_VERSION
    assert f"Version {format.FORMAT_VERSION}." in DOC
    assert format.FIRST_SITE == constant("kFirstSite")
    assert format.RESUME_BIT == constant("kResumeBit")
    assert format.SITE_MASK == constant("kSiteMask")
    assert format.SEGMENT_MAGIC == constant("kSegmentMagic") == int.from_bytes(b"FSEG", "little")
    assert format.HEADER_BYTES == constant("kHeaderBytes")
    assert format.SEGMENT_ALIGN == constant("kSegmentAlign")
    assert format.MAX_LOSS_KINDS == constant("kMaxLossKinds")
    magic = re.search(r"kFileMagic\[8\] = {(.*?)}", HEADER)
    assert magic and format.FILE_MAGIC == "".join(re.findall(r"'(.)'", magic[1])).encode()


@pytest.mark.parametrize(
    ("name", "layout", "size"),
    [
        ("FileHeader", format.FILE_HEADER, 344),
        ("SegmentHeader", format.SEGMENT_HEADER, 64),
    ],
)
def test_structs_agree(name: str, layout: object, size: int) -> None:
    fields = struct_layout(name)
    assert layout.size == size == fields[-1][0] + fields[-1][1]  # type: ignore[attr-defined]
    assert [(int(o), int(b), f) for o, b, f, _ in doc_table("offset", "bytes", name)] == fields


def test_python_reads_each_field_where_it_lies() -> None:
    data = bytearray(format.FILE_HEADER.size)
    for at, n_bytes, _ in struct_layout("FileHeader"):
        if n_bytes == 4:
            data[at] = at
    assert format.FILE_HEADER.unpack(data)[1:5] == (8, 12, 16, 20)
    data = bytearray(format.SEGMENT_HEADER.size)
    for at, _, _ in struct_layout("SegmentHeader"):
        data[at] = at
    assert format.SEGMENT_HEADER.unpack(data)[:8] == (0, 4, 8, 12, 16, 24, 32, 40)


def test_frames_are_as_documented() -> None:
    head = [(frames.SKIP_HEAD.fields[n][1], frames.SKIP_HEAD[n].itemsize, n) for n in frames.SKIP_HEAD.names]  # type: ignore[index,union-attr]
    *documented, segments = doc_table("offset", "bytes", "field")
    assert [(int(o), int(b), f) for o, b, f, _ in documented] == head
    assert segments[0] == str(frames.SKIP_HEAD.itemsize) and segments[1] == f"{frames.SKIP_ROW.itemsize} each"
    described = re.findall(r"(\w+) \((\d)\)", segments[3])
    assert described == [(n, str(frames.SKIP_ROW[n].itemsize)) for n in frames.SKIP_ROW.names or ()]
    assert f"0x{frames.SKIP_MAGIC:X}" in DOC and f"0x{frames.SKIP_SIGNATURE:X}" in DOC


def test_limits_are_as_documented() -> None:
    assert events_file.MAX_CHUNK_BYTES == 256 << 20 == frames.MAX_FRAME_WORDS * 8
    assert "256 MiB" in DOC and "65 536 times" in DOC


def test_journal_rows_are_as_documented() -> None:
    from frametap.store.tables import _FIELDS

    rows = [re.findall(r"[\w]+", row[0]) for row in doc_table("row", "meaning")]
    assert {tag: len(fields) for tag, *fields in rows} == {tag: len(fields) for tag, fields in _FIELDS.items()}
