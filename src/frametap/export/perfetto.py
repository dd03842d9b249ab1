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
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np

from ..table import Trace
from ..table.schema import CallFlag, Outcome
from ..version import __version__
from . import wire
from .check import MAX_DEPTH, PIECE, Checked, Loss, Stack, check, cut, groups
from .lanes import lanes, nesting

# Field numbers, by message.
_PACKET = 1  # Trace
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS = 8, 10, 11, 12, 13  # TracePacket
_CLOCKS, _CLOCK_ID, _DEFAULTS, _TRACK = 6, 58, 59, 60
_TYPE, _NAME_IID, _CATEGORY_IID, _ANNOTATION = 9, 10, 3, 4  # TrackEvent
_TRACK_UUID, _LOCATION_IID, _DOUBLE = 11, 34, 44
_CATEGORIES, _NAMES, _KEYS, _LOCATIONS, _STRINGS = 1, 2, 3, 4, 29  # InternedData
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # TrackEvent.Type
_CLEARED, _NEEDS_STATE = 1, 2  # TracePacket.SequenceFlags
_REALTIME, _MONOTONIC, _OWN_CLOCK = 1, 3, 64  # clock ids; from 64 on a sequence's own

_CATEGORY_IID_OF = {"python": 1, "c": 2, "gc": 3, "mark": 4}
_KEY_OUTCOME, _KEY_INSTANCE, _KEY_NOTE = 1, 2, 3
_NOTED = CallFlag.BEGUN_BEFORE | CallFlag.START_GUESSED | CallFlag.END_GUESSED | CallFlag.CUT
_NOTE_TEXTS = {
    CallFlag.BEGUN_BEFORE: "begun before the recording",
    CallFlag.START_GUESSED: "start guessed",
    CallFlag.END_GUESSED: "end guessed",
    CallFlag.CUT: "cut when recording ended",
}
_FIRST_NOTE = 8  # string ids below are the outcomes'

#: Times are written as the step since the event before: short below 2 ms, else long.
_SHORT, _LONG = 3, 9
_SHORT_END = 1 << (7 * _SHORT)


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
class _Sequence:
    """One packet sequence: its id, the track that its events are on, and the time of the last one."""

    id: int
    track_uuid: int
    now_ns: int = 0

    @property
    def event_length_at(self) -> int:
        """Where in a record with a short time the length of the event is."""
        return _TIME_AT + _SHORT + len(wire.uint(_SEQUENCE, self.id) + wire.uint(_FLAGS, _NEEDS_STATE)) + 1


