"""Sums over the calls of each key (a function, a call site), in pieces of bounded size.

In: a trace and, for each row of its sites, a key. Out: one row for each (thread, key) that has calls.
Invariant: all sums are exact integers; a nested call of the same key adds nothing to the key's total.
Memory: one byte and one key a call, plus pieces of ``PIECE`` calls.
"""

from __future__ import annotations

import numpy as np

from ..table import Trace
from ..table.schema import CallFlag, Outcome

PIECE = 1 << 22
_MAX_BASE = 1 << 62


def totals(trace: Trace, key_of_site: np.ndarray, n_keys: int, *, by_thread: bool) -> dict[str, np.ndarray]:
    """Add up calls by key.

    Parameters
    ----------
    trace : Trace
    key_of_site : ndarray of int
        Length n_sites; values from 0 to ``n_keys`` - 1.
    n_keys : int
    by_thread : bool
        A row for each thread and key; else ``thread`` is -1 and threads are added up.

    Returns
    -------
    dict of str to ndarray
        key, thread, calls, instances, self_ns, total_ns, mean_ns, min_ns, max_ns, raised, unfinished;
        sorted by thread, then key.
    """
    calls = trace.calls
    n = calls.n_rows
    keys = _keys_of_calls(calls["site"], key_of_site, n_keys)
    nested = _nested(keys, calls["track"], calls["start_ns"], calls["duration_ns"], n_keys)
    thread_of_track = trace.tracks["thread"].astype(np.int64) if by_thread else np.zeros(trace.tracks.n_rows, np.int64)

    cells: list[np.ndarray] = []
    parts: dict[str, list[np.ndarray]] = {
        c: [] for c in ("calls", "self_ns", "total_ns", "sum_ns", "min_ns", "max_ns", "raised", "unfinished")
    }
    for low in range(0, n, PIECE):
        piece = slice(low, min(low + PIECE, n))
        cell, row_cell = _cells(thread_of_track[calls["track"][piece]] * n_keys + keys[piece])
        n_cells = len(cell)
        duration, outcome = calls["duration_ns"][piece], calls["outcome"][piece]
        least, most = np.full(n_cells, np.iinfo(np.int64).max), np.zeros(n_cells, np.int64)
        np.minimum.at(least, row_cell, duration)
        np.maximum.at(most, row_cell, duration)
        cells.append(cell)
        for name, values in (
            ("calls", None),
            ("self_ns", calls["self_ns"][piece]),
            ("total_ns", np.where(nested[piece], 0, duration)),
            ("sum_ns", duration),
            ("raised", outcome == Outcome.RAISED),
            ("unfinished", outcome == Outcome.UNFINISHED),
        ):
            parts[name].append(_sum(row_cell, values, n_cells))
        parts["min_ns"].append(least)
        parts["max_ns"].append(most)

    if not cells:
        empty = np.empty(0, np.int64)
        names = "key thread calls instances self_ns total_ns mean_ns min_ns max_ns raised unfinished"
        return {name: empty for name in names.split()}
    cell, part_cell = _cells(np.concatenate(cells))
    sums: dict[str, np.ndarray] = {}
    for name, pieces in parts.items():
        values = np.concatenate(pieces)
        if name == "min_ns":
            sums[name] = np.full(len(cell), np.iinfo(np.int64).max)
            np.minimum.at(sums[name], part_cell, values)
        else:
            sums[name] = np.zeros(len(cell), np.int64)
            (np.maximum if name == "max_ns" else np.add).at(sums[name], part_cell, values)
    mean = sums.pop("sum_ns") // sums["calls"]
    instances = _instances(trace, keys, thread_of_track, n_keys, cell)
    thread = cell // n_keys if by_thread else np.full(len(cell), -1)
    return {"key": cell % n_keys, "thread": thread, "instances": instances, "mean_ns": mean, **sums}


