"""What a recorded call costs, in instructions: exact where time is noise.

callgrind counts a small and a larger run, traced and untraced; the difference of the differences, per call, is
what recording adds. bounds.json holds the highest count allowed per Python version and mode. A change that
lowers a count lowers its bound; one that raises it says why in its commit.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import frametap

HERE = Path(__file__).parent
BOUNDS = json.loads((HERE / "bounds.json").read_text())
VERSION = "{}.{}".format(*sys.version_info)
SMALL, LARGE = 12, 21
N_CALLS = 35_421 - 465  # calls of fib(21) less those of fib(12)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed"),
    pytest.mark.skipif(VERSION not in BOUNDS, reason=f"no bound for {VERSION} in bounds.json"),
]


def instructions(mode: str, n: int, tmp_path: Path) -> int:
    folder = tmp_path / f"{mode}-{n}"
    folder.mkdir()
    process = subprocess.run(
        [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={folder / 'callgrind.out'}",
            sys.executable,
            str(HERE / "program.py"),
            mode,
            str(n),
            str(folder),
        ],
        env=os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(Path(frametap.__file__).parents[1])},
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    found = re.search(r"Collected : (\d+)", process.stderr)
    assert process.returncode == 0 and found, process.stderr[-2000:]
    return int(found[1])


def per_call(mode: str, tmp_path: Path) -> float:
    return (instructions(mode, LARGE, tmp_path) - instructions(mode, SMALL, tmp_path)) / N_CALLS


@pytest.mark.parametrize("mode", ["python", "c_calls"])
def test_a_recorded_call_costs_no_more_instructions_than_the_bound(tmp_path, mode):
    added = per_call(mode, tmp_path) - per_call("untraced", tmp_path)
    bound = BOUNDS[VERSION][mode]
    assert added <= bound, f"{added:.1f} instructions added per call, bound {bound}"
    assert added >= 0.8 * bound, f"only {added:.1f} instructions added per call: lower the bound {bound}"