@dataclass(frozen=True)
class _Slices:
    """Slices to write: nested, in preorder. ``kinds`` are rows of the templates."""

    kind: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    depth: np.ndarray
    outcome: np.ndarray | None = None
    flags: np.ndarray | None = None
    instance: np.ndarray | None = None


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
        self.out.write(wire.blob(_PACKET, payload))

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
        self._packet(wire.blob(_TRACK, payload + wire.uint(15, 2) + more))

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

    def _begin_sequence(self, track_uuid: int, interned: bytes) -> _Sequence:
        """Open a sequence whose clock starts at the trace's zero."""
        sequence = _Sequence(self.next_sequence, track_uuid, self.zero_ns)
        self.next_sequence += 1
        trace = self.checked.trace
        monotonic = trace.meta.get("start_monotonic_ns")
        clocks = wire.blob(1, wire.uint(1, _OWN_CLOCK) + wire.uint(2, 0) + wire.uint(3, 1))
        clocks += wire.blob(1, wire.uint(1, _REALTIME) + wire.uint(2, trace.start_wall_ns + self.zero_ns))
        if monotonic is not None:
            clocks += wire.blob(1, wire.uint(1, _MONOTONIC) + wire.uint(2, int(monotonic) + self.zero_ns))
        clocks += wire.uint(2, _REALTIME if monotonic is None else _MONOTONIC)
        defaults = wire.uint(_CLOCK_ID, _OWN_CLOCK) + wire.blob(_EVENT, wire.uint(_TRACK_UUID, track_uuid))
        head = wire.uint(_SEQUENCE, sequence.id)
        self._packet(head + wire.uint(_FLAGS, _CLEARED) + wire.blob(_DEFAULTS, defaults) + wire.blob(_CLOCKS, clocks))
        self._packet(head + wire.uint(_FLAGS, _NEEDS_STATE) + wire.blob(_INTERNED, interned))
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
        templates = _begin_templates(sequence.id, names, categories, locations)

        def pieces() -> Iterator[_Slices]:
            for piece in stack.pieces():
                rows = slice(None) if keep is None else keep[piece]
                start = stack.start_ns[piece][rows]
                yield _Slices(
                    kind_of_site[stack.site[piece][rows]], start, start + stack.duration_ns[piece][rows],
                    stack.depth[piece][rows], stack.outcome[piece][rows], stack.flags[piece][rows],
                    stack.instance[piece][rows],
                )  # fmt: skip

        self._write_slices(sequence, templates, pieces())

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
            categories.append(_CATEGORY_IID_OF.get(str(trace.functions["kind"][function]), 1))
            place = (caller, line)
            locations.append(0 if caller < 0 else location_iids.setdefault(place, len(location_iids) + 1))
        interned = [_interned_names(name_iids)]
        for (caller, line), iid in location_iids.items():
            where = wire.uint(1, iid) + wire.text(2, checked.function_files[caller])
            where += wire.text(3, checked.function_names[caller]) + (wire.uint(4, line) if line >= 0 else b"")
            interned.append(wire.blob(_LOCATIONS, where))
        for key, iid in (("outcome", _KEY_OUTCOME), ("instance", _KEY_INSTANCE), ("note", _KEY_NOTE)):
            interned.append(wire.blob(_KEYS, wire.uint(1, iid) + wire.text(2, key)))
        strings = {int(o): o.name.lower() for o in Outcome if o != Outcome.RETURNED}
        for flags in np.flatnonzero(noted).tolist():
            note = ", ".join(said for flag, said in _NOTE_TEXTS.items() if flags & flag)
            strings[_FIRST_NOTE + (flags & _NOTED)] = note
        for iid, said in sorted(strings.items()):
            interned.append(wire.blob(_STRINGS, wire.uint(1, iid) + wire.text(2, said)))
        return b"".join(interned), kind_of_site, np.array(names), np.array(categories), np.array(locations)

    def _write_slices(self, sequence: _Sequence, templates: np.ndarray, pieces: Iterator[_Slices]) -> None:
        """Write BEGIN and END events. Between pieces only the end times of the open slices are carried."""
        open_ends = np.empty(0, dtype=np.int64)
        for piece in pieces:
            n = len(piece.start_ns)
            if not n:
                continue
            begins = 2 * np.arange(n) - piece.depth.astype(np.int64) + len(open_ends)
            ends = np.sort(np.concatenate((open_ends, piece.end_ns)))
            n_events = int(begins[-1]) + 1
            times = np.empty(n_events, dtype=np.int64)
            is_end = np.ones(n_events, dtype=bool)
            is_end[begins] = False
            times[begins] = piece.start_ns
            times[is_end] = ends[: n_events - n]
            open_ends = ends[n_events - n :]
            self._write_events(sequence, templates, piece, begins, np.flatnonzero(is_end), times)
        none = np.empty(0, dtype=np.int64)
        for first in range(0, len(open_ends), PIECE):
            ends = open_ends[first : first + PIECE]
            self._write_events(sequence, templates, _Slices(none, none, none, none), none, np.arange(len(ends)), ends)

    def _write_events(
        self,
        sequence: _Sequence,
        templates: np.ndarray,
        slices: _Slices,
        begins: np.ndarray,
        ends: np.ndarray,
        times: np.ndarray,
    ) -> None:
        steps = np.diff(times, prepend=sequence.now_ns)
        sequence.now_ns = int(times[-1])
        is_long = steps >= _SHORT_END
        any_long = bool(is_long.any())
        extras = _extras(slices)
        end_template = _packet_template(sequence.id, wire.uint(_TYPE, _END))
        width = np.full(len(times), len(end_template), dtype=np.int64)
        width[begins] = templates.shape[1] + (0 if extras is None else _EXTRA_BYTES[extras])
        if any_long:
            width[is_long] += _LONG - _SHORT
        offsets = np.cumsum(width)
        out = np.empty(int(offsets[-1]), dtype=np.uint8)
        offsets -= width
        for long in (False, True) if any_long else (False,):
            chosen = ends[is_long[ends] == long] if any_long else ends
            records = np.empty((len(chosen), len(end_template)), dtype=np.uint8)
            records[:] = np.frombuffer(end_template, np.uint8)
            _place(out, offsets[chosen], records, steps[chosen], long)
            for extra in (0,) if extras is None else np.flatnonzero(np.bincount(extras)).tolist():
                which = None if extras is None and not any_long else np.ones(len(begins), dtype=bool)
                if which is not None:
                    which = (is_long[begins] == long) & (extras == extra if extras is not None else True)
                    which = np.flatnonzero(which)
                at = begins if which is None else begins[which]
                records = wire.take(templates, slices.kind if which is None else slices.kind[which])
                if extra:
                    assert which is not None
                    records = _with_extra(records, sequence.event_length_at, extra, slices, which)
                _place(out, offsets[at], records, steps[at], long)
        self.out.write(out.data)

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
            templates = _begin_templates(sequence.id, names, np.full(len(names), 4), np.zeros(len(names), dtype=int))
            depth, _ = nesting(start[chosen], end[chosen])
            keep = depth < MAX_DEPTH
            if not keep.all():
                self.losses.append(Loss("export_cut_depth", int((~keep).sum()), thread=self._thread_of(track)))
            slices = _Slices(kinds[keep], start[chosen][keep], end[chosen][keep], depth[keep])
            self._write_slices(sequence, templates, _pieces(slices))

    def _write_instants(self, track: int, rows: np.ndarray) -> None:
        marks = self.checked.trace.marks
        rows = rows[np.argsort(marks["start_ns"][rows], kind="stable")]
        interned, kinds = self._mark_names(rows)
        sequence = self._begin_sequence(self.track_uuids[track], interned)
        names = np.arange(1, int(kinds.max()) + 2)
        templates = _begin_templates(
            sequence.id, names, np.full(len(names), 4), np.zeros(len(names), dtype=int), _INSTANT
        )
        self._write_points(sequence, templates[kinds], marks["start_ns"][rows])

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
            body = wire.uint(_TYPE, _COUNTER) + wire.tag(_DOUBLE, wire.FIXED64) + bytes(8)
            records = np.tile(np.frombuffer(_packet_template(sequence.id, body), np.uint8), (len(of_name), 1))
            records[:, -8:] = marks["value"][of_name].astype("<f8").view(np.uint8).reshape(-1, 8)
            self._write_points(sequence, records, marks["start_ns"][of_name])

    def _write_points(self, sequence: _Sequence, records: np.ndarray, times: np.ndarray) -> None:
        """Write events without duration, in time order; times long throughout, as marks are few."""
        steps = np.diff(times, prepend=sequence.now_ns)
        for first in range(0, len(records), PIECE):
            piece = slice(first, first + PIECE)
            records_here = _long(records[piece])
            wire.put_padded(records_here[:, _TIME_AT : _TIME_AT + _LONG], steps[piece])
            self.out.write(records_here.tobytes())

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
            body = wire.uint(_TYPE, _INSTANT) + wire.text(23, name)
            for key, value in told.items():
                said = wire.text(6, value) if isinstance(value, str) else wire.signed(4, value)
                body += wire.blob(_ANNOTATION, wire.text(10, key) + said)
            head = wire.uint(_TIMESTAMP, at - sequence.now_ns) + wire.uint(_SEQUENCE, sequence.id)
            self._packet(head + wire.uint(_FLAGS, _NEEDS_STATE) + wire.blob(_EVENT, body))
            sequence.now_ns = at


