"""Fixtures for all stages."""

from __future__ import annotations

import importlib.util
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest

# A job in the background of a shell starts with interrupts ignored, and so would every program that is run here;
# some of CPython's own tests then wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def spool_writer() -> ModuleType:
    """The module tests/store/spool_writer.py: writes spools from a little language of events."""
    name = "frametap_tests_spool_writer"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / "store" / "spool_writer.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
