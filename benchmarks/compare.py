"""Runs every tracer on every workload, interleaved, and puts the figures together.

In: names of tracers and workloads, how often. Out: one dictionary, as written to results/<python>.json.
Invariant: all figures of one row come from laps that alternated with one another on one CPU; a figure of
time is a minimum. Each tracer has a process of its own, so that none sees what another left behind.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from .tracers import TRACERS
from .workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
#: 3.11's counter begins late in a new thread: it misses some of what starts and ends one.
UNCOUNTED_FILES = {"threading.py"} if sys.version_info < (3, 12) else set()
#: Harness functions that all of a process's tracers may or may not see.
OWN_FILES = {p.name for p in Path(__file__).parent.glob("*.py")} - {"workloads.py", "pyperformance_programs.py"}


class WorkerError(RuntimeError):
    """A worker died: its tracer or workload failed."""


class Worker:
    """One process that traces one workload with one tracer."""

    def __init__(self, tracer: str, workload: str, quick: bool, n_laps: int, cpus: set[int], folder: Path) -> None:
        self.tracer = tracer
        self.skipped: str | None = None
        folder.mkdir()
        order = {"tracer": tracer, "workload": workload, "quick": quick, "n_laps": n_laps, "cpus": sorted(cpus)}
        environment = {"FRAMETAP_BENCH_FOLDER": str(folder), "PYTHONHASHSEED": "0", "PYTHONPATH": _search_path()}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
        self.skipped = self._reply().get("skipped")

    def ask(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._reply()

    def close(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it is gone already
        self._process.wait()

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(f"{self.tracer}: the process ended with status {self._process.wait()}")
        reply: dict[str, Any] = json.loads(line)
        return reply


def _search_path() -> str:
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def pinned_cpus(n: int) -> set[int]:
    """The last *n* of the CPUs this process may use; none where the system cannot pin."""
    return set(sorted(os.sched_getaffinity(0))[-n:]) if n and hasattr(os, "sched_getaffinity") else set()


def measure(
    workload: str, tracers: Sequence[str], *, quick: bool, n_visits: int, n_laps: int, cpus: set[int]
) -> dict[str, Any]:
    """One workload under each tracer: the rows of one block of the table."""
    with tempfile.TemporaryDirectory(prefix="frametap-bench-") as folder:
        workers: list[Worker] = []
        try:
            for name in ("count", "none", *(t for t in tracers if t not in ("count", "none"))):
                workers.append(Worker(name, workload, quick, n_laps, cpus, Path(folder) / name.replace(" ", "_")))
            return _interleaved(workers, n_visits)
        finally:
            for w in workers:
                w.close()


def _interleaved(workers: list[Worker], n_visits: int) -> dict[str, Any]:
    running = [w for w in workers if w.skipped is None]
    base = next((w for w in running if w.tracer == "none"), None)
    if base is None:
        return {"skipped": workers[0].skipped}
    timed = [w for w in running if w.tracer != "count"]
    visits: dict[str, list[dict[str, Any]]] = {w.tracer: [] for w in timed}
    for _ in range(n_visits):
        for w in timed:
            visits[w.tracer].append(w.ask("visit"))
    checks = {w.tracer: w.ask("check") for w in running}  # last: saving would leave memory behind
    counted = {
        (file, line): n for file, line, n in checks["count"]["counts"] if file not in OWN_FILES | UNCOUNTED_FILES
    }
    n_calls = sum(counted.values())
    base_ns = min(ns for v in visits["none"] for ns in v["lap_ns"])
    rows: dict[str, dict[str, Any]] = {w.tracer: {"skipped": w.skipped} for w in workers if w.skipped is not None}
    for name, recorded in visits.items():
        if name == "none":
            continue
        n_laps = len(recorded[0]["lap_ns"])
        lap_ns = min(ns for v in recorded for ns in v["lap_ns"])
        seen = {(file, line): n for file, line, n in checks[name]["counts"]}
        rows[name] = {
            "added_ns_per_call": (lap_ns - base_ns) / n_calls,
            "slowdown": lap_ns / base_ns,
            "stop_ns_per_call": min(v["stop_ns"] for v in recorded) / n_laps / n_calls,
            "resident_bytes": recorded[0]["resident_bytes"],
            "resident_bytes_per_call": max(0, recorded[0]["resident_bytes"]) / n_laps / n_calls,
            "saved": [
                {"format": s["format"], "ns_per_call": s["ns"] / n_calls, "bytes_per_call": s["bytes"] / n_calls}
                for s in checks[name]["saved"]
            ],
            "completeness": sum(min(seen.get(place, 0), n) for place, n in counted.items()) / n_calls,
            "surplus": sum(max(0, seen.get(place, 0) - n) for place, n in counted.items()),
        }
    own = rows.get("frametap", {}).get("added_ns_per_call")
    for row in rows.values():
        if own and "added_ns_per_call" in row:
            row["ratio_to_frametap"] = row["added_ns_per_call"] / own
    return {"n_calls": n_calls, "base_ns_per_call": base_ns / n_calls, "base_ns": base_ns, "tracers": rows}


def environment(cpus: set[int]) -> dict[str, Any]:
    versions = {}
    for package in ("frametap", "viztracer", "yappi", "torch", "pyperformance"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    model = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    return {
        "python": platform.python_version(),
        "compiler": platform.python_compiler(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": model[0] if model else platform.processor(),
        "pinned_cpus": len(cpus),
        "packages": versions,
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def compare(
    workloads: Sequence[str],
    tracers: Sequence[str],
    *,
    quick: bool,
    n_visits: int,
    n_laps: int,
    n_cpus: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """All workloads, one after the other."""
    cpus = pinned_cpus(n_cpus)
    results = {}
    for name in workloads:
        progress(name)
        results[name] = {"what": WORKLOADS[name].what} | measure(
            name, tracers, quick=quick, n_visits=n_visits, n_laps=n_laps, cpus=cpus
        )
    return {"environment": environment(cpus), "n_visits": n_visits, "n_laps": n_laps, "workloads": results}


def known(names: Sequence[str], of: dict[str, Any]) -> list[str]:
    """*names*, or all where there are none; unknown ones are refused."""
    wrong = [n for n in names if n not in of]
    if wrong:
        raise SystemExit(f"unknown: {', '.join(wrong)}; known: {', '.join(of)}")
    return list(names) or [n for n in of if n not in ("none", "count")]


__all__ = ["TRACERS", "compare", "known", "measure", "pinned_cpus"]
