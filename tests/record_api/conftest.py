"""A core that records nothing but what was asked of it, so that sessions are tested without tracing the tests.

In: the calls of `frametap._core`. Out: the same calls, noted; at stop, a valid process folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from frametap import annotate
from frametap.record import session, spool_folder


class FakeCore:
    def __init__(self, spool_writer: ModuleType) -> None:
        self._spool_writer = spool_writer
        self.calls: list[tuple[Any, ...]] = []
        self.start_error: Exception | None = None
        self.folder = Path()

    def start(self, folder: str, package_folder: str, engine: str, c_calls: bool, gc: bool) -> str:
        assert session.__file__.startswith(package_folder)
        self.calls.append(("start", engine, c_calls, gc))
        if self.start_error:
            raise self.start_error
        self.folder = Path(folder)
        return "monitoring"

    def stop(self) -> None:
        self.calls.append(("stop",))
        spool = self._spool_writer.SpoolWriter(self.folder.parent.parent)
        process = spool.process()
        main = process.thread()
        main.arm().call(process.site(process.function("f"))).disarm()
        (self.folder / "tables.jsonl").write_bytes(b"".join(process.lines))
        (self.folder / "events.bin").write_bytes(process.events_bytes())

    def is_started(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        if name not in ("pause", "resume", "instant", "counter", "Span"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            return annotate.NO_SPAN

        return call


@pytest.fixture
def core(spool_writer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCore]:
    fake = FakeCore(spool_writer)
    monkeypatch.setattr(session, "load_core", lambda: fake)
    monkeypatch.setattr(session, "_running", None)
    monkeypatch.setattr(annotate, "recording_core", None)
    monkeypatch.setattr(spool_folder, "_written", set())
    yield fake


@pytest.fixture
def names(core: FakeCore) -> Any:
    """The names of the core's functions called so far."""
    return lambda: [call[0] for call in core.calls]
