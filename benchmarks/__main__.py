"""``python -m benchmarks``: compares tracers side by side, writes results and the README's tables."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

from .compare import ROOT, compare, known
from .render import markdown, replace_in
from .tracers import TRACERS
from .workloads import WORKLOADS


def incomplete(results: dict[str, Any]) -> list[str]:
    """Where frametap did not record exactly the calls that were made."""
    found = []
    for name, w in results["workloads"].items():
        for tracer, row in w.get("tracers", {}).items():
            if tracer.startswith("frametap") and (row.get("skipped") or row["completeness"] != 1 or row["surplus"]):
                found.append(f"{tracer} on {name}: {row}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("-w", "--workload", action="append", default=[], help="only this one (repeatable)")
    parser.add_argument("-t", "--tracer", action="append", default=[], help="only this one (repeatable)")
    parser.add_argument(
        "--visits", type=int, default=8, help="recordings per tracer and workload (default %(default)s)"
    )
    parser.add_argument("--laps", type=int, default=3, help="timed laps per recording (default %(default)s)")
    parser.add_argument("--cpus", type=int, default=1, help="CPUs each process is pinned to, 0: not pinned (default 1)")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes: does it run, is it complete; times mean nothing"
    )
    parser.add_argument("-o", "--output", type=Path, help="results file (default benchmarks/results/<python>.json)")
    arguments = parser.parse_args()
    results = compare(
        known(arguments.workload, WORKLOADS),
        known(arguments.tracer, TRACERS),
        quick=arguments.quick,
        n_visits=1 if arguments.quick else arguments.visits,
        n_laps=1 if arguments.quick else arguments.laps,
        n_cpus=arguments.cpus,
        progress=lambda name: print(f"… {name}", file=sys.stderr, flush=True),
    )
    everything = not (arguments.workload or arguments.tracer or arguments.quick)
    output = arguments.output
    if output is None and everything:
        output = Path(__file__).parent / "results" / f"{platform.python_version()}.json"
    if output is not None:
        output.write_text(json.dumps(results, indent=1) + "\n")
    text = markdown(results)
    print(text)
    if everything and arguments.output is None:
        replace_in(ROOT / "README.md", text)
    problems = incomplete(results)
    for problem in problems:
        print(f"INCOMPLETE: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