def _cells(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``np.unique`` with the inverse, by a table instead of a sort where the values are few.

    Not ``np.unique`` itself: it imports ``numpy.ma``, which would be a tenth of ``frametap run`` on a short program.
    """
    space = int(values.max()) + 1
    if space > len(values):
        order = np.argsort(values)
        ordered = values[order]
        is_first = np.ones(len(values), bool)
        is_first[1:] = ordered[1:] != ordered[:-1]
        number = np.empty(len(values), np.int64)
        number[order] = np.cumsum(is_first) - 1
        return ordered[is_first], number
    seen = np.zeros(space, bool)
    seen[values] = True
    number = np.cumsum(seen) - 1
    return np.flatnonzero(seen), number[values]


def _sum(cell: np.ndarray, values: np.ndarray | None, n_cells: int) -> np.ndarray:
    # bincount adds in float64, exact below 2**53: a piece of 4 million calls of up to 35 minutes each.
    # Longer ones are split so that the sum stays exact.
    if values is None:
        return np.bincount(cell, minlength=n_cells)
    values = values.astype(np.int64, copy=False)
    if len(values) and int(values.max()) > (1 << 53) // len(values):
        low = np.bincount(cell, weights=values & 0xFFFFFFF, minlength=n_cells).astype(np.int64)
        high = np.bincount(cell, weights=values >> 28, minlength=n_cells).astype(np.int64)
        return low + (high << 28)
    return np.bincount(cell, weights=values, minlength=n_cells).astype(np.int64)


def _keys_of_calls(site: np.ndarray, key_of_site: np.ndarray, n_keys: int) -> np.ndarray:
    """The key of each call, in the smallest type: 16 bits are sorted by radix, ten times as fast."""
    small = np.uint16 if n_keys <= 1 << 16 else np.uint32
    keys: np.ndarray = key_of_site.astype(small)[site]
    return keys


def _nested(
    keys: np.ndarray, track: np.ndarray, start_ns: np.ndarray, duration_ns: np.ndarray, n_keys: int
) -> np.ndarray:
    """Which calls lie inside another call of the same key on their track.

    In start order, a call lies inside an earlier one of the same key and track if and only if it
    starts before the greatest end so far; else, as calls nest, all earlier ones had ended. (Calls of no
    duration can be told either way at a tie; they add nothing to a total.)
    """
    nested = np.zeros(len(keys), bool)
    if not len(keys):
        return nested
    count = np.bincount(keys, minlength=n_keys)
    candidates = np.flatnonzero(count > 1)
    # Keys in batches, so that a sort never needs more than a piece's memory (or one key's).
    batch = (np.cumsum(count[candidates]) - 1) // PIECE
    span_ns = int((start_ns + duration_ns).max()) + 1
    for number in dict.fromkeys(batch.tolist()):
        in_batch = np.zeros(n_keys, bool)
        in_batch[candidates[batch == number]] = True
        rows = np.flatnonzero(in_batch[keys])
        rows = rows[np.argsort(keys[rows], kind="stable")]
        row_keys, row_tracks = keys[rows], track[rows]
        new_stretch = np.empty(len(rows), bool)
        new_stretch[0] = False
        new_stretch[1:] = (row_keys[1:] != row_keys[:-1]) | (row_tracks[1:] != row_tracks[:-1])
        stretch = np.cumsum(new_stretch)
        # One running maximum over all stretches: each is moved past the end of the one before.
        per_pass = max(1, _MAX_BASE // span_ns)
        for first in range(0, int(stretch[-1]) + 1, per_pass):
            low, high = np.searchsorted(stretch, [first, first + per_pass])
            base = (stretch[low:high] - first) * span_ns
            start = start_ns[rows[low:high]] + base
            greatest_end = np.maximum.accumulate(start + duration_ns[rows[low:high]])
            nested[rows[low + 1 : high]] = start[1:] < greatest_end[:-1]
    return nested


def _instances(
    trace: Trace, keys: np.ndarray, thread_of_track: np.ndarray, n_keys: int, cells: np.ndarray
) -> np.ndarray:
    """How many generators, coroutines and async generators each cell's calls are resumes of."""
    rows = np.flatnonzero(trace.calls["flags"] & CallFlag.RESUME)
    if not len(rows):
        return np.zeros(len(cells), np.int64)
    track = trace.calls["track"][rows]
    process = trace.threads["process"][trace.tracks["thread"]][track].astype(np.int64)
    instance = process << 32 | trace.calls["instance"][rows]
    cell = np.searchsorted(cells, thread_of_track[track] * n_keys + keys[rows])
    order = np.lexsort((instance, cell))
    cell, instance = cell[order], instance[order]
    first = np.ones(len(rows), bool)
    first[1:] = (cell[1:] != cell[:-1]) | (instance[1:] != instance[:-1])
    return np.bincount(cell[first], minlength=len(cells))
