"""``python -m benchmarks.hundred_million``: one very long run, from recording to the timeline.

In: a number of calls. Out: printed figures: time and memory of recording, packing, reporting and exporting.
Memory is sampled from outside. Fails if the capture does not hold every call, or memory grows with the run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .measured import Watched, watch

PROGRAM = """
import sys, time
import frametap

def leaf(x): return x
def branch(x):
    return leaf(x) + leaf(x) + leaf(x)
def run(n_branches):
    for i in range(n_branches): branch(i)

n_calls, path = int(sys.argv[1]), sys.argv[2]
tap = frametap.trace(path)
tap.start()
begun = time.perf_counter()
run(n_calls // 4)
recorded = time.perf_counter()
tap.stop()
packed = time.perf_counter()
begun_bare = time.perf_counter()
run(n_calls // 400)
bare = (time.perf_counter() - begun_bare) * 100
print(f"recording       {recorded - begun:8.1f} s, {(recorded - begun - bare) / n_calls * 1e9:.1f} ns added per call")
print(f"stop and pack   {packed - recorded:8.1f} s, {(packed - recorded) / n_calls * 1e9:.1f} ns per call", flush=True)
"""

COUNT = """
import sys
import numpy as np
import frametap
trace = frametap.open(sys.argv[2]).trace()
names = trace.functions["name"]
n = np.bincount(trace.sites["function"][trace.calls["site"]], minlength=len(names))
found = {name: int(k) for name, k in zip(names, n) if name in ("leaf", "branch")}
wanted = {"leaf": int(sys.argv[1]) // 4 * 3, "branch": int(sys.argv[1]) // 4}
sys.exit(0 if found == wanted else f"recorded {found}, made {wanted}")
"""

#: What recording may hold whatever the run's length: 32 MB, 4 MB for the thread, and the interpreter itself.
RESIDENT_LIMIT_BYTES = 36 << 20


def _line(what: str, watched: Watched, n_calls: int) -> str:
    return (
        f"{what:<15} {watched.seconds:8.1f} s, {watched.seconds / n_calls * 1e9:.1f} ns per call, "
        f"peak {watched.peak_bytes / 1e6:.0f} MB"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hundred_million", description=__doc__)
    parser.add_argument("n_calls", type=int, nargs="?", default=100_000_000)
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary folder)")
    parser.add_argument("--no-read", action="store_true", help="record and pack only")
    arguments = parser.parse_args()
    n_calls = max(400, arguments.n_calls // 400 * 400)
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="frametap-long-") as folder:
        capture = Path(folder) / "long.ftap"
        python = sys.executable
        short = watch([python, "-c", PROGRAM, "400", str(Path(folder) / "short.ftap")], 0.005, quiet=True)
        print(f"{n_calls:,} calls", flush=True)
        recording = watch([python, "-c", PROGRAM, str(n_calls), str(capture)])
        size = capture.stat().st_size
        print(f"capture         {size / 1e6:8.1f} MB, {size / n_calls:.2f} bytes per call")
        grown = recording.peak_bytes - short.peak_bytes
        print(
            f"resident        {recording.peak_bytes / 1e6:8.1f} MB at most, {grown / 1e6:.1f} MB more than a run of 400 calls"
        )
        if not arguments.no_read:
            print(_line("read and count", watch([python, "-c", COUNT, str(n_calls), str(capture)]), n_calls))
            frametap = [python, "-m", "frametap"]
            print(_line("report", watch([*frametap, "report", str(capture)], quiet=True), n_calls))
            timeline = Path(folder) / "long.pftrace"
            print(
                _line("export Perfetto", watch([*frametap, "export", str(capture), str(timeline)], quiet=True), n_calls)
            )
            print(f"timeline        {timeline.stat().st_size / 1e6:8.1f} MB")
    if grown > RESIDENT_LIMIT_BYTES:
        print("MISS: resident memory grew with the run", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
