"""Say what a capture holds: processes, options, threads, losses.

With --check the whole trace is validated too; exit status 1 if something in it is wrong.
"""

from __future__ import annotations

import argparse
import shlex
import time
from typing import Any

from ..opened import open
from .about import extent, missing
from .progress import progress
from .tables import bullet_list, count, duration, printable

_MAX_PROBLEMS = 50
_MAX_NAMES = 20  # of threads


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("capture", help="X.ftap, or the X.ftap.part of a killed process")
    parser.add_argument("--check", action="store_true", help="validate the trace: calls nest, times are in order")


def run(arguments: argparse.Namespace) -> int:
    with open(arguments.capture) as capture, progress("reading") as shown:
        trace = capture.trace(progress=shown)
        processes = [process.info for process in capture.capture.processes]
    meta = trace.meta
    started = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(trace.start_wall_ns / 1e9))
    print(f"{printable(str(capture.path))}: {extent(trace)}")
    print(f"  recorded {started} by frametap {_text(meta, 'frametap')}, format {_text(meta, 'format_version')}")
    print(f"  {count(trace.functions.n_rows, 'function')}, {count(trace.sites.n_rows, 'call site')}, ", end="")
    print(f"{count(trace.tracks.n_rows, 'track')}, {count(trace.marks.n_rows, 'mark')}")
    for row, info in enumerate(processes):
        seconds = duration(int(trace.processes["end_ns"][row] - trace.processes["start_ns"][row]))
        c_calls = "with C calls" if info.get("c_calls") else "without C calls"
        print(f"process {_text(info, 'pid')}: {printable(shlex.join(map(str, info.get('command', ()))))}")
        print(f"  Python {_text(info, 'python')} on {_text(info, 'platform')}, host {_text(info, 'host')}")
        print(f"  engine {_text(info, 'engine')}, {c_calls}, {seconds}")
        in_process = trace.threads["process"] == row
        names = trace.threads["name"][in_process]
        more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
        print(f"  threads: {', '.join(printable(name) for name in names[:_MAX_NAMES])}{more}")
    print("losses:\n" + bullet_list(missing(trace)), end="")
    if not arguments.check:
        return 0
    from ..table.check import validate

    problems = [str(problem) for problem in validate(trace)]
    if problems:
        print(f"check: {count(len(problems), 'problem')}")
        print(bullet_list(problems[:_MAX_PROBLEMS]), end="")
        return 1
    print("check: nothing is wrong")
    return 0


def _text(values: dict[str, Any], name: str) -> str:
    return printable(str(values.get(name, "?")))
