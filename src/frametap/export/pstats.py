"""The standard library's profile statistics: ``pstats.Stats("run.pstats")``, snakeviz, gprof2dot.

Specification: ``Profile.create_stats`` and ``snapshot_stats`` in https://github.com/python/cpython/blob/main/Lib/cProfile.py.

In: a trace. Out: one marshalled dict, ``(file, line, name) -> (cc, nc, tt, ct, callers)``, and in ``callers``
``(nc, cc, tt, ct)``, the other way round, as cProfile writes it. Times in seconds. Invariant: sums over all threads
and processes; ``tt`` is self time; ``cc`` and ``ct`` count only calls whose function is not on the stack yet, and in
``callers`` only those whose pair of caller and function is not.

As in cProfile each resume of a generator or coroutine is a call. Names are qualified names, so methods of one name
stay apart. A call that was cut at the start or the end of recording counts with the time that was seen. Losses are
entries of no calls, named ``<frametap loss …>``.
"""

from __future__ import annotations

import marshal
from typing import BinaryIO

import numpy as np

from ..table import Trace
from .check import Checked, check
from .names import builtin_name
from .tree import Tree, grow

_Key = tuple[str, int, str]


def write(trace: Trace, out: BinaryIO) -> None:
    """Write a trace as profile statistics.

    Parameters
    ----------
    trace : Trace
        Any trace; what had to be mended is counted and told in the file.
    out : binary file
        Written to once.
    """
    checked = check(trace)
    keys: dict[_Key, int] = {}
    frames = np.array([keys.setdefault(key, len(keys)) for key in _keys(checked)], dtype=np.int64)
    roots = np.full(trace.tracks.n_rows, len(keys))
    stats = _statistics(grow(checked, frames, roots), list(keys))
    for loss in checked.losses:
        stats["~", 0, f"<frametap loss {checked.describe(loss)}>"] = (0, 0, 0.0, 0.0, {})
    if not stats:
        # pstats refuses an empty dict.
        stats["~", 0, "<frametap: no calls were recorded>"] = (0, 0, 0.0, 0.0, {})
    # Version 2 has no references between objects, which would depend on how many others hold them.
    out.write(marshal.dumps(stats, 2))


def _keys(checked: Checked) -> list[_Key]:
    functions = checked.trace.functions
    keys: list[_Key] = []
    for name, file, line, kind, module in zip(
        checked.function_names, checked.function_files,
        *(functions[c].tolist() for c in ("line", "kind", "module")), strict=True,
    ):  # fmt: skip
        if kind == "python":
            keys.append((file, max(line, 0), name))
        else:
            keys.append(("~", 0, builtin_name(name, module) if kind == "c" else name))
    return keys


def _statistics(
    tree: Tree, keys: list[_Key]
) -> dict[_Key, tuple[int, int, float, float, dict[_Key, tuple[int, int, float, float]]]]:
    """Sum the tree's nodes by function, and by pair of caller and function, depth first.

    The stack is what tells outermost from recursive calls; all calls of a node have the same.
    """
    first_child = tree.first_child().tolist()
    frames, calls = tree.frame.tolist(), tree.calls.tolist()
    self_ns, total_ns = tree.self_ns.tolist(), tree.total_ns.tolist()
    root = len(keys)
    # cc, nc, tt, ct, and how often it is on the stack.
    functions = [[0, 0, 0, 0, 0] for _ in keys]
    pairs: dict[tuple[int, int], list[int]] = {}
    work = [k for k in reversed(range(int(np.searchsorted(tree.parent, 0))))]
    path: list[int] = []
    while work:
        node = work.pop()
        if node < 0:  # leave what was entered last
            left = path.pop()
            if left != root:
                functions[left][4] -= 1
                if path[-1] != root:
                    pairs[path[-1], left][4] -= 1
            continue
        frame = frames[node]
        if frame != root:
            entries = [functions[frame]]
            if path[-1] != root:
                entries.append(pairs.setdefault((path[-1], frame), [0, 0, 0, 0, 0]))
            for entry in entries:
                if not entry[4]:
                    entry[0] += calls[node]
                    entry[3] += total_ns[node]
                entry[1] += calls[node]
                entry[2] += self_ns[node]
                entry[4] += 1
        path.append(frame)
        work.append(-1)
        work += reversed(range(first_child[node], first_child[node + 1]))
    callers: list[dict[_Key, tuple[int, int, float, float]]] = [{} for _ in keys]
    for (caller, frame), (cc, nc, tt, ct, _) in sorted(pairs.items()):
        callers[frame][keys[caller]] = (nc, cc, tt / 1e9, ct / 1e9)
    return {keys[k]: (cc, nc, tt / 1e9, ct / 1e9, callers[k]) for k, (cc, nc, tt, ct, _) in enumerate(functions) if nc}
