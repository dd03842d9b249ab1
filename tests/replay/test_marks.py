"""Spans of users put together from their ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from frametap.replay.marks import COUNTER, INSTANT, SPAN_BEGIN, SPAN_END, Marks, match_marks

NAMES = {1: "load", 2: "train"}


def match(*marks: tuple[int, int, int, int, int], end_ns: int = 100) -> Marks:
    """Of (kind, track, time, name, value)."""
    columns: Any = np.array(marks, dtype=np.int64).reshape(-1, 5).T
    names = ("kind", "track", "time_ns", "name", "value")
    table = dict(zip(names, columns, strict=True)) | {"value": columns[4].astype(np.uint64)}
    return match_marks(table, NAMES, end_ns)


def test_a_span_may_end_on_another_track() -> None:
    out = match((SPAN_BEGIN, 0, 10, 1, 7), (SPAN_BEGIN, 0, 20, 2, 8), (SPAN_END, 3, 25, 0, 7), (SPAN_END, 0, 30, 0, 8))
    assert out.columns["name"].tolist() == ["load", "train"]
    assert out.columns["duration_ns"].tolist() == [15, 10]
    assert out.columns["track"].tolist() == [0, 0]
    assert len(out.unmatched) == len(out.unfinished) == 0


def test_the_end_may_come_first_in_the_input() -> None:
    assert match((SPAN_END, 1, 25, 0, 7), (SPAN_BEGIN, 0, 10, 1, 7)).columns["duration_ns"].tolist() == [15]


def test_a_span_without_an_end_ends_with_its_process() -> None:
    out = match((SPAN_BEGIN, 0, 10, 1, 7), end_ns=50)
    assert out.columns["duration_ns"].tolist() == [40]
    assert out.unfinished.tolist() == [0]


def test_an_end_without_a_beginning_is_left_out() -> None:
    out = match((SPAN_END, 0, 10, 0, 7), (SPAN_BEGIN, 0, 20, 1, 8), (SPAN_END, 0, 30, 0, 8), (SPAN_END, 0, 40, 0, 8))
    assert out.columns["duration_ns"].tolist() == [10]
    assert out.unmatched.tolist() == [0, 3]


def test_counters_have_a_value_and_instants_none() -> None:
    bits = int(np.float64(-2.5).view(np.int64))
    out = match((COUNTER, 0, 10, 2, bits), (INSTANT, 0, 20, 3, 0))
    assert out.columns["kind"].tolist() == ["counter", "instant"]
    assert out.columns["name"].tolist() == ["train", "<unknown name 3>"]
    assert out.columns["value"][0] == -2.5 and math.isnan(out.columns["value"][1])
    assert out.columns["duration_ns"].tolist() == [-1, -1]
