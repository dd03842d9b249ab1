"""speedscope's own importer as a reader for tests, under Node.

In: a file that speedscope imports. Out: per profile its name and nodes. Needs Node, and the npm package speedscope
(``npm install`` in this folder); :func:`missing` says what is not there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def _bundle() -> Path | None:
    return next(_HERE.glob("node_modules/speedscope/dist/release/speedscope-*.js"), None)


def missing() -> str:
    """What this reader lacks here, "" if nothing."""
    if shutil.which("node") is None:
        return "needs node"
    return "" if _bundle() else "needs speedscope: npm install in tests/readers"


def nodes(file: Path) -> list[dict[str, Any]]:
    """Profiles as ``{"name": …, "nodes": [[stack, self weight], …]}``, the stack a list of frames' names.

    Raises
    ------
    AssertionError
        speedscope refused the file.
    """
    done = subprocess.run(
        ["node", str(_HERE / "speedscope.js"), str(_bundle()), str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    profiles: list[dict[str, Any]] = json.loads(done.stdout)
    return profiles
