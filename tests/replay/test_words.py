"""Each event and record by itself, in the core and in its twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frametap import _core
from frametap.replay.losses import slot_name
from frametap.table.schema import CallFlag, Outcome

PY, PY2, C, HIDDEN, HIDDEN_C, UNKNOWN = range(16, 22)
RETURNED, RAISED, YIELDED, UNFINISHED = Outcome
GUESSED, CUT = CallFlag.END_GUESSED, CallFlag.CUT


def losses(replayed: Any) -> dict[str, int]:
    return {slot_name(slot): count for slot, (count, _, _) in replayed.losses.items()}


def test_calls_get_times_parents_and_self_time(events: Any, replay_events: Any) -> None:
    events.enter(PY).enter(PY2).exit_return(5).enter(C).c_return(7).exit_raise()
    out = replay_events(events)
    assert out.calls("site", "start_ns", "duration_ns", "self_ns", "parent", "depth", "outcome") == [
        (PY, 10, 42, 30, -1, 0, RAISED),
        (PY2, 20, 5, 5, 0, 1, RETURNED),
        (C, 35, 7, 7, 0, 1, RETURNED),
    ]
    assert out.losses == {}
    assert (out.first_ns, out.last_ns) == (0, 52)


def test_equal_timestamps_keep_the_order_of_events(events: Any, replay_events: Any) -> None:
    events.enter(PY, 0).enter(PY2, 0).exit_return(0).enter(PY2, 0).exit_return(0).exit_return(0)
    assert replay_events(events).calls("parent", "duration_ns") == [(-1, 0), (0, 0), (0, 0)]


def test_arm_cuts_what_is_open(events: Any, replay_events: Any) -> None:
    events.enter(PY).arm(dt=10).enter(PY2).exit_return()
    assert replay_events(events).calls("depth", "duration_ns", "outcome", "flags") == [
        (0, 10, UNFINISHED, CUT),
        (0, 10, RETURNED, 0),
    ]


def test_disarm_cuts_every_stack(events: Any, replay_events: Any) -> None:
    events.enter(PY).switch(7).enter(PY2).disarm()
    out = replay_events(events)
    assert out.calls("duration_ns", "flags") == [(30, CUT)]
    assert out.calls("duration_ns", "flags", stack=7) == [(10, CUT)]


def test_pause_and_resume_leave_a_gap_between_two_spans(events: Any, replay_events: Any) -> None:
    events.arm().enter(PY).disarm().arm(dt=1000).before(PY).exit_return()
    assert replay_events(events).calls("start_ns", "duration_ns", "outcome", "flags") == [
        (10, 10, UNFINISHED, CUT),
        (1020, 10, RETURNED, CallFlag.BEGUN_BEFORE),
    ]


def test_end_of_input_cuts_at_the_last_tick(events: Any, replay_events: Any) -> None:
    events.enter(PY).enter(PY2).exit_return(90)
    assert replay_events(events).calls("duration_ns", "outcome", "flags") == [
        (100, UNFINISHED, CUT),
        (90, RETURNED, 0),
    ]


def test_missed_entries_are_flagged_and_counted(events: Any, replay_events: Any) -> None:
    events.missed(PY).exit_return()
    out = replay_events(events)
    assert out.calls("flags", "outcome") == [(CallFlag.START_GUESSED, RETURNED)]
    assert losses(out) == {"missed_entry": 1}


def test_gone_ends_the_innermost(events: Any, replay_events: Any) -> None:
    events.enter(PY).enter(PY2).resume(PY2).gone(2).exit_return()
    out = replay_events(events)
    assert out.calls("duration_ns", "outcome", "flags") == [
        (40, RETURNED, 0),
        (20, UNFINISHED, GUESSED),
        (10, UNFINISHED, GUESSED | CallFlag.RESUME),
    ]
    assert losses(out) == {"gone_unseen": 2}


def test_gone_more_than_is_open_is_no_crash(events: Any, replay_events: Any) -> None:
    events.enter(PY).gone(1 << 40)
    assert losses(replay_events(events)) == {"gone_unseen": 1, "unmatched_exit": 1}


def test_a_python_exit_ends_c_calls_left_open(events: Any, replay_events: Any) -> None:
    events.enter(PY).enter(C).enter(C).exit_raise()
    out = replay_events(events)
    assert out.calls("outcome", "flags") == [(RAISED, 0), (UNFINISHED, GUESSED), (UNFINISHED, GUESSED)]
    assert losses(out) == {"repaired_exit": 2}


def test_a_python_exit_without_a_python_call_leaves_c_calls_alone(events: Any, replay_events: Any) -> None:
    events.enter(C).exit_return().c_return()
    out = replay_events(events)
    assert out.calls("duration_ns", "outcome") == [(20, RETURNED)]
    assert losses(out) == {"unmatched_exit": 1}


def test_a_c_exit_does_not_end_a_python_call(events: Any, replay_events: Any) -> None:
    events.enter(PY).c_raise().exit_return()
    out = replay_events(events)
    assert out.calls("outcome", "duration_ns") == [(RETURNED, 20)]
    assert losses(out) == {"unmatched_exit": 1}


def test_an_exit_with_nothing_open_is_counted(events: Any, replay_events: Any) -> None:
    events.exit_return().exit_yield().c_return()
    out = replay_events(events)
    assert out.calls() == []
    assert out.losses == {32: (3, 10, 30)}


def test_a_yield_ends_any_python_call(events: Any, replay_events: Any) -> None:
    events.enter(PY).exit_yield()
    assert replay_events(events).calls("outcome") == [(YIELDED,)]


def test_resumes_are_flagged_and_listed(events: Any, replay_events: Any) -> None:
    events.resume(PY, 0xABC, first=True).exit_yield().before(PY, 0xABC).exit_return()
    out = replay_events(events)
    assert out.calls("site", "flags") == [
        (PY, CallFlag.RESUME | CallFlag.FIRST_RESUME),
        (PY, CallFlag.RESUME | CallFlag.BEGUN_BEFORE),
    ]
    assert out.resumes == {
        "address": [0xABC, 0xABC], "is_first": [1, 0], "time_ns": [10, 20], "site": [PY, PY], "track": [0, 0],
        "row": [0, 1],
    }  # fmt: skip


def test_hidden_frames_have_no_row_and_leave_their_time_to_the_caller(events: Any, replay_events: Any) -> None:
    events.enter(PY).enter(HIDDEN).enter(HIDDEN_C).enter(PY2).exit_return().c_return().exit_return().exit_return()
    assert replay_events(events).calls("site", "parent", "depth", "duration_ns", "self_ns") == [
        (PY, -1, 0, 70, 60),
        (PY2, 0, 1, 10, 10),
    ]


def test_calls_below_an_outermost_hidden_frame_have_no_parent(events: Any, replay_events: Any) -> None:
    events.enter(HIDDEN).enter(PY).exit_return().enter(PY).exit_return().exit_return()
    assert replay_events(events).calls("parent", "depth") == [(-1, 0), (-1, 0)]


def test_hidden_frames_left_open_are_no_loss(events: Any, replay_events: Any) -> None:
    events.enter(PY).enter(HIDDEN_C).exit_return().enter(HIDDEN).end()
    assert replay_events(events).losses == {}


def test_each_greenlet_has_its_own_open_calls(events: Any, replay_events: Any) -> None:
    events.enter(PY).switch(3).enter(PY2).switch(0).exit_return().switch(3).exit_return()
    out = replay_events(events)
    assert out.calls("site", "start_ns", "duration_ns") == [(PY, 10, 40)]
    assert out.calls("site", "start_ns", "duration_ns", stack=3) == [(PY2, 30, 40)]


def test_the_end_of_a_greenlet_ends_its_calls(events: Any, replay_events: Any) -> None:
    events.enter(PY).switch(3).enter(PY2).switch(0).stack_end(3).stack_end(99).exit_return()
    out = replay_events(events)
    assert out.calls("outcome") == [(RETURNED,)]
    assert out.calls("outcome", "flags", stack=3) == [(UNFINISHED, GUESSED)]
    assert losses(out) == {"gone_unseen": 1}


def test_the_end_of_a_thread_ends_its_calls(events: Any, replay_events: Any) -> None:
    events.enter(PY).end()
    out = replay_events(events)
    assert out.calls("duration_ns", "outcome", "flags") == [(10, UNFINISHED, GUESSED)]
    assert losses(out) == {"gone_unseen": 1}


def test_missing_segments_end_what_was_open(replay: Any) -> None:
    enter, leave = 10 << 32 | PY, 10 << 32 | 1
    out = replay([(0, [enter]), 500, (500, [leave])])
    assert out.calls("duration_ns", "flags") == [(490, GUESSED)]
    assert losses(out) == {"gone_unseen": 1, "unmatched_exit": 1}


def test_unknown_sites_get_a_row_and_either_exit_ends_them(events: Any, replay_events: Any) -> None:
    events.enter(UNKNOWN).c_return().enter(0x7FFFFFFF).exit_return().enter(UNKNOWN).exit_return()
    out = replay_events(events)
    assert out.calls("site", "outcome") == [(UNKNOWN, RETURNED), (0x7FFFFFFF, RETURNED), (UNKNOWN, RETURNED)]
    assert losses(out) == {"unknown_site": 3}


def test_unknown_records_and_controls_are_passed_over(events: Any, replay_events: Any) -> None:
    events.enter(PY).record(200, 1, 2, 3).event(9).record("gap_begin", 77).record("span_begin", 1).exit_return()
    out = replay_events(events)
    assert out.calls("duration_ns", "outcome") == [(50, RETURNED)]
    assert losses(out) == {"damaged_capture": 4}


@pytest.mark.parametrize("cut", [[6], [7], [7, 3 << 8 | 12, 0], [PY | 1 << 31], [7, 1 << 60 | 3]])
def test_a_cut_event_is_counted_once(replay: Any, cut: list[int]) -> None:
    assert losses(replay([(0, cut), (10, [PY, 1])]))["damaged_capture"] == 1


def test_nothing_is_read_from_the_first_zero_word(replay: Any) -> None:
    assert replay([(0, [PY, 1, 0, 0])]).losses == {}
    behind = replay([(0, [PY, 1, 0, PY])])
    assert len(behind.tracks[0]) == 1
    assert losses(behind) == {"damaged_capture": 1}


def test_marks_keep_their_stack_and_time(events: Any, replay_events: Any) -> None:
    events.span_begin(4, 77).switch(2).span_end(77).instant(5).counter(6, 1.5)
    assert replay_events(events).marks == {
        "kind": [0, 1, 2, 3],
        "track": [0, 1, 1, 1],
        "time_ns": [10, 30, 40, 50],
        "name": [4, 0, 5, 6],
        "value": [77, 77, 0, 0x3FF8000000000000],
    }


def test_losses_told_have_a_range(events: Any, replay_events: Any) -> None:
    events.gap_begin("hook_displaced").gap_end("hook_displaced", 70).lost(9).spurious().gap_begin("deep_stack")
    out = replay_events(events.instant(1))
    assert out.losses == {0: (9, 90, 90), 1: (1, 10, 80), 2: (1, 110, 120), 3: (1, 100, 100)}


def test_a_million_calls_deep() -> None:
    n = 1_000_000
    words = np.concatenate([np.full(n, 1 << 32 | PY), np.full(n, 1 << 32 | 1)]).astype(np.uint64)
    replayer = _core.Replayer(np.full(32, 1, np.uint8), np.zeros(1, np.uint64), np.zeros(1, np.int64), 1.0)
    replayer.feed(words, 0)
    ((_, calls),) = replayer.tracks()
    assert calls["depth"][-1] == n - 1
    assert (calls["parent"] == np.arange(-1, n - 1)).all()
    assert (calls["duration_ns"] == np.arange(2 * n - 1, 0, -2)).all()
    assert (calls["self_ns"][:-1] == 2).all()


def test_a_finished_replayer_takes_no_more() -> None:
    replayer = _core.Replayer(np.zeros(0, np.uint8), np.zeros(0, np.uint64), np.zeros(0, np.int64), 1.0)
    replayer.finish()
    with pytest.raises(ValueError, match="finished"):
        replayer.feed(np.zeros(1, np.uint64), 0)
