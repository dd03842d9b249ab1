"""``python -m benchmarks.budget``: frametap's own budget, measured, PASS or MISS per row.

In: nothing but the installed frametap. Out: a table on standard output; status 1 if a row misses.
The budget's figures stand in BUDGET and nowhere else in code. Figures of time are only good on a quiet machine;
what holds them in tests is tests/cost, by counted instructions.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .compare import measure, pinned_cpus
from .measured import best_of, watch
from .pyperformance_programs import PROGRAMS

#: Nanoseconds added per Python call on fib, by Python version: Python calls only, and with C calls.
PYTHON_CALL_NS = {(3, 11): 42, (3, 12): 46, (3, 13): 45, (3, 14): 42, (3, 15): 42}
WITH_C_NS = {(3, 11): 175, (3, 12): 85, (3, 13): 80, (3, 14): 65, (3, 15): 62}
MANY_SITES_FACTOR = 1.35
FILTERED_NS = {True: 1.0, False: 25.0}  #: from 3.12 on, before
STOP_NS = 120
REPLAY_PER_S = 12e6
EXPORT_PER_S = {"pftrace": 3e6, "json": 1e6}
RESIDENT_BYTES = (32 << 20) + (4 << 20)  #: one thread
BYTES_PER_CALL = {"fib": 4, "varied": 7}
IMPORT_MS = 40
EMPTY_RUN_MS = 120

LONG_RUN = """
import sys, frametap
def leaf(): pass
def run(n):
    for _ in range(n): leaf()
with frametap.trace(sys.argv[2]): run(int(sys.argv[1]))
"""

FILTERED_RUN = """
import sys, time, frametap
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def best(n):
    times = []
    for _ in range(n):
        begun = time.perf_counter_ns(); fib(20); times.append(time.perf_counter_ns() - begun)
    return min(times)
