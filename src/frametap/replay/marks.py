"""User marks: spans put together from their two ends, instants, counters.

In: the marks of all threads of one process. Out: columns of the `marks` table.
Invariant: one row per beginning, per instant, per counter value; no negative duration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .threads import Array, Columns

SPAN_BEGIN, SPAN_END, INSTANT, COUNTER = range(4)
_KINDS = np.array(["span", "", "instant", "counter"], dtype=object)


@dataclass
class Marks:
    """Columns of the `marks` table, and the indices (into the input) of what did not fit together."""

    columns: Columns
    unmatched: Array  #: span ends without a beginning
    unfinished: Array  #: beginnings without an end


def match_marks(marks: Columns, names: dict[int, str], end_ns: int) -> Marks:
    """Put a process's marks together.

    Parameters
    ----------
    marks : dict of str to array
        ``kind``, ``track`` (row of tracks), ``time_ns``, ``name``, ``value``, as the core gives them.
    names : dict of int to str
        By name id.
    end_ns : int
        Where spans end that were left open.
    """
    kind, time_ns = marks["kind"], marks["time_ns"]
    begins, ends = np.flatnonzero(kind == SPAN_BEGIN), np.flatnonzero(kind == SPAN_END)
    # A serial is unique in the process. Should it come twice, the first of each kind count.
    begins = begins[np.argsort(time_ns[begins], kind="stable")]
    ends = ends[np.argsort(time_ns[ends], kind="stable")]
    begin_serials, first_begin = np.unique(marks["value"][begins], return_index=True)
    end_serials, first_end = np.unique(marks["value"][ends], return_index=True)
    _, b, e = np.intersect1d(begin_serials, end_serials, assume_unique=True, return_indices=True)
    matched_begins, matched_ends = begins[first_begin[b]], ends[first_end[e]]
    unfinished, unmatched = np.setdiff1d(begins, matched_begins), np.setdiff1d(ends, matched_ends)

    duration = np.full(len(kind), -1, dtype=np.int64)
    duration[matched_begins] = np.maximum(0, time_ns[matched_ends] - time_ns[matched_begins])
    duration[unfinished] = np.maximum(0, end_ns - time_ns[unfinished])
    value = np.full(len(kind), np.nan)
    counters = kind == COUNTER
    value[counters] = marks["value"][counters].view(np.float64)

    rows = np.flatnonzero(kind != SPAN_END)
    name_ids, name_of = np.unique(marks["name"][rows], return_inverse=True)
    texts = np.array([names.get(i, f"<unknown name {i}>") for i in name_ids.tolist()], dtype=object)
    columns = {
        "track": marks["track"][rows],
        "kind": _KINDS[kind[rows]],
        "name": texts[name_of.reshape(-1)],
        "start_ns": time_ns[rows],
        "duration_ns": duration[rows],
        "value": value[rows],
    }
    return Marks(columns, unmatched=unmatched, unfinished=unfinished)
