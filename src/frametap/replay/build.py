"""A capture to a trace: all threads of all processes, replayed and put into one set of tables.

In: an open capture (`frametap.store.Capture`). Out: :class:`frametap.table.Trace`.
Invariant: `frametap.table.check.validate` finds nothing, whatever the capture holds; no Python
statement runs per call.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..table import Table, Trace
from ..table.schema import SCHEMA
from .instances import number_instances
from .losses import NO_THREAD, UNKNOWN_SITE, ProcessLosses, losses_table
from .marks import match_marks
from .sites import ProcessSites, SiteTables, lookup
from .threads import Array, Columns, Knots, ThreadSpans, replay_thread

if TYPE_CHECKING:
    from ..store import Capture, ProcessRecord

Progress = Callable[[int, int], None]

_CHUNK = 1 << 20  # rows worked on at a time where a temporary of full length would be needed


def build_trace(capture: Capture, *, progress: Progress | None = None) -> Trace:
    """Replay a capture.

    Parameters
    ----------
    capture : Capture
        An open capture, or a spool folder opened in its place.
    progress : callable, optional
        Called as ``progress(done, total)``, in words of events.

    Returns
    -------
    Trace
        Times are ns since the start of the process that started first. ``meta`` is the capture's,
        with ``processes`` (each process's own, by row of the processes table) and ``damage`` (a
        sentence for everything that could not be read).
    """
    starts = [p.clock.start for p in capture.processes if p.clock.start.monotonic_ns > 0]
    zero = min(starts, key=lambda pair: pair.monotonic_ns, default=None)
    n_words = sum(p.index.total_words for p in capture.processes)
    builder = _Builder(zero.monotonic_ns if zero else 0, progress, n_words)
    for record in capture.processes:
        builder.add_process(record)
    started = capture.meta.get("started_wall_ns")
    start_wall_ns = zero.wall_ns if zero and zero.wall_ns else started if isinstance(started, int) else 0
    return builder.trace(start_wall_ns, capture.meta)


@dataclass
class _Track:
    """A track's columns on the way into the calls table."""

    first_row: int
    n_rows: int
    columns: Columns


