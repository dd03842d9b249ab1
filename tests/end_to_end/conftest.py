"""Programs are run in an interpreter of their own, traced, and read back.

In: a program's source. Out: a `Recorded`: its trace, what it printed, and questions to ask of both.
Invariant: every trace is checked for nesting, for frames of frametap's own, and for losses, unless a test
says that it expects some.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frametap
from frametap.table import Trace
from frametap.table.check import validate
from frametap.table.schema import CallFlag, Outcome

PACKAGE = Path(frametap.__file__).parent


class Recorded:
    """A traced run: the trace and the process."""

    def __init__(self, trace: Trace, process: subprocess.CompletedProcess[str]) -> None:
        self.trace = trace
        self.process = process
        self.stdout = process.stdout
        calls = trace.calls
        self._function = trace.sites["function"][calls["site"]]
        self._name = trace.functions["name"][self._function] if trace.n_calls else np.array([], dtype=object)

    def rows(self, name: str) -> np.ndarray:
        """Rows of the calls of the functions with this qualified name, in start order."""
        return np.flatnonzero(self._name == name)

    def count(self, name: str) -> int:
        return len(self.rows(name))

    def counts(self, *prefixes: str) -> dict[str, int]:
        """Calls by qualified name, for names that start with one of the prefixes."""
        return {n: k for n, k in Counter(self._name.tolist()).items() if n.startswith(prefixes)}

    def callers(self, name: str) -> dict[str, int]:
        """How often each function's call encloses a call of *name* directly; "" where none does."""
        parents = self.trace.calls["parent"][self.rows(name)]
        return dict(Counter(self._name[p] if p >= 0 else "" for p in parents))

    def site_callers(self, name: str) -> dict[tuple[str, int], int]:
        """Calls of *name* by the calling function and line that their site tells."""
        sites = self.trace.calls["site"][self.rows(name)]
        caller, line = self.trace.sites["caller"][sites], self.trace.sites["line"][sites]
        names = self.trace.functions["name"]
        return dict(Counter((names[c] if c >= 0 else "", int(at)) for c, at in zip(caller, line, strict=True)))

    def outcomes(self, name: str) -> dict[str, int]:
        return dict(Counter(Outcome(o).name for o in self.trace.calls["outcome"][self.rows(name)]))

    def flagged(self, name: str, flag: CallFlag) -> int:
        return int(np.count_nonzero(self.trace.calls["flags"][self.rows(name)] & flag))

    def tracks(self, name: str) -> list[int]:
        """The tracks that calls of *name* lie on, each once."""
        return sorted({int(t) for t in self.trace.calls["track"][self.rows(name)]})

    def thread_names(self, name: str) -> dict[str, int]:
        """Calls of *name* by the name of the thread they ran on."""
        threads = self.trace.tracks["thread"][self.trace.calls["track"][self.rows(name)]]
        return dict(Counter(self.trace.threads["name"][t] for t in threads))

    def losses(self) -> dict[str, int]:
        totals: Counter[str] = Counter()
        for kind, n in zip(self.trace.losses["kind"], self.trace.losses["count"], strict=True):
            totals[kind] += int(n)
        return {kind: n for kind, n in totals.items() if n}


def environment() -> dict[str, str]:
    """This process's, with the package under test found from any folder."""
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def execute(command: Iterable[str], status: int) -> subprocess.CompletedProcess[str]:
    process = subprocess.run(
        list(command), check=False, capture_output=True, text=True, env=environment(), timeout=300, encoding="utf-8"
    )
    assert process.returncode == status, f"status {process.returncode}\n{process.stdout}\n{process.stderr}"
    return process


def read_back(capture: Path, process: subprocess.CompletedProcess[str], losses: Iterable[str]) -> Recorded:
    assert capture.exists(), f"no capture\n{process.stdout}\n{process.stderr}"
    assert not capture.with_name(capture.name + ".part").exists(), "the spool was left behind"
    recorded = Recorded(frametap.open(str(capture)).trace(), process)
    assert validate(recorded.trace) == []
    own = [f for f in recorded.trace.functions["file"] if f and PACKAGE in Path(f).parents]
    assert own == [], "frametap's own frames are in the trace"
    assert not set(recorded.losses()) - set(losses), f"losses: {recorded.losses()}"
    return recorded


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(source: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return path

    return write


@pytest.fixture
def run_traced(tmp_path: Path, write: Callable[[str], Path]) -> Callable[..., Recorded]:
    """``run_traced(source, *options)``: the program under ``frametap run``."""

    def run(
        source: str, *options: str, arguments: Iterable[str] = (), status: int = 0, losses: Iterable[str] = ()
    ) -> Any:
        capture = tmp_path / "out.ftap"
        command = [
            sys.executable,
            "-m",
            "frametap",
            "run",
            "-o",
            str(capture),
            *options,
            str(write(source)),
            *arguments,
        ]
        return read_back(capture, execute(command, status), losses)

    return run


@pytest.fixture
def run_api(tmp_path: Path, write: Callable[[str], Path]) -> Callable[..., Recorded]:
    """``run_api(source)``: plain Python; the program itself traces into ``sys.argv[1]``."""

    def run(source: str, *, status: int = 0, losses: Iterable[str] = ()) -> Recorded:
        capture = tmp_path / "out.ftap"
        return read_back(capture, execute([sys.executable, str(write(source)), str(capture)], status), losses)

    return run


@pytest.fixture
def run_plain(write: Callable[[str], Path]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``run_plain(source)``: the program without any tracing."""

    def run(source: str, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        return execute([sys.executable, str(write(source)), *arguments], status)

    return run
