"""What is in a capture: the data behind `frametap info` and `frametap dump`.

In: an open capture. Out: a summary of plain values, or lines of text, one an event. Invariant: nothing
is interpreted beyond an event's own meaning (nothing is matched or repaired); one segment is in memory
at a time.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import _core
from .capture import Capture
from .format import FIRST_SITE, RESUME_BIT, SITE_MASK, Control, LossKind, RecordKind, loss_name
from .process_record import ProcessRecord
from .segments import Segment

# Indices into what _core.count_events returns; see core/store/scan.h.
_COUNT_ENTER, _COUNT_RESUME, _COUNT_INVALID, _COUNT_RECORD = 16, 17, 18, 32

_EXITS = {
    Control.RETURN: "return",
    Control.RAISE: "raise",
    Control.YIELD: "yield",
    Control.C_RETURN: "c_return",
    Control.C_RAISE: "c_raise",
}


@dataclass(frozen=True)
class ThreadSummary:
    """One life of a thread. ``events`` is None unless they were counted."""

    life: int
    native_id: int
    name: str
    n_segments: int
    n_words: int
    events: dict[str, int] | None


@dataclass(frozen=True)
class ProcessSummary:
    """One process; ``duration_ns`` reaches to the last clock reading if it was killed."""

    pid: int
    parent_pid: int
    command: list[str]
    python: str
    engine: str
    c_calls: bool
    frametap: str
    host: str
    complete: bool
    start_wall_ns: int
    duration_ns: int
    n_functions: int
    n_sites: int
    n_segments: int
    n_words: int
    events: dict[str, int] | None
    losses: dict[str, int]
    damage: list[str]
    threads: list[ThreadSummary] = field(repr=False)


@dataclass(frozen=True)
class CaptureSummary:
    """A capture; ``bytes`` on disk, ``events`` over all processes, None unless they were counted."""

    path: str
    is_spool: bool
    format_version: int
    frametap: str
    complete: bool
    bytes: int
    n_words: int
    events: dict[str, int] | None
    processes: list[ProcessSummary]

    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`json.dumps`."""
        return asdict(self)


def describe(capture: Capture, *, count_events: bool = False) -> CaptureSummary:
    """Summarise a capture.

    Parameters
    ----------
    capture : Capture
    count_events : bool
        Also count events by kind, which reads all of them (about 20 ns an event); keys are ``enter``,
        ``resume``, ``return``, ``raise``, ``yield``, ``c_return``, ``c_raise``, ``sync``, ``record``,
        the records' kinds as ``record.arm`` …, and ``invalid``; zeros are left out.
    """
    processes = [_describe_process(p, count_events) for p in capture.processes]
    meta = capture.meta
    return CaptureSummary(
        path=str(capture.path),
        is_spool=capture.is_spool,
        format_version=meta["format_version"],
        frametap=str(meta.get("frametap", "")),
        complete=meta.get("complete") is True and all(p.complete for p in processes),
        bytes=_disk_bytes(capture.path),
        n_words=sum(p.n_words for p in processes),
        events=_sum([p.events for p in processes]) if count_events else None,
        processes=processes,
    )


def _describe_process(record: ProcessRecord, count_events: bool) -> ProcessSummary:
    index = record.index
    threads = []
    for t in record.threads:
        rows = index.rows(t.life)
        n_words = int(index.n_words[rows.start : rows.stop].sum())
        events = _count(record, t.life) if count_events else None
        threads.append(ThreadSummary(t.life, t.native_id, t.name, len(rows), n_words, events))
    clock, info = record.clock, record.info
    return ProcessSummary(
        **{k: info[k] for k in ("pid", "parent_pid", "command", "python", "engine", "c_calls", "frametap", "host")},
        complete=record.complete,
        start_wall_ns=clock.start.wall_ns,
        duration_ns=max(0, (clock.stop or clock.pairs[-1]).monotonic_ns - clock.start.monotonic_ns),
        n_functions=len(record.functions["id"]),
        n_sites=len(record.sites["id"]),
        n_segments=len(index),
        n_words=index.total_words,
        events=_sum([t.events for t in threads]) if count_events else None,
        losses=dict(record.losses),
        damage=record.damage,
        threads=threads,
    )


def _count(record: ProcessRecord, life: int) -> dict[str, int]:
    counts = np.zeros(_COUNT_RECORD + 256, np.uint64)
    for segment in record.segments(life):
        counts += _core.count_events(segment.words)
    return {_count_name(i): int(counts[i]) for i in np.flatnonzero(counts).tolist()}


def _count_name(index: int) -> str:
    special = {_COUNT_ENTER: "enter", _COUNT_RESUME: "resume", _COUNT_INVALID: "invalid"}
    if index >= _COUNT_RECORD:
        return f"record.{_record_name(index - _COUNT_RECORD)}"
    return special[index] if index in special else Control(index).name.lower()


