"""Writes spools from a little language of events, for the tests of every stage.

    spool = SpoolWriter(tmp_path)
    process = spool.process()
    fib = process.site(process.function("fib", "fib.py", 1))
    main = process.thread()
    main.arm().enter(fib).enter(fib, dt=5).exit_return().exit_return().disarm()
    path = spool.write()                 # run.ftap.part

Explicit on purpose: every byte is packed here by hand, without a line of what is tested. Ticks are
fake: a thread starts at its ``start_tick``, every event comes ``dt`` ticks after the one before.
By default 1 tick = 1 ns, tick 0 is CLOCK_MONOTONIC 1 000 000 000.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

HEADER_BYTES = 4096
MONOTONIC_AT_0 = 1_000_000_000
WALL_AT_0 = 1_700_000_000_000_000_000

RETURN, RAISE, YIELD, C_RETURN, C_RAISE, SYNC, RECORD = range(1, 8)
RESUME_BIT = 0x80000000
RECORD_KINDS = {
    "arm": 1, "disarm": 2, "before": 3, "missed": 4, "gone": 5, "switch": 6, "stack_end": 7, "thread_end": 8,
    "span_begin": 9, "span_end": 10, "instant": 11, "counter": 12, "gap_begin": 13, "gap_end": 14, "lost": 15,
    "spurious": 16,
}  # fmt: skip
LOSSES = [
    "dropped_events", "hook_displaced", "deep_stack", "unmatched_exit", "missed_entry", "gone_unseen",
    "other_interpreter", "table_full", "journal", "thread_setup", "forked", "c_calls_displaced",
]  # fmt: skip


class SpoolWriter:
    """A spool folder ``<folder>/<name>.ftap.part``; nothing is written before :meth:`write`."""

    def __init__(self, folder: Path, name: str = "run", *, format_version: int = 1, **options: Any) -> None:
        self.output = Path(folder) / f"{name}.ftap"
        self.path = Path(folder) / f"{name}.ftap.part"
        self.processes: list[ProcessWriter] = []
        self.spool_json: dict[str, Any] = {
            "format_version": format_version,
            "frametap": "0.1.0",
            "output": str(self.output),
            "root_pid": 100,
            "started_wall_ns": WALL_AT_0,
            "options": options,
        }

    def process(self, pid: int = 100, **settings: Any) -> ProcessWriter:
        """A new process; see :class:`ProcessWriter`."""
        writer = ProcessWriter(self, pid, len(self.processes), **settings)
        self.processes.append(writer)
        return writer

    def write(self) -> Path:
        """Write everything; may be called again after more events."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "spool.json").write_text(json.dumps(self.spool_json))
        for process in self.processes:
            process.write()
        return self.path


