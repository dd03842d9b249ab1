"""Whatever the words are: core and twin agree, and spans nest (`replay` in conftest.py checks both)."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

PY, PY2, C, HIDDEN, HIDDEN_C, UNKNOWN = range(16, 22)
RESUME_BIT = 1 << 31

u64 = st.integers(0, (1 << 64) - 1)
delta = st.sampled_from([0, 0, 1, 7, 1000, (1 << 32) - 1])
site = st.sampled_from([PY, PY2, C, HIDDEN, HIDDEN_C, UNKNOWN])
address = st.integers(1, 3)
serial = st.integers(1, 3)


def _event(ids: st.SearchStrategy[int], *payload: st.SearchStrategy[int]) -> st.SearchStrategy[list[int]]:
    return st.tuples(delta, ids, *payload).map(lambda t: [t[0] << 32 | t[1], *t[2:]])


def _record(kind: int, arg: st.SearchStrategy[int], *payload: st.SearchStrategy[int]) -> st.SearchStrategy[list[int]]:
    head = arg.map(lambda a: a << 16 | len(payload) << 8 | kind)
    return _event(st.just(7), head, *payload)


none = st.just(0)
resume_payload = st.tuples(address, st.booleans()).map(lambda t: t[0] << 1 | t[1])
event = st.one_of(
    _event(site),
    _event(site),
    _event(site.map(lambda s: s | RESUME_BIT), resume_payload),
    _event(st.integers(1, 5)),
    _event(st.integers(1, 5)),
    _event(st.just(6), st.integers(0, 20_000)),
    st.one_of(_record(1, none), _record(2, none), _record(8, none)),
    st.one_of(_record(3, site), _record(4, site), _record(3, site.map(lambda s: s | RESUME_BIT), resume_payload)),
    _record(5, st.integers(0, 4)),
    st.one_of(_record(6, st.integers(0, 2)), _record(7, st.integers(0, 2))),
    st.one_of(_record(9, st.integers(1, 2), serial), _record(10, none, serial), _record(12, none, u64)),
    st.one_of([_record(kind, st.integers(0, 3)) for kind in (11, 13, 14, 15, 16)]),
)
garbage = st.one_of(
    u64.map(lambda w: [w]),
    st.tuples(delta, st.integers(0, 24)).map(lambda t: [t[0] << 32 | t[1]]),
    st.tuples(st.integers(0, 300), st.integers(0, 5), st.integers(0, 20)).map(
        lambda t: [7, t[0] << 16 | t[1] << 8 | t[2]]
    ),
)


def _segments(events: st.SearchStrategy[list[int]]) -> st.SearchStrategy[list[Any]]:
    words = st.lists(events, max_size=60).map(lambda lists: [w for words in lists for w in words])
    segment = st.tuples(st.integers(0, 10_000), words)
    return st.lists(st.one_of(segment, segment, segment, st.integers(0, 10_000)), max_size=4)


clocks = st.sampled_from(
    [([0], [0], 1.0), ([100, 5000], [3, 1700], 0.3), ([0, 10, 4000], [0, 9999, 10_000], 41.6), ([], [], 0.0)]
)


@settings(max_examples=300, deadline=None)
@given(segments=_segments(event), clock=clocks)
def test_events_of_a_recorder_gone_wrong(replay: Any, segments: list[Any], clock: Any) -> None:
    replay(segments, clock=clock)


@settings(max_examples=300, deadline=None)
@given(segments=_segments(st.one_of(event, garbage)), clock=clocks)
def test_words_of_a_damaged_capture(replay: Any, segments: list[Any], clock: Any) -> None:
    replay(segments, clock=clock)


@settings(max_examples=200, deadline=None)
@given(segments=_segments(event), cut=st.integers(0, 200))
def test_a_killed_thread_leaves_what_an_unkilled_one_has(replay: Any, segments: list[Any], cut: int) -> None:
    """Cutting the words anywhere changes no call that had ended before."""
    words = [w for s in segments if not isinstance(s, int) for w in s[1]]
    whole = replay([(0, words)])
    part = replay([(0, words[:cut])])
    for stack, calls in part.tracks.items():
        for row, call in enumerate(calls):
            if not call["flags"] & 8:
                assert {**whole.tracks[stack][row]} == call
