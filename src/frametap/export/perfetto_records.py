"""Perfetto's events as bytes: the fast half of the Perfetto writer.

In: slices, nested and in preorder, and one template per kind of slice. Out: packets. Invariant: begins and ends are
in time order, each END closing the slice that was begun last; a packet's bytes are complete and of one sequence.

A record is a whole packet: tag and length, then the time, at the same place in each, then sequence, flags and at last
the event. Records of one width are made and placed together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ..table.schema import CallFlag
from . import wire
from .check import PIECE

# Field numbers, by message.
PACKET = 1  # Trace
TIMESTAMP, SEQUENCE, EVENT, INTERNED, FLAGS = 8, 10, 11, 12, 13  # TracePacket
CLOCKS, CLOCK_ID, DEFAULTS, TRACK = 6, 58, 59, 60
TYPE, _NAME_IID, _CATEGORY_IID, ANNOTATION = 9, 10, 3, 4  # TrackEvent
TRACK_UUID, _LOCATION_IID, DOUBLE = 11, 34, 44
CATEGORIES, NAMES, KEYS, LOCATIONS, STRINGS = 1, 2, 3, 4, 29  # InternedData
_BEGIN, _END, INSTANT, COUNTER = 1, 2, 3, 4  # TrackEvent.Type
CLEARED, NEEDS_STATE = 1, 2  # TracePacket.SequenceFlags
REALTIME, MONOTONIC, OWN_CLOCK = 1, 3, 64  # clock ids; from 64 on a sequence's own

CATEGORY_IID_OF = {"python": 1, "c": 2, "gc": 3, "mark": 4}
KEY_OUTCOME, KEY_INSTANCE, KEY_NOTE = 1, 2, 3
NOTED = CallFlag.BEGUN_BEFORE | CallFlag.START_GUESSED | CallFlag.END_GUESSED | CallFlag.CUT
NOTE_TEXTS = {
    CallFlag.BEGUN_BEFORE: "begun before the recording",
    CallFlag.START_GUESSED: "start guessed",
    CallFlag.END_GUESSED: "end guessed",
    CallFlag.CUT: "cut when recording ended",
}
FIRST_NOTE = 8  # string ids below are the outcomes'

#: Times are written as the step since the event before: short below 2 ms, else long.
_SHORT, _LONG = 3, 9
_SHORT_END = 1 << (7 * _SHORT)


@dataclass
class Sequence:
    """One packet sequence: its id, the track that its events are on, and the time of the last one."""

    id: int
    track_uuid: int
    now_ns: int = 0

    @property
    def event_length_at(self) -> int:
        """Where in a record with a short time the length of the event is."""
        return _TIME_AT + _SHORT + len(wire.uint(SEQUENCE, self.id) + wire.uint(FLAGS, NEEDS_STATE)) + 1


@dataclass(frozen=True)
class Slices:
    """Slices to write: nested, in preorder. ``kinds`` are rows of the templates."""

    kind: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    depth: np.ndarray
    outcome: np.ndarray | None = None
    flags: np.ndarray | None = None
    instance: np.ndarray | None = None


def encode_slices(sequence: Sequence, templates: np.ndarray, pieces: Iterable[Slices]) -> Iterator[bytes]:
    """BEGIN and END events, piece by piece. Between pieces only the end times of the open slices are carried."""
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
        yield _encode_events(sequence, templates, piece, begins, np.flatnonzero(is_end), times)
    none = np.empty(0, dtype=np.int64)
    for first in range(0, len(open_ends), PIECE):
        ends = open_ends[first : first + PIECE]
        yield _encode_events(sequence, templates, Slices(none, none, none, none), none, np.arange(len(ends)), ends)


def _encode_events(
    sequence: Sequence,
    templates: np.ndarray,
    slices: Slices,
    begins: np.ndarray,
    ends: np.ndarray,
    times: np.ndarray,
) -> bytes:
    steps = np.diff(times, prepend=sequence.now_ns)
    sequence.now_ns = int(times[-1])
    is_long = steps >= _SHORT_END
    any_long = bool(is_long.any())
    extras = _extras(slices)
    end_template = packet_template(sequence.id, wire.uint(TYPE, _END))
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
    return out.tobytes()


def encode_points(sequence: Sequence, records: np.ndarray, times: np.ndarray) -> Iterator[bytes]:
    """Events without duration, in time order; times long throughout, as marks are few."""
    steps = np.diff(times, prepend=sequence.now_ns)
    for first in range(0, len(records), PIECE):
        piece = slice(first, first + PIECE)
        records_here = _long(records[piece])
        wire.put_padded(records_here[:, _TIME_AT : _TIME_AT + _LONG], steps[piece])
        yield records_here.tobytes()


# --- records -----------------------------------------------------------------------------------------------------
# A record is a whole packet: tag and length, then the timestamp, at the same place in each.

_TIME_AT = 3
_OUTCOME_BYTES = wire.blob(ANNOTATION, wire.uint(1, KEY_OUTCOME) + wire.uint(17, 0))
_INSTANCE_BYTES = wire.blob(ANNOTATION, wire.uint(1, KEY_INSTANCE) + wire.tag(3, wire.VARINT) + bytes(5))
_NOTE_BYTES = wire.blob(ANNOTATION, wire.uint(1, KEY_NOTE) + wire.uint(17, 0))
_OUTCOME, _INSTANCE, _NOTE = 1, 2, 4
_EXTRA_BYTES = np.array(
    [
        (len(_OUTCOME_BYTES) if bits & _OUTCOME else 0)
        + (len(_INSTANCE_BYTES) if bits & _INSTANCE else 0)
        + (len(_NOTE_BYTES) if bits & _NOTE else 0)
        for bits in range(8)
    ]
)


def packet_template(sequence: int, event: bytes) -> bytes:
    """A packet with a short time of zero."""
    payload = wire.tag(TIMESTAMP, wire.VARINT) + b"\x80" * (_SHORT - 1) + b"\0"
    payload += wire.uint(SEQUENCE, sequence) + wire.uint(FLAGS, NEEDS_STATE)
    payload += wire.tag(EVENT, wire.LENGTH) + bytes([len(event)]) + event
    length = len(payload)
    # One byte of length must do: the longest is a long BEGIN with all extras.
    assert length + _LONG - _SHORT + int(_EXTRA_BYTES[-1]) < 0x80
    return wire.tag(PACKET, wire.LENGTH) + bytes([length]) + payload


def begin_templates(
    sequence: int, names: np.ndarray, categories: np.ndarray, locations: np.ndarray, event_type: int = _BEGIN
) -> np.ndarray:
    """One record per kind of slice, shape (kinds, width). A location of 0 means none."""
    body = wire.uint(TYPE, event_type)
    columns = []
    for field_number, iids in ((_NAME_IID, names), (_CATEGORY_IID, categories), (_LOCATION_IID, locations)):
        if iids.any():
            body += wire.tag(field_number, wire.VARINT)
            columns.append((len(body), wire.padded_width(int(iids.max())), iids))
            body += bytes(columns[-1][1])
    template = packet_template(sequence, body)
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


def _extras(slices: Slices) -> np.ndarray | None:
    """Per slice, which annotations it has; None where none has any."""
    if slices.outcome is None or slices.flags is None or slices.instance is None:
        return None
    noted = slices.flags & int(NOTED)
    if not (slices.outcome.any() or slices.instance.any() or noted.any()):
        return None
    extras: np.ndarray = _OUTCOME * (slices.outcome != 0) + _INSTANCE * (slices.instance != 0) + _NOTE * (noted != 0)
    return extras


def _with_extra(records: np.ndarray, event_length_at: int, extra: int, slices: Slices, which: np.ndarray) -> np.ndarray:
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
        longer[:, base + at[_NOTE] - 1] = FIRST_NOTE + (slices.flags[which] & int(NOTED))
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


def in_pieces(slices: Slices) -> Iterator[Slices]:
    for first in range(0, len(slices.kind), PIECE):
        p = slice(first, first + PIECE)
        yield Slices(slices.kind[p], slices.start_ns[p], slices.end_ns[p], slices.depth[p])