class ProcessWriter:
    """One process. ``info`` overrides entries of process.json; ``chunk_bytes`` is small for small files."""

    def __init__(
        self,
        spool: SpoolWriter,
        pid: int,
        number: int,
        *,
        parent_pid: int = 1,
        chunk_bytes: int = 4096,
        ticks_per_ns: float = 1.0,
        start_tick: int = 0,
        clock_kind: int = 1,
        format_version: int = 1,
        c_calls: bool = False,
        **info: Any,
    ) -> None:
        self.spool = spool
        self.folder = spool.path / f"p{pid}-{number}"
        self.chunk_bytes = chunk_bytes
        self.ticks_per_ns = ticks_per_ns
        self.clock_kind = clock_kind
        self.format_version = format_version
        self.pid = pid
        self.start = self.pair(start_tick)
        self.stop: tuple[int, int, int] | None = None
        self.latest = start_tick
        self.killed = False
        self.losses = [0] * 32
        self.lines: list[bytes] = []
        self.threads: list[ThreadWriter] = []
        self.n_functions = self.n_names = 0
        self.n_sites = 15
        self.info: dict[str, Any] = {
            "pid": pid,
            "parent_pid": parent_pid,
            "command": ["python", "app.py"],
            "executable": "/usr/bin/python",
            "python": "3.13.1",
            "platform": "linux",
            "host": "",
            "engine": "monitoring",
            "c_calls": c_calls,
            "options": spool.spool_json["options"],
            "frametap": "0.1.0",
            "working_directory": "/",
            **info,
        }

    def pair(self, tick: int) -> tuple[int, int, int]:
        """The clock pair of a tick."""
        ns = round(tick / self.ticks_per_ns)
        return tick, MONOTONIC_AT_0 + ns, WALL_AT_0 + ns

    # ---- tables

    def line(self, *row: Any) -> ProcessWriter:
        """A row of tables.jsonl; a single bytes object is written as it is, without a newline."""
        if len(row) == 1 and isinstance(row[0], bytes):
            self.lines.append(row[0])
        else:
            self.lines.append(json.dumps(row).encode("ascii") + b"\n")
        return self

    def function(
        self,
        name: str,
        file: str = "app.py",
        line: int = 1,
        *,
        module: str = "app",
        kind: str = "python",
        flags: int = 0,
    ) -> int:
        """Describe a function; returns its id."""
        self.n_functions += 1
        self.line("function", self.n_functions, kind, name, module, file, line, flags)
        return self.n_functions

    def site(self, function: int, caller: int = 0, line: int = -1, *, resume: bool = False) -> int:
        """Describe a call site; returns its id, for ``enter`` or ``resume``."""
        self.n_sites += 1
        self.line("site", self.n_sites, function, caller, line, int(resume))
        return self.n_sites

    def name(self, text: str) -> int:
        """Describe a mark's name; returns its id."""
        self.n_names += 1
        self.line("name", self.n_names, text)
        return self.n_names

    def loss(self, kind: str, count: int = 1) -> ProcessWriter:
        """Add to a process-wide loss counter."""
        self.losses[LOSSES.index(kind)] += count
        return self

    def loss_detail(self, kind: str, count: int, life: int, first_tick: int, last_tick: int) -> ProcessWriter:
        return self.line("loss", kind, count, life, first_tick, last_tick)

    # ---- events

    def thread(
        self,
        life: int | None = None,
        name: str | None = None,
        *,
        native_id: int | None = None,
        start_tick: int = 1000,
        capacity_words: int | None = None,
        described: bool = True,
    ) -> ThreadWriter:
        """A new thread. ``capacity_words``: room of each segment, default what fits into a chunk."""
        life = len(self.threads) + 1 if life is None else life
        name = ("MainThread" if life == 1 else f"Thread-{life}") if name is None else name
        if described:
            self.line("thread", life, 5000 + life if native_id is None else native_id, name, start_tick)
        writer = ThreadWriter(self, life, start_tick, capacity_words or (self.chunk_bytes - 64) // 8)
        self.threads.append(writer)
        return writer

    def kill(self) -> ProcessWriter:
        """The process dies: no stop, and each thread's last segment stays open."""
        self.killed = True
        return self

    # ---- bytes

    def events_bytes(self) -> bytes:
        """The whole events.bin."""
        chunks: list[bytearray] = []
        room = 0
        for segment in [s for t in self.threads for s in t.segments]:
            is_open = segment.left_open or (self.killed and segment is segment.thread.segments[-1])
            n_words = len(segment.words)
            capacity = segment.thread.capacity_words if is_open else n_words
            size = 64 + (capacity * 8 + 63) // 64 * 64
            if size > room:
                chunks.append(bytearray(self.chunk_bytes))
                room = self.chunk_bytes
            at = self.chunk_bytes - room
            header = struct.pack(
                "<4I6Q", 0x47455346, segment.thread.life, segment.sequence, 0 if is_open else n_words,
                segment.tick, self.pair(segment.tick)[1], capacity, 0, 0, 0,
            )  # fmt: skip
            data = header + struct.pack(f"<{n_words}Q", *segment.words)
            chunks[-1][at : at + len(data)] = data
            assert len(chunks[-1]) == self.chunk_bytes, "segment does not fit into a chunk: raise chunk_bytes"
            room -= size
        stop = (0, 0, 0) if self.killed else self.stop or self.pair(max([self.latest, *(t.tick for t in self.threads)]))
        header = struct.pack(
            "<8s4I3Q3QQd32Q", b"FTAPEVT1", self.format_version, self.clock_kind, self.chunk_bytes, self.pid,
            *self.start, *stop, len(chunks), self.ticks_per_ns, *self.losses,
        )  # fmt: skip
        return header.ljust(HEADER_BYTES, b"\0") + b"".join(chunks)

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "process.json").write_text(json.dumps(self.info))
        (self.folder / "tables.jsonl").write_bytes(b"".join(self.lines))
        (self.folder / "events.bin").write_bytes(self.events_bytes())


class SegmentWriter:
    """Words of one segment."""

    def __init__(self, thread: ThreadWriter, sequence: int, tick: int) -> None:
        self.thread = thread
        self.sequence = sequence
        self.tick = tick
        self.words: list[int] = []
        self.left_open = False


