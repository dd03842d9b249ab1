"""The account of losses: nothing twice, nothing left out."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from frametap.replay import build_trace
from frametap.store import open_capture


@pytest.fixture
def process(spool_writer: ModuleType, tmp_path: Path) -> Any:
    return spool_writer.SpoolWriter(tmp_path).process()


def losses(process: Any) -> list[tuple[Any, ...]]:
    with open_capture(process.spool.write()) as capture:
        table = build_trace(capture).losses
    return list(zip(*(table[n].tolist() for n in ("kind", "count", "thread", "first_ns", "last_ns")), strict=True))


def test_what_threads_tell_is_part_of_the_total(process: Any) -> None:
    process.loss("dropped_events", 10)
    process.thread().lost(4).lost(3)
    assert losses(process) == [("dropped_events", 3, -1, -1, -1), ("dropped_events", 7, 0, 1010, 1020)]


def test_a_total_behind_its_parts_takes_nothing_away(process: Any) -> None:
    process.loss("dropped_events", 1)
    process.thread().lost(4)
    assert losses(process) == [("dropped_events", 4, 0, 1010, 1010)]


def test_notes_and_events_tell_of_the_same_losses(process: Any) -> None:
    process.loss("hook_displaced", 2)
    process.loss_detail("hook_displaced", 2, 1, 1005, 1500)
    process.thread().gap_begin("hook_displaced").gap_end("hook_displaced")
    assert losses(process) == [("hook_displaced", 2, 0, 1005, 1500)]


def test_notes_of_no_thread_and_of_an_unknown_one_count(process: Any) -> None:
    process.loss_detail("forked", 1, 0, 100, 200).loss_detail("forked", 2, 99, 300, 400).loss("forked", 3)
    assert losses(process) == [("forked", 3, -1, 100, 400)]


def test_what_replay_finds_is_added_to_what_the_recorder_counted(process: Any) -> None:
    process.loss("unmatched_exit", 1)
    process.thread().spurious().exit_return()
    assert losses(process) == [("unmatched_exit", 2, 0, 1010, 1020)]


def test_kinds_of_a_newer_recorder_are_told(process: Any) -> None:
    process.losses[30] = 5
    process.loss_detail("sundry", 2, 1, 1010, 1020)
    process.thread()
    assert losses(process) == [("unknown_kind", 5, -1, -1, -1), ("unknown_kind", 2, 0, 1010, 1020)]
