"""``frametap run`` beside plain Python, each in an interpreter of its own.

In: files of a program and the arguments that start it. Out: both processes, finished.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import frametap

Process = subprocess.CompletedProcess[bytes]

SOURCE = Path(frametap.__file__).parent.parent


def start(command: list[str], folder: Path, stdin: bytes = b"", **variables: str) -> Process:
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"} | variables
    return subprocess.run(
        [sys.executable, *command],
        input=stdin,
        capture_output=True,
        cwd=folder,
        env=environment,
        timeout=120,
        check=False,
        # As from a shell: a test runner in the background has SIGINT ignored, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.fixture
def frametap_command(tmp_path: Path) -> Callable[..., Process]:
    """``frametap_command("report", …)`` in ``tmp_path``."""

    def run(*arguments: str, **variables: str) -> Process:
        return start(["-m", "frametap", *arguments], tmp_path, **variables)

    return run


@pytest.fixture
def both(tmp_path: Path) -> Callable[..., tuple[Process, Process]]:
    """``both({"a.py": source}, "a.py", "x")``: under plain Python and under ``frametap run -q``."""

    def run(files: dict[str, str | bytes], *arguments: str, stdin: bytes = b"") -> tuple[Process, Process]:
        folder = tmp_path / "program"  # one folder for both: paths are printed
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        plain = start(list(arguments), folder, stdin)
        capture = str(tmp_path / "out.ftap")
        traced = start(["-m", "frametap", "run", "-q", "-o", capture, *arguments], folder, stdin)
        return plain, traced

    return run
