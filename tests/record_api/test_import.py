"""What importing frametap costs and needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import frametap
from frametap import UnsupportedError
from frametap.record import support

SOURCE = str(Path(frametap.__file__).parent.parent)


def python(code: str) -> str:
    process = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {SOURCE!r})\n{code}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_importing_frametap_and_preparing_a_run_loads_nothing_heavy() -> None:
    heavy = "{'numpy', 'rich', 'zipfile', 'typing', 'pathlib', 'argparse', 'threading', 'asyncio'}"
    assert python(f"import frametap; print({heavy} & set(sys.modules))") == "set()\n"
    assert python(
        f"import frametap.cli.main, frametap.cli.run, frametap.record; print({heavy} & set(sys.modules))"
    ) == ("set()\n")


def test_every_public_name_is_there() -> None:
    for name in frametap.__all__:
        assert getattr(frametap, name) is not None
    assert set(frametap.__all__) <= set(dir(frametap))
    with pytest.raises(AttributeError, match="nothing_like_it"):
        frametap.nothing_like_it  # noqa: B018


def test_missing_core_says_how_to_build_it_and_spares_annotations() -> None:
    out = python(
        "sys.modules['frametap._core'] = None\n"
        "import frametap\n"
        "with frametap.span('x'): frametap.mark('y')\n"
        "try: frametap.trace('x.ftap').start()\n"
        "except frametap.UnsupportedError as error: print(error)"
    )
    assert "make build PYTHON=" in out


@pytest.mark.parametrize(
    ("where", "value", "told"),
    [
        ("sys.version_info", (3, 10, 1), "Python 3.10"),
        ("sys.version_info", (3, 16, 0), "Python 3.16"),
        ("sys.abiflags", "t", "free-threaded"),
        ("sys.platform", "darwin", "darwin"),
        ("sys.maxsize", 2**31 - 1, "32 bits"),
        ("sys.implementation.name", "pypy", "pypy"),
    ],
)
def test_what_cannot_be_traced_is_refused_with_what_can(monkeypatch, where, value, told) -> None:
    monkeypatch.setattr(f"{support.__name__}.{where}", value)
    with pytest.raises(UnsupportedError, match=f"CPython 3.11 to 3.15.*{told}"):
        support.require_supported()
    monkeypatch.undo()
    support.require_supported()
