"""CPython's own tests end alike traced and untraced.

They poke at frames, generators, exceptions, threads, collections and tracing hooks harder than any program does.
Differences that cannot be helped are listed, each with its reason, in docs/cpython_suite.md; any other fails.
"""

import fnmatch
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import frametap

ROOT = Path(__file__).parents[2]
DIFFERENCES = ROOT / "docs" / "cpython_suite.md"
MODULES = (
    "test_generators",
    "test_coroutines",
    "test_asyncgen",
    "test_exceptions",
    "test_sys_settrace",
    "test_sys_setprofile",
    "test_threading",
    "test_contextlib",
    "test_functools",
    "test_weakref",
    "test_gc",
)


def has_suite() -> bool:
    return all(importlib.util.find_spec("test") and importlib.util.find_spec(f"test.{m}") for m in MODULES)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_suite(), reason="this Python was installed without its own tests"),
]


def allowed(options: tuple[str, ...]) -> list[str]:
    """Patterns of tests that may differ here: rows `| pattern | versions | options | why |` of the page."""
    version = "{}.{}".format(*sys.version_info)
    patterns = []
    for line in DIFFERENCES.read_text(encoding="utf-8").splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if len(cells) != 4 or not cells[0].startswith("`test."):
            continue
        if version in re.split(r",\s*", cells[1]) and cells[2] in ("any", *(options or ("none",))):
            patterns.append(cells[0].strip("`"))
    return patterns


def outcomes(command: list[str], out: Path, folder: Path) -> dict[str, dict[str, str]]:
    source = str(Path(frametap.__file__).parents[1])
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))}
    process = subprocess.run(
        [sys.executable, *command],
        check=False,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=600,
    )
    assert out.exists(), f"status {process.returncode}\n{process.stdout[-3000:]}\n{process.stderr[-3000:]}"
    assert process.returncode == 0, process.stderr[-3000:]
    result: dict[str, dict[str, str]] = json.loads(out.read_text())
    return result


@pytest.mark.parametrize("options", [(), ("--c-calls",)], ids=["python", "c_calls"])
@pytest.mark.parametrize("module", MODULES)
def test_same_outcomes(tmp_path, module, options):
    script = [str(Path(__file__).with_name("outcomes.py")), f"test.{module}"]
    plain_out, traced_out = tmp_path / "plain.json", tmp_path / "traced.json"
    plain_folder, traced_folder = tmp_path / "plain", tmp_path / "traced"
    plain_folder.mkdir()
    traced_folder.mkdir()
    run = ["-m", "frametap", "run", "-o", str(tmp_path / "out.ftap"), *options]
    plain = outcomes([*script, str(plain_out)], plain_out, plain_folder)
    traced = outcomes([*run, *script, str(traced_out)], traced_out, traced_folder)
    patterns = allowed(options)
    differences = [
        f"{test}: untraced {plain['outcomes'].get(test)}, traced {traced['outcomes'].get(test)}\n"
        + traced["messages"].get(test, "")
        for test in sorted(set(plain["outcomes"]) | set(traced["outcomes"]))
        if plain["outcomes"].get(test) != traced["outcomes"].get(test)
        and not any(fnmatch.fnmatchcase(test, p) for p in patterns)
    ]
    assert len(plain["outcomes"]) > 10
    assert differences == [], "\n".join(differences)
