"""A plain reader of Perfetto's TrackEvents with Perfetto's own schema (package perfetto): an oracle for the writer.

In: a file's bytes. Out: slices with their names resolved, in order of their begins per track. Follows
https://perfetto.dev/docs/reference/trace-packet-proto: state per sequence, times that count on from event to event.
Not a substitute for the trace processor: it knows only what the writer uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Slice:
    name: str
    start: int
    depth: int
    category: str
    end: int = -1
    notes: dict[str, Any] = field(default_factory=dict)
    place: tuple[str, str, int] | None = None  #: file, function and line of the call


def read(data: bytes) -> dict[int, list[Slice]]:
    """Slices by track uuid; times as on the writer's own clock, from the trace's zero."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    sequences: dict[int, dict[str, Any]] = {}
    tracks: dict[int, list[Slice]] = {}
    stacks: dict[int, list[Slice]] = {}
    for packet in Trace.FromString(data).packet:
        if packet.HasField("track_descriptor"):
            continue
        if packet.sequence_flags & 1:
            sequences[packet.trusted_packet_sequence_id] = {"now": 0, "n": {}, "c": {}, "k": {}, "s": {}, "l": {}}
        else:
            assert packet.sequence_flags & 2
        state = sequences[packet.trusted_packet_sequence_id]
        if packet.HasField("trace_packet_defaults"):
            state["track"] = packet.trace_packet_defaults.track_event_defaults.track_uuid
        interned = packet.interned_data
        state["n"] |= {one.iid: one.name for one in interned.event_names}
        state["c"] |= {one.iid: one.name for one in interned.event_categories}
        state["k"] |= {one.iid: one.name for one in interned.debug_annotation_names}
        state["s"] |= {one.iid: one.str.decode() for one in interned.debug_annotation_string_values}
        state["l"] |= {one.iid: one for one in interned.source_locations}
        if not packet.HasField("track_event"):
            continue
        state["now"] += packet.timestamp
        event, track = packet.track_event, state["track"]
        stack = stacks.setdefault(track, [])
        if event.type == TrackEvent.TYPE_SLICE_END:
            stack.pop().end = state["now"]
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            one = Slice(state["n"][event.name_iid], state["now"], len(stack), state["c"][event.category_iids[0]])
            for note in event.debug_annotations:
                value = state["s"][note.string_value_iid] if note.string_value_iid else note.uint_value
                one.notes[state["k"][note.name_iid]] = value
            if event.source_location_iid:
                place = state["l"][event.source_location_iid]
                one.place = (place.file_name, place.function_name, place.line_number)
            stack.append(one)
            tracks.setdefault(track, []).append(one)
    assert not any(stacks.values())
    return tracks
