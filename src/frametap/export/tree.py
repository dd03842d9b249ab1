"""The call tree: calls with equal stacks as one node. What formats without a time line are made from.

In: checked stacks, and a frame for each function. Out: :class:`Tree`. Invariant: nodes are numbered level by level,
within a level by parent and then frame; so a parent comes before its children, and these lie together.

Built level by level, each level at once: a node is a distinct pair of parent node and frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .check import Checked, by_level


@dataclass(frozen=True)
class Tree:
    """Nodes as arrays of one length. Level 0 are roots: one per distinct root frame given to :func:`grow`."""

    parent: np.ndarray  #: int64, -1 for roots
    frame: np.ndarray  #: int64
    calls: np.ndarray  #: int64, 0 for roots
    self_ns: np.ndarray  #: int64, summed
    total_ns: np.ndarray  #: int64, summed

    def first_child(self) -> np.ndarray:
        """Per node the number of its first child; the children of ``k`` are those from ``[k]`` up to ``[k + 1]``."""
        return np.searchsorted(self.parent, np.arange(len(self.parent) + 1))

    def inclusive_ns(self) -> np.ndarray:
        """Per node the time of it and all below, from the self times."""
        total = self.self_ns.copy()
        first = self.first_child()
        edge = len(total)
        # A level at a time, the deepest first: nodes from `edge` on are done.
        levels = []
        lo, hi = 0, int(np.searchsorted(self.parent, 0))
        while lo < hi:
            levels.append((lo, hi))
            lo, hi = hi, int(first[hi]) if hi < edge else edge
        for lo, hi in reversed(levels[1:]):
            above = self.parent[lo:hi]
            total[above[0] : above[-1] + 1] += np.bincount(above - above[0], weights=total[lo:hi]).astype(np.int64)
        return total


def grow(checked: Checked, frame_of_function: np.ndarray, frame_of_track: np.ndarray) -> Tree:
    """Return the call tree.

    Parameters
    ----------
    checked : Checked
    frame_of_function : ndarray of int64
        Per row of functions. Functions with one frame are one.
    frame_of_track : ndarray of int64
        Per row of tracks, the frame of the root that the track's calls lie under; other numbers than functions'.
    """
    n_frames = 1 + max(int(frame_of_function.max(initial=-1)), int(frame_of_track.max(initial=-1)))
    frame_of_site = frame_of_function[checked.trace.sites["function"]]
    # First each track by itself, to hold one at a time; then the same for the tracks' nodes.
    depths, parents, frames, sums = [], [], [], []
    n_rows = 0
    for stack in checked.stacks:
        local = np.where(stack.parent < 0, -1, stack.parent - stack.first_row)
        node, parent, frame, depth = _fold(stack.depth, local, frame_of_site[stack.site], n_frames)
        n = len(parent)
        sums.append([np.zeros((1, 3), dtype=np.int64), _sum(node, n, stack.self_ns, stack.duration_ns)])
        depths.append(np.concatenate(([0], depth + 1)))
        frames.append(np.concatenate(([frame_of_track[stack.track]], frame)))
        # The root is the first of the track's rows, and the parent of its outermost nodes.
        parents.append(np.concatenate(([-1], parent + 1 + n_rows)))
        n_rows += n + 1
    if not n_rows:
        none = np.empty(0, dtype=np.int64)
        return Tree(none, none, none, none, none)
    values = np.concatenate([part for pair in sums for part in pair])
    node, parent, frame, _ = _fold(
        np.concatenate(depths).astype(np.int64), np.concatenate(parents), np.concatenate(frames), n_frames
    )
    calls, self_ns, total_ns = (
        np.bincount(node, weights=values[:, k], minlength=len(parent)).astype(np.int64) for k in range(3)
    )
    return Tree(parent, frame, calls, self_ns, total_ns)


def _sum(node: np.ndarray, n: int, self_ns: np.ndarray, duration_ns: np.ndarray) -> np.ndarray:
    """Per node calls, self and total time. The sums are of doubles, exact up to 2^53 ns, 104 days."""
    columns = [np.bincount(node, weights=w, minlength=n) for w in (None, self_ns, duration_ns)]
    return np.stack(columns, axis=1).astype(np.int64)


def _fold(
    depth: np.ndarray, parent: np.ndarray, frame: np.ndarray, n_frames: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows to nodes: per row its node; per node its parent node (-1 none), frame and depth."""
    order = by_level(depth)
    edges = np.searchsorted(depth[order], np.arange(int(depth.max()) + 2))
    node = np.empty(len(depth), dtype=np.int64)
    parents, frames, depths = [], [], []
    above = 0  # the first node of the level above
    n_nodes = 0
    for level, (lo, hi) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        rows = order[lo:hi]
        key = frame[rows].astype(np.int64)
        if level:
            key += (node[parent[rows]] - above) * n_frames
        distinct, which = _distinct(key, (n_nodes - above if level else 1) * n_frames)
        node[rows] = n_nodes + which
        parents.append(above + distinct // n_frames if level else np.full(len(distinct), -1))
        frames.append(distinct % n_frames)
        depths.append(np.full(len(distinct), level))
        above, n_nodes = n_nodes, n_nodes + len(distinct)
    return node, np.concatenate(parents), np.concatenate(frames), np.concatenate(depths)


def _distinct(key: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
    """As ``np.unique(key, return_inverse=True)``; where the range is small against the keys, without sorting."""
    if end > 4 * len(key) + 4096:
        return np.unique(key, return_inverse=True)
    seen = np.zeros(end, dtype=bool)
    seen[key] = True
    distinct = np.flatnonzero(seen)
    number = np.empty(end, dtype=np.int64)
    number[distinct] = np.arange(len(distinct))
    return distinct, number[key]