def _sum(parts: list[dict[str, int] | None]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, n in (part or {}).items():
            total[name] = total.get(name, 0) + n
    return total


def _record_name(kind: int) -> str:
    return RecordKind(kind).name.lower() if 1 <= kind <= len(RecordKind) else str(kind)


def _disk_bytes(path: Path) -> int:
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    return sum(f.stat().st_blocks * 512 if path.is_dir() else f.stat().st_size for f in files)


# ---- dump


def dump(capture: Capture, *, pid: int | None = None, thread: int | None = None) -> Iterator[str]:
    """Lines of text, one for each event, in the order in which a thread wrote them.

    Parameters
    ----------
    pid, thread : int, optional
        Only this process, only this thread life.

    Yields
    ------
    str
        ``<seconds since the first process's start> <tick> <pid>/<life> <what>``, where what is
        ``enter file:line name from file:line name``, an exit, or a record with its words; a line that
        starts with ``#`` tells of a process, a thread, a segment or damage. No line ends are in it.
    """
    zero = min(p.clock.start.monotonic_ns for p in capture.processes)
    for record in capture.processes:
        if pid is not None and record.info["pid"] != pid:
            continue
        yield printable(f"# process {record.info['pid']}: {' '.join(record.info['command'])}")
        sites = _SiteTexts(record)
        said = record.damage
        for sentence in said:
            yield printable(f"# damage: {sentence}")
        for t in record.threads:
            if thread is not None and t.life != thread:
                continue
            yield printable(f"# thread {t.life}: {t.name} (native id {t.native_id})")
            for segment in record.segments(t.life):
                yield f"# segment {segment.sequence}: tick {segment.tick}, {len(segment.words)} words"
                yield from _dump_segment(record, segment, sites, zero)
        for sentence in record.damage[len(said) :]:
            yield printable(f"# damage: {sentence}")


def _dump_segment(record: ProcessRecord, segment: Segment, sites: _SiteTexts, zero: int) -> Iterator[str]:
    at = f"{record.info['pid']}/{segment.thread}"
    events = list(_events(segment))
    seconds = (record.clock.to_ns(np.array([e[0] for e in events], np.uint64)) - zero) / 1e9
    for (tick, id, payload), second in zip(events, seconds.tolist(), strict=True):
        yield f"{second:.9f} {tick} {at} {_event_text(record, id, payload, sites)}"


def _events(segment: Segment) -> Iterator[tuple[int, int, list[int]]]:
    """Tick, id and payload of each event; a payload that is cut is given as far as it goes."""
    words = segment.words.tolist()
    tick = segment.tick
    i = 0
    while i < len(words):
        id = words[i] & 0xFFFFFFFF
        tick = (tick + (words[i] >> 32)) & 0xFFFFFFFFFFFFFFFF
        n = 1 if id & RESUME_BIT or id == Control.SYNC else 0
        if id == Control.RECORD:
            n = 1 + (words[i + 1] >> 8 & 0xFF) if i + 1 < len(words) else 1
        payload = words[i + 1 : i + 1 + n]
        if id == Control.SYNC and payload:
            tick = payload[0]
        yield tick, id, payload
        i += 1 + n


def _event_text(record: ProcessRecord, id: int, payload: list[int], sites: _SiteTexts) -> str:
    if id & RESUME_BIT:
        return f"resume {sites[id & SITE_MASK]} {_instance(payload)}"
    if id >= FIRST_SITE:
        return f"enter {sites[id]}"
    if id == Control.SYNC:
        return f"sync{_words(payload)}"
    if id == Control.RECORD and payload:
        return _record_text(record, payload, sites)
    return _EXITS.get(id, f"invalid {id}")  # type: ignore[call-overload, no-any-return]


def _record_text(record: ProcessRecord, payload: list[int], sites: _SiteTexts) -> str:
    head, *words = payload
    kind, arg = head & 0xFF, head >> 16
    name = _record_name(kind)
    match kind:
        case RecordKind.BEFORE | RecordKind.MISSED:
            return f"{name} {sites[arg & SITE_MASK]}" + (f" {_instance(words)}" if arg & RESUME_BIT else "")
        case RecordKind.SPAN_BEGIN | RecordKind.INSTANT | RecordKind.COUNTER:
            text = printable(record.names.get(arg, f"<name {arg}>"))
            if kind == RecordKind.COUNTER and words:
                return f"{name} {text} {struct.unpack('<d', struct.pack('<Q', words[0]))[0]!r}"
            return f"{name} {text}{_words(words)}"
        case RecordKind.GAP_BEGIN | RecordKind.GAP_END:
            return f"{name} {loss_name(arg) if arg < len(LossKind) else arg}"
        case RecordKind.GONE | RecordKind.SWITCH | RecordKind.STACK_END | RecordKind.LOST | RecordKind.SPURIOUS:
            return f"{name} {arg}{_words(words)}"
        case RecordKind.ARM | RecordKind.DISARM | RecordKind.THREAD_END | RecordKind.SPAN_END:
            return f"{name}{_words(words)}"
        case _:
            return f"record {kind} {arg}{_words(words)}"


def _instance(payload: list[int]) -> str:
    return f"instance {payload[0] >> 1:#x}{' first' if payload[0] & 1 else ''}" if payload else "instance ?"


def _words(words: list[int]) -> str:
    return "".join(f" {w}" for w in words)


class _SiteTexts(dict[int, str]):
    """``file:line name from file:line name`` of each call site, made when it is first asked for."""

    def __init__(self, record: ProcessRecord) -> None:
        f, s = record.functions, record.sites
        self._functions = {
            id: (name, file, line)
            for id, name, file, line in zip(f["id"].tolist(), f["qualname"], f["file"], f["line"].tolist(), strict=True)
        }
        columns = [s[n].tolist() for n in ("id", "function", "caller", "line")]
        self._sites = {id: row for id, *row in zip(*columns, strict=True)}

    def __missing__(self, site: int) -> str:
        if site not in self._sites:
            return f"<site {site}>"
        function, caller, line = self._sites[site]
        text = self._place(function, None)
        if caller:
            text += f" from {self._place(caller, line)}"
        self[site] = text = printable(text)
        return text

    def _place(self, function: int, line: int | None) -> str:
        name, file, first_line = self._functions.get(function, (f"<function {function}>", "", -1))
        line = first_line if line is None else line
        return f"{file}:{line if line >= 0 else '?'} {name}" if file else name


_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with control characters and lone surrogates as escapes: one line, safe on a terminal."""
    return _UNPRINTABLE.sub(lambda m: m[0].encode("unicode_escape").decode(), text)
