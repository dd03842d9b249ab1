"""The bits and bytes of core/store/format.h, for Python; docs/format.md explains them.

In: nothing. Out: constants and :mod:`struct` layouts. Invariant: equal to core/store/format.h, which
is their only definition (tests/store/test_format_doc.py holds the three together).
"""

from __future__ import annotations

import struct
from enum import IntEnum

FORMAT_VERSION = 1

EVENTS_NAME = "events.bin"
JOURNAL_NAME = "tables.jsonl"
PROCESS_NAME = "process.json"
SPOOL_NAME = "spool.json"
CAPTURE_FORMAT = "frametap capture"  #: "format" in a capture's meta.json


class Control(IntEnum):
    """Event ids below :data:`FIRST_SITE`."""

    NOTHING = 0
    RETURN = 1
    RAISE = 2
    YIELD = 3
    C_RETURN = 4
    C_RAISE = 5
    SYNC = 6
    RECORD = 7


FIRST_SITE = 16
RESUME_BIT = 0x80000000
SITE_MASK = 0x7FFFFFFF


class RecordKind(IntEnum):
    """Kinds of records, the lowest byte of the word after :attr:`Control.RECORD`."""

    ARM = 1
    DISARM = 2
    BEFORE = 3
    MISSED = 4
    GONE = 5
    SWITCH = 6
    STACK_END = 7
    THREAD_END = 8
    SPAN_BEGIN = 9
    SPAN_END = 10
    INSTANT = 11
    COUNTER = 12
    GAP_BEGIN = 13
    GAP_END = 14
    LOST = 15
    SPURIOUS = 16


class LossKind(IntEnum):
    """Index into the file header's loss counters; a loss's name is the member's in lower case."""

    DROPPED_EVENTS = 0
    HOOK_DISPLACED = 1
    DEEP_STACK = 2
    UNMATCHED_EXIT = 3
    MISSED_ENTRY = 4
    GONE_UNSEEN = 5
    OTHER_INTERPRETER = 6
    TABLE_FULL = 7
    JOURNAL = 8
    THREAD_SETUP = 9
    FORKED = 10
    C_CALLS_DISPLACED = 11


MAX_LOSS_KINDS = 32


def loss_name(index: int) -> str:
    """Name of a loss counter; ``loss_<index>`` if a newer recorder counted it."""
    return LossKind(index).name.lower() if index < len(LossKind) else f"loss_{index}"


class ClockKind(IntEnum):
    """What the ticks count."""

    TSC = 1
    ARM_COUNTER = 2
    MONOTONIC = 3


FILE_MAGIC = b"FTAPEVT1"
SEGMENT_MAGIC = 0x47455346
HEADER_BYTES = 4096
SEGMENT_ALIGN = 64
#: magic, format_version, clock_kind, chunk_bytes, pid, start (3), stop (3), n_chunks, ticks_per_ns, losses (32)
FILE_HEADER = struct.Struct(f"<8s4I3Q3QQd{MAX_LOSS_KINDS}Q")
#: magic, thread, sequence, n_words, tick, monotonic_ns, capacity_words, reserved (3)
SEGMENT_HEADER = struct.Struct("<4I3Q3Q")
