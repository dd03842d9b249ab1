"""Ticks to nanoseconds, and clocks that are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from frametap import _core
from frametap.replay import Knots
from frametap.store import Clock, ClockPair

PY = 16
CALL = [100 << 32 | PY, 50 << 32 | 1]
BACKWARDS = 35


def test_time_runs_evenly_between_knots(replay: Any) -> None:
    out = replay([(0, CALL), (1000, CALL), (3000, CALL)], clock=([0, 1000, 2000], [0, 500, 3500], 10.0))
    assert out.calls("start_ns", "duration_ns") == [(50, 25), (800, 150), (14500, 500)]


def test_ticks_before_the_clock_began_are_held_there(replay: Any) -> None:
    out = replay([(10, CALL)], clock=([1000], [70], 1.0))
    assert out.calls("start_ns", "duration_ns") == [(70, 0)]
    assert out.losses[BACKWARDS][0] == 1


def test_a_clock_that_runs_back_is_held_until_it_has_caught_up(replay: Any) -> None:
    out = replay([(1000, [PY]), (900, [50 << 32 | 1, 100 << 32 | PY, 7 << 32 | 1])])
    assert out.calls("start_ns", "duration_ns") == [(1000, 0), (1050, 7)]
    assert out.losses == {BACKWARDS: (1, 1000, 1000)}


def test_a_sync_gives_the_full_tick(replay: Any) -> None:
    out = replay([(0, [PY, 6, 1 << 40, 5 << 32 | 1])])
    assert out.calls("duration_ns") == [((1 << 40) + 5,)]


def test_the_last_tick_there_is_does_not_wrap(replay: Any) -> None:
    out = replay([(0, [PY, 6, (1 << 64) - 1, 100 << 32 | PY])], clock=([0], [0], 1e9))
    assert out.calls("start_ns", "duration_ns") == [(0, 1 << 62), (1 << 62, 0)]
    assert out.losses[BACKWARDS][0] == 1


def test_knots_out_of_order_are_left_out(replay: Any) -> None:
    out = replay([(0, CALL)], clock=([0, 50, 50, 40, 100], [0, 50, 90, 60, 20], 2.0))
    assert out.calls("start_ns", "duration_ns") == [(150, 100)]


def test_a_clock_over_the_whole_range_gives_no_negative_duration(replay: Any) -> None:
    """2^62 less -2^62 once overflowed: found by fuzzing."""
    out = replay([(0, [PY]), (100, [1])], clock=([0, 100], [-(1 << 62), 1 << 62], 1.0))
    assert out.calls("start_ns", "duration_ns") == [(0, 1 << 62)]


def test_no_clock_at_all_gives_calls_without_duration(replay: Any) -> None:
    assert replay([(0, CALL)], clock=([], [], float("nan"))).calls("duration_ns") == [(0,)]


def test_the_core_reads_the_clock_as_the_store_does() -> None:
    pairs = [ClockPair(10_000, 5_000_000, 0), ClockPair(3_000_010_000, 1_005_000_777, 0)]
    clock = Clock.of("tsc", pairs[0], pairs[1], 2.9, [ClockPair(2_000_000_000, 670_000_000, 0)])
    knots = Knots.of(clock, 5_000_000)
    replayer = _core.Replayer(np.zeros(0, np.uint8), knots.ticks, knots.ns, knots.ns_per_tick)
    ticks = np.linspace(10_000, 9_000_000_000, 1000).astype(np.uint64)
    words = np.stack([np.full(1000, 6, np.uint64), ticks, np.full(1000, PY, np.uint64)], axis=1).reshape(-1)
    replayer.feed(words, 10_000)
    ((_, calls),) = replayer.tracks()
    assert np.abs(calls["start_ns"].astype(np.int64) - (clock.to_ns(ticks) - 5_000_000)).max() <= 1
