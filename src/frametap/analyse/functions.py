"""Calls added up by function and by call site.

In: a trace. Out: :class:`Stats`. Functions of different processes are one if they have the same
name, file and line (C functions: name and module). Times:

- ``self_ns``: time in the function itself, without the calls recorded inside it. C functions that
  were not recorded count as self time of their caller.
- ``total_ns``: from entry to exit, the outermost call only where a function calls itself.
- ``mean_ns, min_ns, max_ns``: of single calls, from entry to exit, nested ones too.

A call of a generator or coroutine is one resume; ``instances`` counts the objects. A call that was
running when recording started, or went on after a pause, counts as a call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..table import Trace
from .stats import Stats
from .totals import totals

_SUMS = ("calls", "self_ns", "total_ns", "mean_ns", "min_ns", "max_ns", "raised", "unfinished", "instances")


def functions(trace: Trace, by_thread: bool = False) -> Stats:
    """Calls by function.

    Parameters
    ----------
    trace : Trace
    by_thread : bool
        A row for each function on each thread.

    Returns
    -------
    Stats
        name, module, file, line, kind, then calls, self_ns, total_ns, mean_ns, min_ns, max_ns,
        raised, unfinished, instances; with ``by_thread`` also thread, pid, native_id. By self time,
        greatest first.

    Examples
    --------
    >>> functions(trace).sorted_by("calls")[0]["name"]  # doctest: +SKIP
    'Vector.__add__'
    """
    group, first = _function_groups(trace)
    sums = totals(trace, group[trace.sites["function"]], len(first), by_thread=by_thread)
    shown = first[sums["key"]]
    columns = {name: trace.functions[name][shown] for name in ("name", "module", "file", "line", "kind")}
    return _finish(trace, columns, sums, by_thread)


def call_sites(trace: Trace, by_thread: bool = False) -> Stats:
    """Calls by call site: who calls whom, from which line.

    Returns
    -------
    Stats
        caller, caller_module, caller_file, line (of the call, -1 unknown), name, module, file (of the
        function called), then as for :func:`functions`. ``caller`` is "" where no Python function
        called: the first call of a thread.
    """
    group, _ = _function_groups(trace)
    sites = trace.sites
    caller = sites["caller"]
    caller_group = np.where(caller >= 0, group[np.maximum(caller, 0)] if len(group) else -1, -1)
    key_of_site, first_site = _number(
        zip(caller_group.tolist(), sites["line"].tolist(), group[sites["function"]].tolist())
    )
    sums = totals(trace, key_of_site, len(first_site), by_thread=by_thread)
    shown = first_site[sums["key"]]
    callee, caller = sites["function"][shown], caller[shown]
    functions_ = trace.functions

    def of_caller(name: str) -> np.ndarray:
        values = np.full(len(caller), "", dtype=object)
        values[caller >= 0] = functions_[name][caller[caller >= 0]]
        return values

    columns = {
        "caller": of_caller("name"),
        "caller_module": of_caller("module"),
        "caller_file": of_caller("file"),
        "line": sites["line"][shown],
        **{name: functions_[name][callee] for name in ("name", "module", "file", "kind")},
    }
    return _finish(trace, columns, sums, by_thread)


def _finish(trace: Trace, columns: dict[str, np.ndarray], sums: dict[str, np.ndarray], by_thread: bool) -> Stats:
    columns = {**columns, **{name: sums[name] for name in _SUMS}}
    if by_thread:
        thread = sums["thread"]
        columns["thread"] = trace.threads["name"][thread]
        columns["pid"] = trace.processes["pid"][trace.threads["process"][thread]]
        columns["native_id"] = trace.threads["native_id"][thread]
    return Stats(columns).sorted_by("self_ns")


def _function_groups(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """A group for each function, and the first function of each group."""
    f = trace.functions
    return _number(
        zip(
            f["kind"].tolist(),
            f["name"].tolist(),
            (file or module for file, module in zip(f["file"].tolist(), f["module"].tolist())),
            f["line"].tolist(),
        )
    )


def _number(things: Any) -> tuple[np.ndarray, np.ndarray]:
    """Number equal things alike, in order of appearance; also where each was first seen."""
    numbers: dict[Any, int] = {}
    group: list[int] = []
    first: list[int] = []
    for row, thing in enumerate(things):
        number = numbers.setdefault(thing, len(numbers))
        if number == len(first):
            first.append(row)
        group.append(number)
    return np.array(group, np.int64), np.array(first, np.int64)
