"""One process: one tracer on one workload, run when told to.

In: commands on standard input, a line each ("visit", "check", "quit"). Out: one JSON object a line on
standard output. Started by compare.py, never by hand.
Invariant: only laps are timed, with the tracer already on; the program's own output goes nowhere.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from .tracers import TRACERS, Tracer
from .workloads import WORKLOADS, Lap

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as statm:  # no Python function is called: a tracer is on
        return int(statm.read().split()[1]) * PAGE_BYTES


def visit(tracer: Tracer, lap: Lap, n_laps: int) -> dict[str, Any]:
    """One recording of *n_laps* laps."""
    gc.collect()
    resident_before = resident_bytes()
    laps = []
    tracer.start()
    for _ in range(n_laps):
        begun = time.perf_counter_ns()
        lap()
        laps.append(time.perf_counter_ns() - begun)
    resident_after = resident_bytes()
    begun = time.perf_counter_ns()
    tracer.stop()
    stop_ns = time.perf_counter_ns() - begun
    return {"lap_ns": laps, "stop_ns": stop_ns, "resident_bytes": resident_after - resident_before}


def check(tracer: Tracer, lap: Lap, folder: Path) -> dict[str, Any]:
    """One recording of one lap, saved, and read back."""
    result = visit(tracer, lap, 1)
    saved = tracer.save(folder)
    result["saved"] = [{"format": s.format, "ns": s.ns, "bytes": s.n_bytes} for s in saved]
    result["counts"] = [[file, line, n] for (file, line), n in sorted(tracer.counts(folder).items())]
    return result


def main(tracer: str, workload: str, quick: bool, n_laps: int, cpus: list[int], folder: Path) -> None:
    if cpus:
        os.sched_setaffinity(0, cpus)
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        lap = WORKLOADS[workload].make(quick, folder)
        lap()  # imports, caches
        tool = TRACERS[tracer]()
    except ImportError as error:
        print(json.dumps({"skipped": f"{error.name or error} is not installed"}), file=replies)
        return
    print(json.dumps({"ready": True}), file=replies)
    for command in map(str.strip, sys.stdin):
        if command == "quit":
            break
        result = visit(tool, lap, n_laps) if command == "visit" else check(tool, lap, folder)
        print(json.dumps(result), file=replies)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]), folder=Path(os.environ["FRAMETAP_BENCH_FOLDER"]))