class ThreadWriter:
    """Events of one thread; every method returns the writer, so that calls can be chained."""

    def __init__(self, process: ProcessWriter, life: int, start_tick: int, capacity_words: int) -> None:
        self.process = process
        self.life = life
        self.tick = start_tick
        self.capacity_words = capacity_words
        self.segments: list[SegmentWriter] = []

    # ---- structure

    def segment(self, sequence: int | None = None) -> ThreadWriter:
        """Start a new segment here."""
        following = self.segments[-1].sequence + 1 if self.segments else 0
        self.segments.append(SegmentWriter(self, following if sequence is None else sequence, self.tick))
        return self

    def leave_open(self) -> ThreadWriter:
        """The current segment's length is not written (its thread was killed)."""
        self.segments[-1].left_open = True
        return self

    def word(self, *words: int) -> ThreadWriter:
        """Words as they are, on to new segments where one is full."""
        if not self.segments:
            self.segment()
        while words:
            room = self.capacity_words - len(self.segments[-1].words)
            if not room:
                self.segment()
                continue
            self.segments[-1].words.extend(words[:room])
            words = words[room:]
        return self

    def event(self, id: int, *payload: int, dt: int = 10) -> ThreadWriter:
        """One event ``dt`` ticks later, with a SYNC before it if the delta does not fit."""
        if dt >= 1 << 32:
            self.sync(dt)
            dt = 0
        if not self.segments or len(self.segments[-1].words) + 1 + len(payload) > self.capacity_words:
            self.segment()
        self.tick += dt
        return self.word(dt << 32 | id, *payload)

    def sync(self, dt: int = 0) -> ThreadWriter:
        """The full tick, ``dt`` ticks later."""
        self.event(SYNC, self.tick + dt, dt=0)
        self.tick += dt
        return self

    def at(self, tick: int) -> ThreadWriter:
        """Go to an absolute tick."""
        return self.sync(tick - self.tick)

    # ---- calls

    def enter(self, site: int, dt: int = 10) -> ThreadWriter:
        return self.event(site, dt=dt)

    def resume(self, site: int, address: int = 0x1000, *, first: bool = False, dt: int = 10) -> ThreadWriter:
        return self.event(site | RESUME_BIT, address << 1 | first, dt=dt)

    def exit_return(self, dt: int = 10) -> ThreadWriter:
        return self.event(RETURN, dt=dt)

    def exit_raise(self, dt: int = 10) -> ThreadWriter:
        return self.event(RAISE, dt=dt)

    def exit_yield(self, dt: int = 10) -> ThreadWriter:
        return self.event(YIELD, dt=dt)

    def c_return(self, dt: int = 10) -> ThreadWriter:
        return self.event(C_RETURN, dt=dt)

    def c_raise(self, dt: int = 10) -> ThreadWriter:
        return self.event(C_RAISE, dt=dt)

    def call(self, site: int, duration: int = 10, dt: int = 10) -> ThreadWriter:
        """Enter and return."""
        return self.enter(site, dt).exit_return(duration)

    # ---- records

    def record(self, kind: str | int, arg: int = 0, *words: int, dt: int = 10) -> ThreadWriter:
        number = RECORD_KINDS[kind] if isinstance(kind, str) else kind
        return self.event(RECORD, arg << 16 | len(words) << 8 | number, *words, dt=dt)

    def arm(self, dt: int = 0) -> ThreadWriter:
        return self.record("arm", dt=dt)

    def disarm(self, dt: int = 10) -> ThreadWriter:
        return self.record("disarm", dt=dt)

    def before(self, site: int, address: int | None = None, *, first: bool = False, dt: int = 0) -> ThreadWriter:
        """A frame that was running; with ``address`` it is a generator's."""
        return self._running("before", site, address, first, dt)

    def missed(self, site: int, address: int | None = None, *, first: bool = False, dt: int = 10) -> ThreadWriter:
        return self._running("missed", site, address, first, dt)

    def _running(self, kind: str, site: int, address: int | None, first: bool, dt: int) -> ThreadWriter:
        if address is None:
            return self.record(kind, site, dt=dt)
        return self.record(kind, site | RESUME_BIT, address << 1 | first, dt=dt)

    def gone(self, n: int = 1, dt: int = 10) -> ThreadWriter:
        return self.record("gone", n, dt=dt)

    def switch(self, stack: int, dt: int = 10) -> ThreadWriter:
        return self.record("switch", stack, dt=dt)

    def stack_end(self, stack: int, dt: int = 10) -> ThreadWriter:
        return self.record("stack_end", stack, dt=dt)

    def end(self, dt: int = 10) -> ThreadWriter:
        """The thread ended; also told in the tables."""
        self.record("thread_end", dt=dt)
        self.process.line("thread_end", self.life, self.tick)
        return self

    def span_begin(self, name: int, serial: int, dt: int = 10) -> ThreadWriter:
        return self.record("span_begin", name, serial, dt=dt)

    def span_end(self, serial: int, dt: int = 10) -> ThreadWriter:
        return self.record("span_end", 0, serial, dt=dt)

    def instant(self, name: int, dt: int = 10) -> ThreadWriter:
        return self.record("instant", name, dt=dt)

    def counter(self, name: int, value: float, dt: int = 10) -> ThreadWriter:
        return self.record("counter", name, struct.unpack("<Q", struct.pack("<d", value))[0], dt=dt)

    def gap_begin(self, loss: str, dt: int = 10) -> ThreadWriter:
        return self.record("gap_begin", LOSSES.index(loss), dt=dt)

    def gap_end(self, loss: str, dt: int = 10) -> ThreadWriter:
        return self.record("gap_end", LOSSES.index(loss), dt=dt)

    def lost(self, n: int, dt: int = 10) -> ThreadWriter:
        return self.record("lost", n, dt=dt)

    def spurious(self, dt: int = 10) -> ThreadWriter:
        return self.record("spurious", 1, dt=dt)
