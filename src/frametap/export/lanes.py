"""Lanes for intervals that may cross, so that on each lane they nest.

In: intervals sorted by start, longer first. Out: per interval its depth, or its lane. Invariant: two intervals on
one lane are disjoint, or one holds the other. Not for calls, which nest already.
"""

from __future__ import annotations

import numpy as np


def nesting(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return how many intervals are open when each starts, and whether none crosses another.

    Parameters
    ----------
    start, end : ndarray of int64, shape (n,)
        Sorted by start, then longer first. An empty interval counts as lying in those that start or
        last at its moment.

    Examples
    --------
    >>> nesting(np.array([0, 1, 4]), np.array([9, 4, 5]))
    (array([0, 1, 1]), True)
    >>> nesting(np.array([0, 3]), np.array([5, 7]))[1]
    False
    """
    # At twice the scale an empty interval can be given a length without reaching the next moment.
    first = 2 * start
    last = np.where(end > start, 2 * end, 2 * end + 1)
    depth = np.arange(len(start)) - np.searchsorted(np.sort(last), first, side="right")
    # The holder of each: the row before it if that is one level up, else that of the last row on its level.
    order = np.argsort(depth, kind="stable")
    is_first = np.diff(depth, prepend=-1)[order] == 1
    holder = order - 1
    latest = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    holder = holder[latest]
    held = holder >= 0
    return depth, bool((last[order] <= last[holder])[held].all())


def lanes(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the lane of each interval, the lowest in which it crosses none.

    Parameters
    ----------
    start, end : ndarray of int64, shape (n,)
        Sorted by start, then longer first.
    """
    lane = np.zeros(len(start), dtype=np.int64)
    if nesting(start, end)[1]:
        return lane
    # Only where intervals cross, as those of concurrent tasks do: one by one, each lane a stack of open ends.
    stacks: list[list[int]] = []
    for row, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        for k, stack in enumerate(stacks):
            while stack and stack[-1] <= first:
                stack.pop()
            if not stack or last <= stack[-1]:
                break
        else:
            k = len(stacks)
            stacks.append([])
        stacks[k].append(last)
        lane[row] = k
    return lane
