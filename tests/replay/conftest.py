"""Replays words twice, with the core and with its slow twin, and compares.

Sites in these tests: PY, PY2 Python functions; C a C function; HIDDEN, HIDDEN_C frametap's own;
UNKNOWN is described nowhere.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from frametap import _core

PY, PY2, C, HIDDEN, HIDDEN_C, UNKNOWN = range(16, 22)
CLASSES = [0] * 16 + [1, 1, 3, 5, 7]
ONE_NS_A_TICK = ([0], [0], 1.0)


@dataclass
class Replayed:
    """What came out: rows of dicts, for tests to read."""

    tracks: dict[int, list[dict[str, int]]]  #: by stack id
    marks: dict[str, list[int]]
    resumes: dict[str, list[int]]
    losses: dict[int, tuple[int, int, int]]
    first_ns: int
    last_ns: int

    def calls(self, *names: str, stack: int = 0) -> list[tuple[int, ...]]:
        return [tuple(row[n] for n in names) for row in self.tracks[stack]]


def _load(name: str) -> ModuleType:
    full = f"frametap_tests_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, Path(__file__).parent.parent / "oracles" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[full]


@pytest.fixture(scope="session")
def oracle() -> ModuleType:
    return _load("replay_oracle")


def _run(replayer: Any, segments: Sequence[tuple[int, Sequence[int]] | int], as_words: Callable[..., Any]) -> Replayed:
    for segment in segments:
        if isinstance(segment, int):
            replayer.missing(segment)
        else:
            replayer.feed(as_words(segment[1]), segment[0])

    def plain(columns: dict[str, Any]) -> dict[str, list[int]]:
        return {name: list(map(int, column)) for name, column in columns.items()}

    def rows(columns: dict[str, Any]) -> list[dict[str, int]]:
        lists = plain(columns)
        return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]

    tracks = {stack: rows(columns) for stack, columns in replayer.tracks()}
    return Replayed(
        tracks, plain(replayer.marks()), plain(replayer.resumes()), replayer.losses(), replayer.first_ns,
        replayer.last_ns,
    )  # fmt: skip


def assert_nested(calls: list[dict[str, int]]) -> None:
    """The invariant, checked as plainly as possible."""
    open_rows: list[int] = []
    inside = [0] * len(calls)
    for row, call in enumerate(calls):
        assert call["duration_ns"] >= 0
        del open_rows[call["depth"] :]
        assert len(open_rows) == call["depth"]
        assert call["parent"] == (open_rows[-1] if open_rows else -1)
        if row:
            assert call["start_ns"] >= calls[row - 1]["start_ns"]
        if open_rows:
            parent = calls[open_rows[-1]]
            assert parent["start_ns"] <= call["start_ns"]
            assert call["start_ns"] + call["duration_ns"] <= parent["start_ns"] + parent["duration_ns"]
            inside[open_rows[-1]] += call["duration_ns"]
        open_rows.append(row)
    for row, call in enumerate(calls):
        assert call["self_ns"] == call["duration_ns"] - inside[row] >= 0


@pytest.fixture(scope="session")
def replay(oracle: ModuleType) -> Callable[..., Replayed]:
    """Replays ``(tick, words)`` segments; an int instead: segments are missing before that tick."""

    def replay_both(
        segments: Sequence[tuple[int, Sequence[int]] | int],
        classes: Sequence[int] = CLASSES,
        clock: tuple[list[int], list[int], float] = ONE_NS_A_TICK,
    ) -> Replayed:
        ticks, ns, rate = clock
        core = _core.Replayer(np.array(classes, np.uint8), np.array(ticks, np.uint64), np.array(ns, np.int64), rate)
        fast = _run(core, segments, lambda words: np.array(words, np.uint64))
        slow = _run(oracle.Replayer(list(classes), ticks, ns, rate), segments, list)
        assert fast == slow
        for calls in fast.tracks.values():
            assert_nested(calls)
        return fast

    return replay_both


@pytest.fixture
def events(spool_writer: ModuleType) -> Any:
    """A writer of one segment's events, from tick 0, 10 ticks apart; see spool_writer.ThreadWriter."""
    thread = spool_writer.SpoolWriter(Path()).process().thread(start_tick=0, capacity_words=1 << 40)
    return thread.segment()


@pytest.fixture
def replay_events(replay: Callable[..., Replayed]) -> Callable[..., Replayed]:
    """Replays what `events` wrote."""
    return lambda thread: replay([(s.tick, s.words) for s in thread.segments])
