"""Show where time went: functions, call sites and threads of a capture.

self is time in the function itself, total from entry to exit (the outermost call only where it calls
itself), mean and max are of single calls.
"""

from __future__ import annotations

import argparse
import re
import sys
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ..analyse import Stats, call_sites, functions, losses, threads
from ..errors import OptionError
from ..opened import open
from .about import c_calls_recorded, extent, missing, working_folder
from .progress import progress
from .tables import bullet_list, duration, function_name, place, printable, show

SORT = {"self": "self_ns", "total": "total_ns", "calls": "calls", "mean": "mean_ns", "max": "max_ns", "name": "name"}
_TIMES = (("calls", True), ("self", True), ("total", True), ("mean", True), ("max", True))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("capture", help="X.ftap, or the X.ftap.part of a killed process")
    parser.add_argument("--by-thread", action="store_true", help="a row for each function on each thread")
    parser.add_argument("--sort", choices=list(SORT), default="self", help="default: self")
    parser.add_argument(
        "--filter",
        metavar="PATTERN",
        help="only functions whose name, module.name or file matches: a pattern with * and ?, or /regular expression/",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="rows of a table; 0: all (default: 30, with --json all)")
    parser.add_argument("--json", action="store_true", help="one JSON object, times in ns")


def run(arguments: argparse.Namespace) -> int:
    if arguments.limit is not None and arguments.limit < 0:
        raise OptionError("limit", f"--limit {arguments.limit}: must be 0 (all) or more")
    matches = matcher(arguments.filter)
    with open(arguments.capture) as capture, progress("reading") as shown:
        trace = capture.trace(progress=shown)
    limit = arguments.limit if arguments.limit is not None else 0 if arguments.json else 30
    tables = {}
    sizes = {}
    for name, analysis in (("functions", functions), ("call_sites", call_sites)):
        stats = analysis(trace, by_thread=arguments.by_thread)
        stats = stats.take(_matching(stats, matches)).sorted_by(SORT[arguments.sort])
        sizes[name] = len(stats)
        tables[name] = stats.head(limit or None)
    if arguments.json:
        import json

        everything = {**tables, "threads": threads(trace), "losses": losses(trace)}
        json.dump({name: list(stats) for name, stats in everything.items()}, sys.stdout)
        print()
        return 0
    folder = working_folder(trace)
    print(f"{printable(str(capture.path))}: {extent(trace)}\n")
    thread = (("thread", False),) if arguments.by_thread else ()
    show(
        _title("functions", tables["functions"], sizes["functions"], arguments.sort),
        (*_TIMES, *thread, ("function", False)),
        [(*_times(row), function_name(row, folder)) for row in tables["functions"]],
    )
    show(
        _title("call sites", tables["call_sites"], sizes["call_sites"], arguments.sort),
        (*_TIMES, *thread, ("caller", False), ("called", False)),
        [(*_times(row), _caller(row, folder), printable(row["name"])) for row in tables["call_sites"]],
    )
    show(
        "threads",
        (("calls", True), ("busy", True), ("deepest", True), ("pid", True), ("thread", False)),
        [
            (f"{r['calls']:,}", duration(r["busy_ns"]), str(r["deepest"]), str(r["pid"]), printable(r["name"]))
            for r in threads(trace)
        ],
    )
    if not c_calls_recorded(trace):
        print("self time includes C functions: they were not recorded (frametap run --c-calls, trace(c_calls=True))")
    print("losses:\n" + bullet_list(missing(trace)), end="")
    return 0


def matcher(pattern: str | None) -> Any:
    """A test of a name against ``--filter``; None if there is none.

    Raises
    ------
    OptionError
        Not a regular expression.
    """
    if pattern is None:
        return None
    if len(pattern) > 1 and pattern[0] == pattern[-1] == "/":
        try:
            return re.compile(pattern[1:-1]).search
        except re.error as error:
            raise OptionError("filter", f"--filter {pattern}: not a regular expression ({error})") from None
    return lambda name: fnmatchcase(name, pattern)


def _matching(stats: Stats, matches: Any) -> np.ndarray:
    if matches is None:
        return np.ones(len(stats), bool)
    columns = [stats[name].tolist() for name in ("name", "module", "file")]
    return np.array(
        [
            bool(matches(name) or matches(f"{module}.{name}") or (file and matches(file)))
            for name, module, file in zip(*columns, strict=True)
        ],
        bool,
    )


def _title(name: str, stats: Stats, n_rows: int, sort: str) -> str:
    rows = "" if len(stats) == n_rows else f", the first {len(stats)} of {n_rows:,}; --limit 0 shows all"
    return f"{name}, by {sort}{rows}"


def _times(row: dict[str, Any]) -> tuple[str, ...]:
    times = (duration(row[name]) for name in ("self_ns", "total_ns", "mean_ns", "max_ns"))
    thread = (printable(row["thread"]),) if "thread" in row else ()
    return (f"{row['calls']:,}", *times, *thread)


def _caller(row: dict[str, Any], folder: str) -> str:
    if not row["caller"]:
        return "-"
    return f"{printable(row['caller'])}  ({place(row['caller_file'], row['line'], folder)})"