# --- records -----------------------------------------------------------------------------------------------------
# A record is a whole packet: tag and length, then the timestamp, at the same place in each.

_TIME_AT = 3
_OUTCOME_BYTES = wire.blob(_ANNOTATION, wire.uint(1, _KEY_OUTCOME) + wire.uint(17, 0))
_INSTANCE_BYTES = wire.blob(_ANNOTATION, wire.uint(1, _KEY_INSTANCE) + wire.tag(3, wire.VARINT) + bytes(5))
_NOTE_BYTES = wire.blob(_ANNOTATION, wire.uint(1, _KEY_NOTE) + wire.uint(17, 0))
_OUTCOME, _INSTANCE, _NOTE = 1, 2, 4
_EXTRA_BYTES = np.array(
    [
        (len(_OUTCOME_BYTES) if bits & _OUTCOME else 0)
        + (len(_INSTANCE_BYTES) if bits & _INSTANCE else 0)
        + (len(_NOTE_BYTES) if bits & _NOTE else 0)
        for bits in range(8)
    ]
)


def _packet_template(sequence: int, event: bytes) -> bytes:
    """A packet with a short time of zero."""
    payload = wire.tag(_TIMESTAMP, wire.VARINT) + b"\x80" * (_SHORT - 1) + b"\0"
    payload += wire.uint(_SEQUENCE, sequence) + wire.uint(_FLAGS, _NEEDS_STATE)
    payload += wire.tag(_EVENT, wire.LENGTH) + bytes([len(event)]) + event
    length = len(payload)
    # One byte of length must do: the longest is a long BEGIN with all extras.
    assert length + _LONG - _SHORT + int(_EXTRA_BYTES[-1]) < 0x80
    return wire.tag(_PACKET, wire.LENGTH) + bytes([length]) + payload