bare = best(40)
with frametap.trace(sys.argv[1], exclude=["*"]): traced = best(40)
print((traced - min(bare, best(40))) / 21891)
"""


@dataclass(frozen=True)
class Row:
    """One line of the budget; ``most`` says that the figure may be at most the limit, else at least."""

    what: str
    measured: float | None
    limit: float
    unit: str
    most: bool = True
    why_not: str = ""

    @property
    def passes(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured <= self.limit if self.most else self.measured >= self.limit

    def __str__(self) -> str:
        verdict = {True: "PASS", False: "MISS", None: "SKIP"}[self.passes]
        figure = f"{self.measured:12.4g}" if self.measured is not None else f"{'–':>12}"
        limit = f"{'≤' if self.most else '≥'} {self.limit:.4g} {self.unit}"
        return f"{verdict}  {self.what:<58} {figure}  {limit}  {self.why_not}".rstrip()


def recording(cpus: set[int], n_visits: int) -> Iterator[Row]:
    """What a call costs while recording, and what is left on disk."""
    version = sys.version_info[:2]
    limit = PYTHON_CALL_NS[version]

    def on(workload: str, tracers: list[str]) -> dict[str, Any]:
        rows: dict[str, Any] = measure(workload, tracers, quick=False, n_visits=n_visits, n_laps=3, cpus=cpus)[
            "tracers"
        ]
        return rows

    fib = on("fib", ["frametap", "frametap +C"])
    own = fib["frametap"]
    yield Row("Python call, fib(25)", own["added_ns_per_call"], limit, "ns")
    yield Row("with C calls, per Python call", fib["frametap +C"]["added_ns_per_call"], WITH_C_NS[version], "ns")
    many = on("many_sites", ["frametap"])["frametap"]
    yield Row("2 000 functions, 10 000 sites", many["added_ns_per_call"], MANY_SITES_FACTOR * limit, "ns")
    yield Row("stop and pack, fib", own["stop_ns_per_call"], STOP_NS, "ns a call")
    yield Row("stop and pack, many sites", many["stop_ns_per_call"], STOP_NS, "ns a call")
    yield Row("capture, fib", own["saved"][0]["bytes_per_call"], BYTES_PER_CALL["fib"], "bytes a call")
    yield Row("capture, many sites", many["saved"][0]["bytes_per_call"], BYTES_PER_CALL["varied"], "bytes a call")
    for program in PROGRAMS[:4]:
        rows = measure(program.name, ["frametap"], quick=False, n_visits=1, n_laps=1, cpus=cpus).get("tracers")
        size = rows["frametap"]["saved"][0]["bytes_per_call"] if rows else None
        yield Row(f"capture, {program.name}", size, BYTES_PER_CALL["varied"], "bytes a call")


def filtered(folder: Path) -> Iterator[Row]:
    from frametap.record.options import Options

    what, limit = "filtered-out function", FILTERED_NS[sys.version_info >= (3, 12)]
    if "exclude" not in Options.__dataclass_fields__:
        yield Row(what, None, limit, "ns", why_not="this version has no filters")
        return
    command = [sys.executable, "-c", FILTERED_RUN, str(folder / "filtered.ftap")]
    yield Row(what, float(subprocess.run(command, check=True, capture_output=True, text=True).stdout), limit, "ns")


def memory_and_reading(folder: Path, n_calls: int) -> Iterator[Row]:
    """A longer run: memory while it is recorded, then speed of reading and exporting it."""
    capture = folder / "long.ftap"
    short = watch([sys.executable, "-c", LONG_RUN, "1000", str(folder / "short.ftap")], 0.005)
    long = watch([sys.executable, "-c", LONG_RUN, str(n_calls), str(capture)])
    grown = (long.peak_bytes - short.peak_bytes) / 1e6
    yield Row(f"resident memory, {n_calls:,} calls against 1000", grown, RESIDENT_BYTES / 1e6, "MB")
    yield from _reading(capture, n_calls, folder)


def _reading(capture: Path, n_calls: int, folder: Path) -> Iterator[Row]:
    import frametap

    export = importlib.import_module("frametap.export").export
    seconds = best_of(3, lambda: frametap.open(str(capture)).trace())
    yield Row("replay", n_calls / seconds, REPLAY_PER_S, "calls/s", most=False)
    trace = frametap.open(str(capture)).trace()
    for suffix, limit in EXPORT_PER_S.items():
        path = folder / f"long.{suffix}"
        seconds = best_of(2, lambda path=path: export(trace, str(path)))  # type: ignore[misc]
        yield Row(f"export .{suffix}", n_calls / seconds, limit, "calls/s", most=False)


def starting(folder: Path) -> Iterator[Row]:
    """What it takes to begin."""
    script = folder / "empty.py"
    script.write_text("")
    capture = folder / "empty.ftap"

    run = [sys.executable, "-m", "frametap", "run", "-q", "-o", str(capture), str(script)]
    commands = {
        "nothing": [sys.executable, "-c", "pass"],
        "import": [sys.executable, "-c", "import frametap"],
        "plain": [sys.executable, str(script)],
        "traced": run,
    }
    ms = dict.fromkeys(commands, float("inf"))
    for _ in range(15):  # in turn, so that a slow phase of the machine meets all of them
        for name, command in commands.items():
            capture.unlink(missing_ok=True)
            ms[name] = min(ms[name], 1000 * best_of(1, lambda command=command: subprocess.run(command, check=True)))  # type: ignore[misc]
    yield Row("import frametap", ms["import"] - ms["nothing"], IMPORT_MS, "ms")
    yield Row("frametap run of an empty script, over plain Python", ms["traced"] - ms["plain"], EMPTY_RUN_MS, "ms")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.budget", description=__doc__)
    parser.add_argument("--visits", type=int, default=12, help="recordings per measurement (default %(default)s)")
    parser.add_argument("--calls", type=int, default=10_000_000, help="calls of the longer run (default %(default)s)")
    parser.add_argument("--cpus", type=int, default=1, help="CPUs each process is pinned to, 0: not pinned (default 1)")
    arguments = parser.parse_args()
    missed = False
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="frametap-budget-") as name:
        folder = Path(name)
        os.environ.setdefault("PYTHONHASHSEED", "0")
        for rows in (
            recording(pinned_cpus(arguments.cpus), arguments.visits),
            filtered(folder),
            memory_and_reading(folder, arguments.calls),
            starting(folder),
        ):
            for row in rows:
                print(row, flush=True)
                missed |= row.passes is False
    print(f"CPython {sys.version.split()[0]}, {time.perf_counter() - begun:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
