"""Perfetto's protobuf trace: the default timeline, https://ui.perfetto.dev.

Specification: https://perfetto.dev/docs/reference/trace-packet-proto (TracePacket, TrackEvent, TrackDescriptor,
InternedData, ClockSnapshot) and https://perfetto.dev/docs/reference/synthetic-track-event.

In: a trace. Out: the file's bytes, in bounded pieces. Invariant: slices on one track are begun and ended in time
order, never cross, and nest at most :data:`~frametap.export.check.MAX_DEPTH` deep; whatever that cost is in the
file, on the track "frametap".

Each track is a packet sequence of its own: it interns only the names that it uses, so they have small ids, and
its clock counts on from event to event, so times are small too. Its calls come in preorder, and an END names no
slice, so the ENDs of a nested stack are simply its end times, sorted; row ``i`` at depth ``d`` begins as event
``2 i - d``. That leaves no loop over events: records are copied from one template per call site.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np

from ..table import Trace
from ..table.schema import Outcome
from ..version import __version__
from . import wire
from .check import MAX_DEPTH, Checked, Loss, Stack, check, cut, groups
from .lanes import lanes, nesting
from .perfetto_records import (
    ANNOTATION,
    CATEGORIES,
    CATEGORY_IID_OF,
    CLEARED,
    CLOCK_ID,
    CLOCKS,
    COUNTER,
    DEFAULTS,
    DOUBLE,
    EVENT,
    FIRST_NOTE,
    FLAGS,
    INSTANT,
    INTERNED,
    KEY_INSTANCE,
    KEY_NOTE,
    KEY_OUTCOME,
    KEYS,
    LOCATIONS,
    MONOTONIC,
    NAMES,
    NEEDS_STATE,
    NOTE_TEXTS,
    NOTED,
    OWN_CLOCK,
    PACKET,
    REALTIME,
    SEQUENCE,
    STRINGS,
    TIMESTAMP,
    TRACK,
    TRACK_UUID,
    TYPE,
    Sequence,
    Slices,
    begin_templates,
    encode_points,
    encode_slices,
    in_pieces,
    packet_template,
)


def write(trace: Trace, out: BinaryIO) -> None:
    """Write a trace as Perfetto protobuf.

    Parameters
    ----------
    trace : Trace
        Any trace; what cannot be shown as it is is mended or cut, counted, and told in the file.
    out : binary file
        Written to in pieces, never read or sought.
    """
    _Writer(check(trace), out).write()


@dataclass
class _Writer:
    checked: Checked
    out: BinaryIO
    next_sequence: int = 1
    losses: list[Loss] = field(default_factory=list)

    def write(self) -> None:
        trace = self.checked.trace
        self.losses = list(self.checked.losses)
        starts = [int(s.start_ns[0]) for s in self.checked.stacks if len(s)]
        starts += [int(trace.marks["start_ns"].min())] if trace.marks.n_rows else []
        self.zero_ns = min([0, *starts])
        self._describe_tracks()
        for stack in self.checked.stacks:
            self._write_stack(stack)
        self._write_marks()
        self._write_account()

    # --- packets, one by one -------------------------------------------------------------------------------------

    def _packet(self, payload: bytes) -> None:
        self.out.write(wire.blob(PACKET, payload))

    def _emit(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self.out.write(piece)

    def _uuid(self, *what: object) -> int:
        """A 64-bit id: of this host, process and start time, so that files can be joined."""
        text = repr((self.checked.trace.meta.get("host", ""), self.checked.trace.start_wall_ns, *what))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") | 1

    def _track(self, uuid: int, parent: int, name: str, *, more: bytes = b"", description: str = "") -> None:
        payload = wire.uint(1, uuid)
        payload += wire.uint(5, parent) if parent else b""
        payload += wire.text(2, name) if name else b""
        payload += wire.text(14, description) if description else b""
        # Tracks of one name are not one track (sibling_merge_behavior NONE).
        self._packet(wire.blob(TRACK, payload + wire.uint(15, 2) + more))

    def _describe_tracks(self) -> None:
        checked, trace = self.checked, self.checked.trace
        processes, threads, tracks = trace.processes, trace.threads, trace.tracks
        self.process_uuids = [self._uuid("process", p) for p in range(processes.n_rows)]
        for p, uuid in enumerate(self.process_uuids):
            pid, real = checked.process_ids[p], int(processes["pid"][p])
            command = checked.commands[p]
            words = wire.signed(1, pid) + b"".join(wire.text(2, word) for word in _split_command(command))
            words += wire.text(6, command or "python")
            words += wire.text(8, f"Python {processes['python'][p]}")
            if pid != real:
                words += wire.text(8, f"process id {real}")
            if not processes["complete"][p]:
                words += wire.text(8, "recovered: it was killed")
            self._track(uuid, 0, "", more=wire.blob(3, words))
        self.thread_uuids = [self._uuid("thread", t) for t in range(threads.n_rows)]
        for t, uuid in enumerate(self.thread_uuids):
            p, tid, real = int(threads["process"][t]), checked.thread_ids[t], int(threads["native_id"][t])
            words = wire.signed(1, checked.process_ids[p]) + wire.signed(2, tid)
            words += wire.text(5, checked.thread_names[t])
            told = "" if tid == real else f"thread id {real if real >= 0 else 'unknown'}, life {threads['life'][t]}"
            self._track(uuid, self.process_uuids[p], "", more=wire.blob(4, words), description=told)
        self.track_uuids = []
        for k in range(tracks.n_rows):
            uuid = self.thread_uuids[int(tracks["thread"][k])]
            if tracks["stack"][k]:
                parent, uuid = uuid, self._uuid("stack", k)
                self._track(uuid, parent, checked.track_names[k])
            self.track_uuids.append(uuid)

    def _begin_sequence(self, track_uuid: int, interned: bytes) -> Sequence:
        """Open a sequence whose clock starts at the trace's zero."""
        sequence = Sequence(self.next_sequence, track_uuid, self.zero_ns)
        self.next_sequence += 1
        trace = self.checked.trace
        monotonic = trace.meta.get("start_monotonic_ns")
        clocks = wire.blob(1, wire.uint(1, OWN_CLOCK) + wire.uint(2, 0) + wire.uint(3, 1))
        clocks += wire.blob(1, wire.uint(1, REALTIME) + wire.uint(2, trace.start_wall_ns + self.zero_ns))
        if monotonic is not None:
            clocks += wire.blob(1, wire.uint(1, MONOTONIC) + wire.uint(2, int(monotonic) + self.zero_ns))
        clocks += wire.uint(2, REALTIME if monotonic is None else MONOTONIC)
        defaults = wire.uint(CLOCK_ID, OWN_CLOCK) + wire.blob(EVENT, wire.uint(TRACK_UUID, track_uuid))
        head = wire.uint(SEQUENCE, sequence.id)
        self._packet(head + wire.uint(FLAGS, CLEARED) + wire.blob(DEFAULTS, defaults) + wire.blob(CLOCKS, clocks))
        self._packet(head + wire.uint(FLAGS, NEEDS_STATE) + wire.blob(INTERNED, interned))
        return sequence

    # --- calls ---------------------------------------------------------------------------------------------------

    def _write_stack(self, stack: Stack) -> None:
        if not len(stack):
            return
        keep, loss = cut(self.checked, stack, MAX_DEPTH)
        if loss:
            self.losses.append(loss)
        interned, kind_of_site, names, categories, locations = self._intern(stack)
        sequence = self._begin_sequence(self.track_uuids[stack.track], interned)
        templates = begin_templates(sequence.id, names, categories, locations)

        def pieces() -> Iterator[Slices]:
            for piece in stack.pieces():
                rows = slice(None) if keep is None else keep[piece]
                start = stack.start_ns[piece][rows]
                yield Slices(
                    kind_of_site[stack.site[piece][rows]], start, start + stack.duration_ns[piece][rows],
                    stack.depth[piece][rows], stack.outcome[piece][rows], stack.flags[piece][rows],
                    stack.instance[piece][rows],
                )  # fmt: skip

        self._emit(encode_slices(sequence, templates, pieces()))

    def _intern(self, stack: Stack) -> tuple[bytes, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What the stack's events refer to, and per used site the ids of name, category and location."""
        checked, trace = self.checked, self.checked.trace
        used = np.zeros(trace.sites.n_rows, dtype=np.int64)
        noted = np.zeros(256, dtype=np.int64)
        for piece in stack.pieces():
            used += np.bincount(stack.site[piece], minlength=len(used))
            noted += np.bincount(stack.flags[piece], minlength=256)
        # The commonest first, for short ids.
        sites = np.flatnonzero(used)
        sites = sites[np.argsort(-used[sites], kind="stable")]
        kind_of_site = np.zeros(trace.sites.n_rows, dtype=np.int64)
        kind_of_site[sites] = np.arange(len(sites))
        name_iids: dict[str, int] = {}
        location_iids: dict[tuple[int, int], int] = {}
        names, categories, locations = [], [], []
        for function, caller, line in zip(
            *(trace.sites[c][sites].tolist() for c in ("function", "caller", "line")), strict=True
        ):
            names.append(name_iids.setdefault(checked.function_names[function], len(name_iids) + 1))
            categories.append(CATEGORY_IID_OF.get(str(trace.functions["kind"][function]), 1))
            place = (caller, line)
            locations.append(0 if caller < 0 else location_iids.setdefault(place, len(location_iids) + 1))
        interned = [_interned_names(name_iids)]
        for (caller, line), iid in location_iids.items():
            where = wire.uint(1, iid) + wire.text(2, checked.function_files[caller])
            where += wire.text(3, checked.function_names[caller]) + (wire.uint(4, line) if line >= 0 else b"")
            interned.append(wire.blob(LOCATIONS, where))
        for key, iid in (("outcome", KEY_OUTCOME), ("instance", KEY_INSTANCE), ("note", KEY_NOTE)):
            interned.append(wire.blob(KEYS, wire.uint(1, iid) + wire.text(2, key)))
        strings = {int(o): o.name.lower() for o in Outcome if o != Outcome.RETURNED}
        for flags in np.flatnonzero(noted).tolist():
            note = ", ".join(said for flag, said in NOTE_TEXTS.items() if flags & flag)
            strings[FIRST_NOTE + (flags & NOTED)] = note
        for iid, said in sorted(strings.items()):
            interned.append(wire.blob(STRINGS, wire.uint(1, iid) + wire.text(2, said)))
        return b"".join(interned), kind_of_site, np.array(names), np.array(categories), np.array(locations)

    # --- marks ---------------------------------------------------------------------------------------------------

    def _write_marks(self) -> None:
        marks = self.checked.trace.marks
        for track, rows in groups(marks["track"]):
            kinds = marks["kind"][rows]
            for kind, write_kind in (
                ("span", self._write_spans), ("instant", self._write_instants), ("counter", self._write_counters),
            ):  # fmt: skip
                if (kinds == kind).any():
                    write_kind(track, rows[kinds == kind])

    def _mark_names(self, rows: np.ndarray) -> tuple[bytes, np.ndarray]:
        iids: dict[str, int] = {}
        kinds = np.array([iids.setdefault(n, len(iids) + 1) for n in self.checked.mark_names[rows].tolist()]) - 1
        return _interned_names(iids), kinds

    def _write_spans(self, track: int, rows: np.ndarray) -> None:
        """Spans need not nest in calls, nor in one another: each lane of them that does is a sub-track."""
        marks = self.checked.trace.marks
        start = marks["start_ns"][rows]
        end = start + np.maximum(marks["duration_ns"][rows], 0)
        order = np.lexsort((-end, start))
        rows, start, end = rows[order], start[order], end[order]
        lane = lanes(start, end)
        for k in range(int(lane.max()) + 1):
            chosen = lane == k
            uuid = self._uuid("spans", track, k)
            self._track(uuid, self.track_uuids[track], "spans" if k == 0 else f"spans ({k + 1})")
            interned, kinds = self._mark_names(rows[chosen])
            sequence = self._begin_sequence(uuid, interned)
            names = np.arange(1, int(kinds.max()) + 2)
            templates = begin_templates(sequence.id, names, np.full(len(names), 4), np.zeros(len(names), dtype=int))
            depth, _ = nesting(start[chosen], end[chosen])
            keep = depth < MAX_DEPTH
            if not keep.all():
                self.losses.append(Loss("export_cut_depth", int((~keep).sum()), thread=self._thread_of(track)))
            slices = Slices(kinds[keep], start[chosen][keep], end[chosen][keep], depth[keep])
            self._emit(encode_slices(sequence, templates, in_pieces(slices)))

    def _write_instants(self, track: int, rows: np.ndarray) -> None:
        marks = self.checked.trace.marks
        rows = rows[np.argsort(marks["start_ns"][rows], kind="stable")]
        interned, kinds = self._mark_names(rows)
        sequence = self._begin_sequence(self.track_uuids[track], interned)
        names = np.arange(1, int(kinds.max()) + 2)
        templates = begin_templates(
            sequence.id, names, np.full(len(names), 4), np.zeros(len(names), dtype=int), INSTANT
        )
        self._emit(encode_points(sequence, templates[kinds], marks["start_ns"][rows]))

    def _write_counters(self, track: int, rows: np.ndarray) -> None:
        """Each name is a track of its own."""
        marks = self.checked.trace.marks
        rows = rows[np.argsort(marks["start_ns"][rows], kind="stable")]
        for _, which in groups(self._mark_names(rows)[1]):
            of_name = rows[which]
            name = self.checked.mark_names[of_name[0]]
            uuid = self._uuid("counter", track, name)
            self._track(uuid, self.track_uuids[track], name, more=wire.blob(8, b""))
            sequence = self._begin_sequence(uuid, b"")
            body = wire.uint(TYPE, COUNTER) + wire.tag(DOUBLE, wire.FIXED64) + bytes(8)
            records = np.tile(np.frombuffer(packet_template(sequence.id, body), np.uint8), (len(of_name), 1))
            records[:, -8:] = marks["value"][of_name].astype("<f8").view(np.uint8).reshape(-1, 8)
            self._emit(encode_points(sequence, records, marks["start_ns"][of_name]))

    # --- account -------------------------------------------------------------------------------------------------

    def _thread_of(self, track: int) -> int:
        return int(self.checked.trace.tracks["thread"][track])

    def _write_account(self) -> None:
        """A track that tells what was recorded and what was lost: nothing is dropped silently."""
        trace = self.checked.trace
        uuid = self._uuid("account")
        self._track(uuid, 0, "frametap")
        sequence = self._begin_sequence(uuid, b"")
        about: dict[str, str | int] = {"frametap": __version__, "calls": trace.n_calls, "losses": len(self.losses)}
        events: list[tuple[int, str, dict[str, str | int]]] = [(0, "recording", about)]
        for loss in self.losses:
            told: dict[str, str | int] = {"kind": loss.kind, "count": loss.count}
            if loss.process >= 0:
                told["process"] = self.checked.process_ids[loss.process]
            if loss.thread >= 0:
                told["thread"] = f"{self.checked.thread_names[loss.thread]} ({self.checked.thread_ids[loss.thread]})"
            if loss.last_ns >= 0:
                told |= {"first_ns": loss.first_ns, "last_ns": loss.last_ns}
            events.append((max(loss.first_ns, 0), f"loss: {self.checked.describe(loss)}", told))
        for at, name, told in sorted(events, key=lambda e: e[0]):
            body = wire.uint(TYPE, INSTANT) + wire.text(23, name)
            for key, value in told.items():
                said = wire.text(6, value) if isinstance(value, str) else wire.signed(4, value)
                body += wire.blob(ANNOTATION, wire.text(10, key) + said)
            head = wire.uint(TIMESTAMP, at - sequence.now_ns) + wire.uint(SEQUENCE, sequence.id)
            self._packet(head + wire.uint(FLAGS, NEEDS_STATE) + wire.blob(EVENT, body))
            sequence.now_ns = at


def _split_command(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # cut, or quoted by other rules
        return command.split()


def _interned_names(iids: dict[str, int]) -> bytes:
    parts = [wire.blob(NAMES, wire.uint(1, iid) + wire.text(2, name)) for name, iid in iids.items()]
    parts += [wire.blob(CATEGORIES, wire.uint(1, i) + wire.text(2, name)) for name, i in CATEGORY_IID_OF.items()]
    return b"".join(parts)