def _begin_templates(
    sequence: int, names: np.ndarray, categories: np.ndarray, locations: np.ndarray, event_type: int = _BEGIN
) -> np.ndarray:
    """One record per kind of slice, shape (kinds, width). A location of 0 means none."""
    body = wire.uint(_TYPE, event_type)
    columns = []
    for field_number, iids in ((_NAME_IID, names), (_CATEGORY_IID, categories), (_LOCATION_IID, locations)):
        if iids.any():
            body += wire.tag(field_number, wire.VARINT)
            columns.append((len(body), wire.padded_width(int(iids.max())), iids))
            body += bytes(columns[-1][1])
    template = _packet_template(sequence, body)
    base = len(template) - len(body)
    records = np.tile(np.frombuffer(template, np.uint8), (len(names), 1))
    for at, width, iids in columns:
        wire.put_padded(records[:, base + at : base + at + width], iids)
    if locations.any() and not locations.all():
        # All records are of one width, so one without location says its name again, in the same place.
        at = base + columns[-1][0] - len(wire.tag(_LOCATION_IID, wire.VARINT))
        name_tag = wire.tag(_NAME_IID, wire.VARINT)
        again = np.empty((int((locations == 0).sum()), records.shape[1] - at), dtype=np.uint8)
        again[:, : len(name_tag)] = np.frombuffer(name_tag, np.uint8)
        wire.put_padded(again[:, len(name_tag) :], names[locations == 0])
        records[locations == 0, at:] = again
    return records


def _extras(slices: _Slices) -> np.ndarray | None:
    """Per slice, which annotations it has; None where none has any."""
    if slices.outcome is None or slices.flags is None or slices.instance is None:
        return None
    noted = slices.flags & int(_NOTED)
    if not (slices.outcome.any() or slices.instance.any() or noted.any()):
        return None
    extras: np.ndarray = _OUTCOME * (slices.outcome != 0) + _INSTANCE * (slices.instance != 0) + _NOTE * (noted != 0)
    return extras


def _with_extra(
    records: np.ndarray, event_length_at: int, extra: int, slices: _Slices, which: np.ndarray
) -> np.ndarray:
    """The records with annotations after the event's other fields, which are the packet's last."""
    assert slices.outcome is not None and slices.flags is not None and slices.instance is not None
    tail = b""
    at = {}
    for bit, said in ((_OUTCOME, _OUTCOME_BYTES), (_INSTANCE, _INSTANCE_BYTES), (_NOTE, _NOTE_BYTES)):
        if extra & bit:
            tail += said
            at[bit] = len(tail)
    base = records.shape[1]
    longer = np.empty((len(records), base + len(tail)), dtype=np.uint8)
    longer[:, :base] = records
    longer[:, base:] = np.frombuffer(tail, np.uint8)
    longer[:, 1] += len(tail)
    longer[:, event_length_at] += len(tail)
    if extra & _OUTCOME:
        longer[:, base + at[_OUTCOME] - 1] = slices.outcome[which]
    if extra & _INSTANCE:
        last = base + at[_INSTANCE]
        wire.put_padded(longer[:, last - 5 : last], slices.instance[which].astype(np.int64))
    if extra & _NOTE:
        longer[:, base + at[_NOTE] - 1] = _FIRST_NOTE + (slices.flags[which] & int(_NOTED))
    return longer


def _long(records: np.ndarray) -> np.ndarray:
    """The records with room for long times."""
    more = _LONG - _SHORT
    longer = np.empty((len(records), records.shape[1] + more), dtype=np.uint8)
    longer[:, :_TIME_AT] = records[:, :_TIME_AT]
    longer[:, 1] += more
    longer[:, _TIME_AT + _LONG :] = records[:, _TIME_AT + _SHORT :]
    return longer


def _place(out: np.ndarray, offsets: np.ndarray, records: np.ndarray, steps: np.ndarray, long: bool) -> None:
    """Set the records' times and copy them to their places; the records are the caller's no more."""
    if not len(records):
        return
    if long:
        records = _long(records)
    wire.put_padded(records[:, _TIME_AT : _TIME_AT + (_LONG if long else _SHORT)], steps)
    wire.scatter(out, offsets, records)


def _split_command(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # cut, or quoted by other rules
        return command.split()


def _interned_names(iids: dict[str, int]) -> bytes:
    parts = [wire.blob(_NAMES, wire.uint(1, iid) + wire.text(2, name)) for name, iid in iids.items()]
    parts += [wire.blob(_CATEGORIES, wire.uint(1, i) + wire.text(2, name)) for name, i in _CATEGORY_IID_OF.items()]
    return b"".join(parts)


def _pieces(slices: _Slices) -> Iterator[_Slices]:
    for first in range(0, len(slices.kind), PIECE):
        p = slice(first, first + PIECE)
        yield _Slices(slices.kind[p], slices.start_ns[p], slices.end_ns[p], slices.depth[p])
