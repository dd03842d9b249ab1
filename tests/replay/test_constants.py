"""Numbers that are written in C++ and in Python are the same."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

import pytest

from frametap.replay.losses import FIRST_FOUND, slot_name
from frametap.replay.marks import COUNTER, INSTANT, SPAN_BEGIN, SPAN_END
from frametap.table.losses import LOSSES, RECORDER_KINDS, REPLAY_KINDS
from frametap.table.schema import CallFlag, Outcome

CORE = Path(__file__).parents[2] / "core"


def members(header: str, enum: str) -> list[tuple[str, str]]:
    """Names, without their prefix and in snake case, and what they are set to."""
    body = re.search(rf"enum {enum} : uint8_t {{(.*?)}};", (CORE / header).read_text(), re.DOTALL)
    assert body is not None
    text = re.sub(r"//.*", "", body[1])
    found = re.findall(r"\bk(\w+)(?: = ([^,\n]+))?", text)
    return [(re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=C)(?=Calls)", "_", name).lower(), value) for name, value in found]


@pytest.mark.parametrize(("enum", "python"), [("class Outcome", Outcome), ("CallFlag", CallFlag)])
def test_outcomes_and_flags(enum: str, python: type[IntEnum]) -> None:
    core = {name.removeprefix("is_"): int(value) for name, value in members("replay/replayer.h", enum)}
    assert core == {m.name.lower(): m.value for m in python}


def test_kinds_of_marks() -> None:
    core = [int(value) for _, value in members("replay/replayer.h", "class MarkKind")]
    assert core == [SPAN_BEGIN, SPAN_END, INSTANT, COUNTER]


def test_names_of_losses() -> None:
    assert [name for name, _ in members("store/format.h", "class LossKind")] == list(RECORDER_KINDS)
    found = [name.removeprefix("found_") for name, _ in members("replay/replayer.h", "FoundLoss")]
    assert found[-1] == "loss_slots"
    assert [{"damage": "damaged_capture"}.get(name, name) for name in found[:-1]] == list(REPLAY_KINDS)
    assert set(RECORDER_KINDS) | set(REPLAY_KINDS) <= set(LOSSES)
    assert slot_name(5) == "gone_unseen" and slot_name(FIRST_FOUND) == "unmatched_exit"
    assert slot_name(31) == "unknown_kind"
