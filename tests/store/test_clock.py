"""Ticks become nanoseconds that never run backwards."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frametap.store import Clock, ClockPair

u64 = st.integers(0, (1 << 64) - 1)
pairs = st.builds(ClockPair, u64, u64, st.just(0))


@given(pairs, st.none() | pairs, st.floats(), st.lists(pairs, max_size=5), st.lists(u64, min_size=1, max_size=20))
def test_no_clock_runs_backwards(
    start: ClockPair, stop: ClockPair | None, rate: float, more: list[ClockPair], ticks: list[int]
) -> None:
    clock = Clock.of("tsc", start, stop, rate, more)
    ns = clock.to_ns(np.sort(np.array(ticks + [p.tick for p in clock.pairs], np.uint64)))
    assert (np.diff(ns) >= 0).all()


def test_each_pair_is_met_exactly() -> None:
    more = [ClockPair(2_000_000, 1_500_000, 0), ClockPair(7_000_001, 3_000_000, 0)]
    clock = Clock.of("tsc", ClockPair(10, 20, 0), ClockPair(9_000_000, 4_000_000, 0), 2.0, more)
    assert clock.to_ns([10, 2_000_000, 7_000_001, 9_000_000]).tolist() == [20, 1_500_000, 3_000_000, 4_000_000]


def test_between_and_beyond_pairs_is_linear() -> None:
    clock = Clock.of("tsc", ClockPair(3_000_000, 1_000_000, 0), ClockPair(6_000_000, 2_000_000, 0), 9.0)
    assert clock.to_ns([0, 2_999_997, 4_500_000, 6_000_003]).tolist() == [0, 999_999, 1_500_000, 2_000_001]


def test_beyond_two_near_pairs_the_measured_rate_counts() -> None:
    clock = Clock.of("tsc", ClockPair(0, 0, 0), ClockPair(100, 90, 0), 2.0)
    assert clock.to_ns([1100]).tolist() == [90 + 500]


def test_a_killed_process_has_its_measured_rate() -> None:
    assert Clock.of("tsc", ClockPair(100, 0, 0), None, 2.5).to_ns([100, 350]).tolist() == [0, 100]


def test_pairs_that_run_backwards_are_left_out() -> None:
    bad = [ClockPair(50, 5, 0), ClockPair(60, 1 << 63, 0)]
    clock = Clock.of("tsc", ClockPair(0, 10, 0), ClockPair(100, 110, 0), 1.0, bad)
    assert clock.pairs == [(0, 10, 0), (100, 110, 0)]


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf, 1e300])
def test_an_impossible_rate_is_replaced_by_what_the_pairs_say(rate: float) -> None:
    assert Clock.of("tsc", ClockPair(0, 0, 0), ClockPair(400, 100, 0), rate).ticks_per_ns == 4.0


def test_ticks_are_exact_after_a_month() -> None:
    month = 30 * 24 * 3600 * 3_000_000_000
    clock = Clock.of("tsc", ClockPair(0, 0, 0), ClockPair(month, month // 3, 0), 3.0)
    assert clock.to_ns([month - 6, month - 3, month]).tolist() == [month // 3 - 2, month // 3 - 1, month // 3]


def test_the_result_has_the_ticks_shape() -> None:
    clock = Clock.of("tsc", ClockPair(0, 0, 0), None, 1.0)
    assert clock.to_ns(np.zeros((2, 3), np.uint64)).shape == (2, 3)
    assert clock.to_ns(np.zeros(0, np.uint64)).shape == (0,)