class _Builder:
    def __init__(self, zero_ns: int, progress: Progress | None, n_words: int) -> None:
        self.zero_ns = zero_ns
        self.progress = progress
        self.n_words = n_words
        self.n_words_done = 0
        self.sites = SiteTables()
        self.tables: dict[str, dict[str, list[Any]]] = {
            kind: {c.name: [] for c in SCHEMA[kind]} for kind in ("tracks", "threads", "processes")
        }
        self.tracks: list[_Track] = []
        self.n_calls = 0
        self.instances: list[tuple[Array, Array]] = []  # rows of calls, their instances
        self.marks: list[Columns] = []
        self.losses: list[ProcessLosses] = []
        self.infos: list[dict[str, Any]] = []
        self.damage: list[str] = []
        self.end_ns = 0

    # -- one process ------------------------------------------------------------------------------

    def add_process(self, record: ProcessRecord) -> None:
        process = len(self.infos)
        self.infos.append(record.info)
        sites = self.sites.add_process(process, record)
        knots = Knots.of(record.clock, self.zero_ns)
        first_thread = len(self.tables["threads"]["life"])
        threads = [
            replay_thread(record, t.life, sites.classes, knots, on_segment=self._on_segment) for t in record.threads
        ]
        start_ns, end_ns = self._add_threads(process, record, threads)
        self._name_sites(process, sites, threads)
        losses = self._account(process, record, first_thread, threads)
        tracks_of = [self._add_tracks(first_thread + i, spans) for i, spans in enumerate(threads)]
        if threads:
            self._add_instances(sites, threads, tracks_of)
            self._add_marks(record, threads, tracks_of, end_ns, losses)
        info = record.info
        self._add_row(
            "processes",
            pid=_int64(info["pid"]),
            parent_pid=_int64(info["parent_pid"]),
            command=shlex.join(info["command"]),
            python=info["python"],
            start_ns=start_ns,
            end_ns=end_ns,
            complete=record.complete,
        )
        self.end_ns = max(self.end_ns, end_ns)

    def _on_segment(self, n_words: int) -> None:
        self.n_words_done += n_words
        if self.progress is not None:
            self.progress(min(self.n_words_done, self.n_words), self.n_words)

    def _ns(self, record: ProcessRecord, ticks: list[int]) -> list[int]:
        ns: list[int] = np.maximum(record.clock.to_ns(np.array(ticks, dtype=np.uint64)) - self.zero_ns, 0).tolist()
        return ns

    def _add_threads(self, process: int, record: ProcessRecord, threads: list[ThreadSpans]) -> tuple[int, int]:
        """Rows of the threads table; the process's own start and end."""
        stop = record.clock.stop or record.clock.start
        start_ns, end_ns = self._ns(record, [record.clock.start.tick, stop.tick])
        for thread, spans in zip(record.threads, threads, strict=True):
            told = [thread.start_tick] + ([thread.end_tick] if thread.end_tick is not None else [])
            seen = [*self._ns(record, told), *([spans.first_ns, spans.last_ns] if spans.first_ns >= 0 else [])]
            self._add_row(
                "threads",
                process=process,
                life=thread.life,
                native_id=thread.native_id,
                name=thread.name
                or (f"thread {thread.native_id}" if thread.native_id >= 0 else f"thread #{thread.life}"),
                start_ns=min(seen),
                end_ns=max(seen),
            )
            end_ns = max(end_ns, *seen)
        return start_ns, end_ns

    def _name_sites(self, process: int, sites: ProcessSites, threads: list[ThreadSpans]) -> None:
        """Site ids to rows of the sites table, in place."""
        unknown_ids = np.zeros(0, dtype=np.uint32)
        for spans in threads:
            if UNKNOWN_SITE in spans.losses:
                for _, columns in spans.tracks:
                    unknown = lookup(sites.rows, columns["site"]) < 0
                    unknown_ids = np.union1d(unknown_ids, columns["site"][unknown])
        unknown_rows = self.sites.add_unknown(process, unknown_ids)
        for spans in threads:
            for _, columns in spans.tracks:
                site = columns["site"]
                for at in range(0, len(site), _CHUNK):
                    ids = site[at : at + _CHUNK]
                    rows = lookup(sites.rows, ids)
                    if len(unknown_ids):
                        unknown = rows < 0
                        rows[unknown] = unknown_rows[np.searchsorted(unknown_ids, ids[unknown])]
                    ids[:] = rows

    def _account(
        self, process: int, record: ProcessRecord, first_thread: int, threads: list[ThreadSpans]
    ) -> ProcessLosses:
        losses = ProcessLosses(process)
        for kind, count in record.losses.items():
            losses.total(kind, count)
        row_of_life = {spans.life: first_thread + i for i, spans in enumerate(threads)}
        for detail in record.loss_details:
            first_ns, last_ns = self._ns(record, [detail.first_tick, detail.last_tick])
            losses.noted(detail.kind, row_of_life.get(detail.life, NO_THREAD), detail.count, first_ns, last_ns)
        for spans in threads:
            losses.slots(row_of_life[spans.life], spans.losses)
        losses.total("damaged_capture", len(record.damage))
        self.damage += record.damage
        self.losses.append(losses)
        return losses

    def _add_tracks(self, thread: int, spans: ThreadSpans) -> Array:
        """Rows of the tracks table for the stacks that have something; -1 for the others."""
        has_marks = set(np.unique(spans.marks["track"]).tolist())
        rows = np.full(len(spans.tracks), -1, dtype=np.int64)
        for i, (stack, columns) in enumerate(spans.tracks):
            n = len(columns["site"])
            if n == 0 and i not in has_marks:
                continue
            rows[i] = len(self.tracks)
            name = self.tables["threads"]["name"][thread]
            self._add_row("tracks", thread=thread, stack=stack, name=f"{name}, greenlet {stack}" if stack else name)
            parent = columns["parent"]
            for at in range(0, n if self.n_calls else 0, _CHUNK):
                part = parent[at : at + _CHUNK]
                part[part >= 0] += self.n_calls
            self.tracks.append(_Track(self.n_calls, n, columns))
            self.n_calls += n
        return rows

    def _first_rows(self, tracks: Array) -> Array:
        """First row of calls, by index into a thread's tracks."""
        return np.array([self.tracks[t].first_row if t >= 0 else 0 for t in tracks.tolist()], dtype=np.int64)

    def _add_instances(self, sites: ProcessSites, threads: list[ThreadSpans], tracks_of: list[Array]) -> None:
        resumes = concatenate([spans.resumes for spans in threads])
        if not len(resumes["row"]):
            return
        site_rows = lookup(sites.rows, resumes["site"])
        function = np.where(site_rows >= 0, self.sites.function_of_site()[site_rows], -1 - resumes["site"].astype(int))
        rows = [
            self._first_rows(tracks)[spans.resumes["track"]] + spans.resumes["row"]
            for spans, tracks in zip(threads, tracks_of, strict=True)
        ]
        numbers = number_instances(resumes["time_ns"], resumes["address"], resumes["is_first"], function)
        self.instances.append((np.concatenate(rows), numbers))

    def _add_marks(
        self,
        record: ProcessRecord,
        threads: list[ThreadSpans],
        tracks_of: list[Array],
        end_ns: int,
        losses: ProcessLosses,
    ) -> None:
        for spans, tracks in zip(threads, tracks_of, strict=True):
            spans.marks["track"] = tracks[spans.marks["track"]]
        marks = concatenate([spans.marks for spans in threads])
        matched = match_marks(marks, record.names, end_ns)
        self.marks.append(matched.columns)
        thread = np.array(self.tables["tracks"]["thread"], dtype=np.int64)[marks["track"]]
        for kind, which in (("unmatched_span", matched.unmatched), ("unfinished_span", matched.unfinished)):
            losses.found_at(kind, thread[which], marks["time_ns"][which])

    def _add_row(self, kind: str, **values: Any) -> None:
        for name, column in self.tables[kind].items():
            column.append(values[name])

    # -- all together -----------------------------------------------------------------------------

    def trace(self, start_wall_ns: int, meta: dict[str, Any]) -> Trace:
        calls = self._calls()
        marks = concatenate([dict(Table.empty("marks")), *self.marks])
        order = np.argsort(marks["start_ns"], kind="stable")
        return Trace(
            calls=calls,
            sites=self.sites.sites(),
            functions=self.sites.functions(),
            **{kind: Table(kind, columns) for kind, columns in self.tables.items()},
            marks=Table("marks", {name: column[order] for name, column in marks.items()}),
            losses=losses_table(self.losses),
            start_wall_ns=start_wall_ns,
            duration_ns=self.end_ns,
            meta={**meta, "processes": self.infos, "damage": self.damage},
        )

    def _calls(self) -> Table:
        """The tracks' columns one after another; each is given up as soon as it is copied."""
        columns: Columns = {}
        for column in SCHEMA["calls"]:
            if column.name == "track":
                lengths = [t.n_rows for t in self.tracks]
                columns["track"] = np.repeat(np.arange(len(self.tracks), dtype=np.uint32), lengths)
            elif column.name == "instance":
                columns["instance"] = np.zeros(self.n_calls, dtype=np.uint32)
                for rows, numbers in self.instances:
                    columns["instance"][rows] = numbers
            elif len(self.tracks) == 1:
                columns[column.name] = self.tracks[0].columns.pop(column.name)
            else:
                parts = [t.columns.pop(column.name) for t in self.tracks]
                columns[column.name] = np.concatenate([np.zeros(0, dtype=column.dtype), *parts])
        return Table("calls", columns)


def _int64(number: int) -> int:
    return number if -(1 << 63) <= number < 1 << 63 else -1  # JSON knows no bounds


def concatenate(parts: list[Columns]) -> Columns:
    """Columns of several tables of one form (at least one), one after another."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
