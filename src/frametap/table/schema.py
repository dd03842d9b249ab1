"""The columns of every table: declared once; docs/tables.md is generated from here.

In: nothing. Out: ``SCHEMA[table] -> tuple[Column, ...]``, in the order in which they are shown.
Invariant: a table object has exactly these columns, with these dtypes, all of one length.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag


class Outcome(IntEnum):
    """How a call ended; meanings in :data:`OUTCOMES`."""

    RETURNED = 0
    RAISED = 1
    YIELDED = 2
    UNFINISHED = 3


class CallFlag(IntFlag):
    """What is known about a call beyond its columns; meanings in :data:`CALL_FLAGS`."""

    BEGUN_BEFORE = 1
    START_GUESSED = 2
    END_GUESSED = 4
    CUT = 8
    RESUME = 16
    FIRST_RESUME = 32


OUTCOMES: dict[Outcome, str] = {
    Outcome.RETURNED: "it returned",
    Outcome.RAISED: "an exception left it",
    Outcome.YIELDED: "a generator, coroutine or async generator yielded or awaited",
    Outcome.UNFINISHED: "still running when recording stopped, or its end was never seen",
}

CALL_FLAGS: dict[CallFlag, str] = {
    CallFlag.BEGUN_BEFORE: "already running when recording started; start_ns is when recording started",
    CallFlag.START_GUESSED: "its entry was not seen; start_ns is the latest possible",
    CallFlag.END_GUESSED: "its exit was not seen; its end is the latest possible",
    CallFlag.CUT: "still running when recording stopped or paused; its end is that moment",
    CallFlag.RESUME: "one resume of a generator, coroutine or async generator",
    CallFlag.FIRST_RESUME: "the first resume of its instance",
}


@dataclass(frozen=True)
class Column:
    name: str
    dtype: str  #: a NumPy dtype, or "str" (object array of str)
    unit: str  #: "" where it has none
    null: str  #: the value that means "none" or "unknown", "" if it cannot be missing
    meaning: str


def _c(name: str, dtype: str, unit: str, null: str, meaning: str) -> Column:
    return Column(name, dtype, unit, null, meaning)


TABLES: dict[str, str] = {
    "calls": "One row per span, track by track, in start order within a track (a parent before its children). "
    "On a track spans nest.",
    "sites": "Call sites: which function is called, by which one, on which line.",
    "functions": "Functions of all processes; what two processes share is there twice.",
    "tracks": "Stacks: each thread's own, and one per greenlet. One that has no call and no mark is left out.",
    "threads": "One row per life of a thread: the operating system's ids may be used again.",
    "processes": 'One row per process; `meta["processes"]` has each one\'s details in the same order.',
    "marks": "What the user marked, in start order. A span may end on another track than it began on.",
    "losses": "What is not as it happened: one row per kind, process and thread; never a count of 0.",
}

SCHEMA: dict[str, tuple[Column, ...]] = {
    "calls": (
        _c("site", "uint32", "row of sites", "", "call site"),
        _c("track", "uint32", "row of tracks", "", "the stack it ran on"),
        _c("start_ns", "int64", "ns since the trace's start", "", "entry"),
        _c("duration_ns", "int64", "ns", "", "exit minus entry, never negative"),
        _c("self_ns", "int64", "ns", "", "duration minus that of its children"),
        _c("parent", "int64", "row of calls", "-1", "the call it lies in, on the same track"),
        _c("depth", "uint32", "levels", "", "0 for a call without parent"),
        _c("outcome", "uint8", "Outcome", "", "how it ended"),
        _c("flags", "uint8", "CallFlag bits", "", "what is known beyond the columns"),
        _c("instance", "uint32", "", "0", "generator instance within its process, from 1; resumes of one share it"),
    ),
    "sites": (
        _c("function", "uint32", "row of functions", "", "what is called"),
        _c("caller", "int64", "row of functions", "-1", "the Python function that calls"),
        _c("line", "int32", "line", "-1", "line of the call, in the caller's file"),
    ),
    "functions": (
        _c("name", "str", "", "", "qualified name"),
        _c("module", "str", "", '""', "module's name"),
        _c("file", "str", "", '""', "source file; empty for C functions"),
        _c("line", "int32", "line", "-1", "first line in the file"),
        _c("kind", "str", "", "", "python, c or gc"),
        _c("process", "uint32", "row of processes", "", "where it was seen"),
    ),
    "tracks": (
        _c("thread", "uint32", "row of threads", "", "the thread whose stack it is"),
        _c("stack", "uint32", "", "0", "0: the thread's own; else the greenlet's number within the thread"),
        _c("name", "str", "", "", "thread's name, with the greenlet's number if it is one"),
    ),
    "threads": (
        _c("process", "uint32", "row of processes", "", "its process"),
        _c("life", "uint32", "", "", "number within the process, from 1, never used again"),
        _c("native_id", "int64", "", "-1", "the operating system's thread id"),
        _c("name", "str", "", "", "threading's name, else the system's"),
        _c("start_ns", "int64", "ns since the trace's start", "", "first seen"),
        _c("end_ns", "int64", "ns since the trace's start", "", "last seen"),
    ),
    "processes": (
        _c("pid", "int64", "", "", "process id"),
        _c("parent_pid", "int64", "", "-1", "its parent's"),
        _c("command", "str", "", "", "command line, shell-quoted"),
        _c("python", "str", "", "", "interpreter's version"),
        _c("start_ns", "int64", "ns since the trace's start", "", "recording started"),
        _c("end_ns", "int64", "ns since the trace's start", "", "recording ended"),
        _c("complete", "bool", "", "", "false: it was killed, what is here was recovered"),
    ),
    "marks": (
        _c("track", "uint32", "row of tracks", "", "where it was made"),
        _c("kind", "str", "", "", "span, instant or counter"),
        _c("name", "str", "", "", "as given by the user"),
        _c("start_ns", "int64", "ns since the trace's start", "", "when"),
        _c("duration_ns", "int64", "ns", "-1", "spans only; -1 for others"),
        _c("value", "float64", "", "NaN", "counters only"),
    ),
    "losses": (
        _c("kind", "str", "", "", "see docs/losses.md"),
        _c("count", "int64", "", "", "how often"),
        _c("process", "int64", "row of processes", "-1", "where"),
        _c("thread", "int64", "row of threads", "-1", "where"),
        _c("first_ns", "int64", "ns since the trace's start", "-1", "first time"),
        _c("last_ns", "int64", "ns since the trace's start", "-1", "last time"),
    ),
}
