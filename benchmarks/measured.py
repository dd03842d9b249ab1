"""Small measurements shared by the budget and the long run.

In: commands and captures. Out: seconds, bytes.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .worker import PAGE_BYTES


def best_of(n: int, run: Callable[[], object]) -> float:
    """Seconds of the fastest of *n* runs."""
    times = []
    for _ in range(n):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times)


@dataclass(frozen=True)
class Watched:
    """What a process took: seconds, and its resident memory as sampled."""

    seconds: float
    resident_bytes: list[int]

    @property
    def peak_bytes(self) -> int:
        return max(self.resident_bytes, default=0)


def watch(command: Sequence[str], every_s: float = 0.05, quiet: bool = False) -> Watched:
    """Run *command* to its end, sampling its resident memory; raises CalledProcessError if it fails."""
    begun = time.perf_counter()
    resident = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL if quiet else None) as process:
        statm = Path(f"/proc/{process.pid}/statm")
        while True:
            try:
                process.wait(every_s)
                break
            except subprocess.TimeoutExpired:
                resident.append(int(statm.read_text().split()[1]) * PAGE_BYTES)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    return Watched(time.perf_counter() - begun, resident)
