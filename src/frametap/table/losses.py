"""Every kind of loss: what is not in a trace as it happened, or was repaired.

In: nothing. Out: ``LOSSES``, from which docs/losses.md is generated; ``RECORDER_KINDS`` and
``REPLAY_KINDS``, names by number. Invariant: every ``kind`` in a losses table is a key of ``LOSSES``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LossDoc:
    """What a kind of loss means.

    Attributes
    ----------
    counts : str
        What one is.
    effect : str
        What it means for the numbers in the trace.
    """

    counts: str
    effect: str


LOSSES: dict[str, LossDoc] = {
    "dropped_events": LossDoc(
        "one event that found no room: disk full, folder gone, budget reached",
        "calls are missing, or end later than they did",
    ),
    "hook_displaced": LossDoc(
        "one time that another tool took frametap's hook away",
        "calls between first_ns and last_ns can be missing",
    ),
    "deep_stack": LossDoc(
        "one time that recording paused because the C stack ran short",
        "calls deeper than that are missing; their time is self time of the last call recorded",
    ),
    "unmatched_exit": LossDoc(
        "one exit of a call whose entry is not there; it was ignored",
        "a call is missing; its time is self time of the call around it",
    ),
    "missed_entry": LossDoc(
        "one call whose entry was not seen, inferred from the stack (flag START_GUESSED)",
        "it starts too late, by an unknown time",
    ),
    "gone_unseen": LossDoc(
        "one call whose exit was not seen, inferred from the stack or from the end of its greenlet or "
        "thread (flag END_GUESSED)",
        "it ends too late, by an unknown time",
    ),
    "other_interpreter": LossDoc("one call in a sub-interpreter", "it is not recorded"),
    "table_full": LossDoc("one call site that could not be given a number", "its calls are missing"),
    "journal": LossDoc("one name that could not be written", "calls appear under a name in <angle brackets>"),
    "thread_setup": LossDoc("one thread that could not get a recorder", "all its calls are missing"),
    "forked": LossDoc("one fork whose child is not recorded", "the child process is missing"),
    "c_calls_displaced": LossDoc(
        "one time that another profiler took the events of C calls",
        "C calls between first_ns and last_ns can be missing; their time is self time of their callers",
    ),
    "repaired_exit": LossDoc(
        "one C call without an exit, ended together with the Python call around it (flag END_GUESSED)",
        "it ends too late, by an unknown time",
    ),
    "clock_backwards": LossDoc(
        "one time that a thread's clock ran backwards; it was held until the events caught up",
        "times there are late by what it ran back, and some durations are zero",
    ),
    "damaged_capture": LossDoc(
        "one part of the capture that could not be read; meta['damage'] says where",
        "calls are missing, or end later than they did",
    ),
    "unknown_site": LossDoc(
        "one call whose call site is not described in the capture",
        "it appears under a name in <angle brackets>; its kind, Python or C, is not known",
    ),
    "unmatched_span": LossDoc(
        "one end of a user's span whose beginning is not there, or the second of two",
        "the span is missing",
    ),
    "unfinished_span": LossDoc("one user's span that was still open at the end", "it ends where its process ended"),
    "unknown_kind": LossDoc("one loss of a kind that this frametap does not know", "a newer frametap can tell"),
}

#: Index: `LossKind` of core/store/format.h.
RECORDER_KINDS: tuple[str, ...] = (
    "dropped_events",
    "hook_displaced",
    "deep_stack",
    "unmatched_exit",
    "missed_entry",
    "gone_unseen",
    "other_interpreter",
    "table_full",
    "journal",
    "thread_setup",
    "forked",
    "c_calls_displaced",
)

#: Index: `FoundLoss` of core/replay/replayer.h, less its first value.
REPLAY_KINDS: tuple[str, ...] = (
    "unmatched_exit",
    "gone_unseen",
    "repaired_exit",
    "clock_backwards",
    "damaged_capture",
    "unknown_site",
)
