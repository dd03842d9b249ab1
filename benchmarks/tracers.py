"""The tracers that are compared, each behind the same four calls.

In: a folder to write to. Out: start, stop, save (files in the tool's usual formats), counts (what it recorded).
Invariant: ``start`` to ``stop`` is one recording with the tool's default settings, unless its name says more;
a tool that needs a bigger buffer to keep every call gets one.

Counts are by (file's base name, first line) of the function: what every tool here can tell.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol

Counts = Counter[tuple[str, int]]


class Saved:
    """A file that a tracer wrote: what it is, and how long that took."""

    def __init__(self, format: str, path: Path, ns: int) -> None:
        self.format, self.path, self.ns = format, path, ns
        self.n_bytes = path.stat().st_size


class Tracer(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def save(self, folder: Path) -> list[Saved]: ...
    def counts(self, folder: Path) -> Counts: ...


def _timed(format: str, path: Path, write: Any, *args: object) -> Saved:
    begun = time.perf_counter_ns()
    write(*args)
    return Saved(format, path, time.perf_counter_ns() - begun)


class NoTracer:
    """The program as it is."""

    def start(self) -> None: ...
    def stop(self) -> None: ...

    def save(self, folder: Path) -> list[Saved]:
        return []

    def counts(self, folder: Path) -> Counts:
        return Counter()


class Counting:
    """The independent count of calls: a plain list that every entry of a Python function is appended to."""

    def __init__(self) -> None:
        self._codes: list[CodeType] = []

    def start(self) -> None:
        self._codes.clear()
        append = self._codes.append  # atomic, also between threads
        if sys.version_info >= (3, 12):
            m = sys.monitoring
            m.use_tool_id(0, "count")
            for event in (m.events.PY_START, m.events.PY_RESUME):
                m.register_callback(0, event, lambda code, offset: append(code))
            m.register_callback(0, m.events.PY_THROW, lambda code, offset, error: append(code))
            m.set_events(0, m.events.PY_START | m.events.PY_RESUME | m.events.PY_THROW)
            return

        def on_call(frame: FrameType, event: str, argument: object) -> None:
            if event == "call":
                append(frame.f_code)

        threading.setprofile(on_call)
        sys.setprofile(on_call)

    def stop(self) -> None:
        if sys.version_info >= (3, 12):
            sys.monitoring.set_events(0, 0)
            sys.monitoring.free_tool_id(0)
        else:
            sys.setprofile(None)
            threading.setprofile(None)

    def save(self, folder: Path) -> list[Saved]:
        return []

    def counts(self, folder: Path) -> Counts:
        return _by_place((c.co_filename, c.co_firstlineno, 1) for c in self._codes)


def _by_place(rows: Iterable[tuple[str, int, int]]) -> Counts:
    counts: Counts = Counter()
    for file, line, n in rows:
        counts[os.path.basename(file), line] += n
    return counts


class Frametap:
    def __init__(self, c_calls: bool = False) -> None:
        import frametap

        self._frametap: Any = frametap
        self._c_calls = c_calls
        self._folder = Path(os.environ["FRAMETAP_BENCH_FOLDER"])
        self._n = 0

    def start(self) -> None:
        self._n += 1
        self._path = self._folder / f"run{self._n}.ftap"
        self._tap = self._frametap.trace(str(self._path), c_calls=self._c_calls)
        self._tap.start()

    def stop(self) -> None:
        begun = time.perf_counter_ns()
        self._tap.stop()
        self._stop_ns = time.perf_counter_ns() - begun

    def save(self, folder: Path) -> list[Saved]:
        out = folder / "run.pftrace"
        return [Saved("capture", self._path, self._stop_ns), _timed("Perfetto", out, self._export, out)]

    def _export(self, out: Path) -> None:
        export = importlib.import_module("frametap.export").export
        export(self._frametap.open(str(self._path)).trace(), str(out))

    def counts(self, folder: Path) -> Counts:
        import numpy as np

        trace = self._frametap.open(str(self._path)).trace()
        problems = importlib.import_module("frametap.table.check").validate(trace)
        if problems:
            raise AssertionError(f"spans do not nest: {problems[:3]}")
        functions = trace.functions
        n = np.bincount(trace.sites["function"][trace.calls["site"]], minlength=functions.n_rows)
        rows = zip(functions["kind"], functions["file"], functions["line"], n, strict=True)
        return _by_place((file, int(line), int(k)) for kind, file, line, k in rows if kind == "python")


class FrametapWithC(Frametap):
    def __init__(self) -> None:
        super().__init__(c_calls=True)


class CProfile:
    def __init__(self) -> None:
        import cProfile

        self._make = cProfile.Profile

    def start(self) -> None:
        self._profile = self._make()
        self._profile.enable()

    def stop(self) -> None:
        self._profile.disable()

    def save(self, folder: Path) -> list[Saved]:
        path = folder / "run.pstats"
        return [_timed("pstats", path, self._profile.dump_stats, path)]

    def counts(self, folder: Path) -> Counts:
        rows = ((e.code, e.callcount) for e in self._profile.getstats())
        return _by_place((c.co_filename, c.co_firstlineno, n) for c, n in rows if isinstance(c, CodeType))


class VizTracer:
    def __init__(self) -> None:
        import viztracer

        self._make: Any = viztracer.VizTracer
        self._tracer: Any = None

    def start(self) -> None:
        if self._tracer is None:  # its buffer is allocated once and touched as it fills
            self._tracer = self._make(verbose=0, tracer_entries=8_000_000)
        self._tracer.clear()
        self._tracer.start()

    def stop(self) -> None:
        self._tracer.stop()

    def save(self, folder: Path) -> list[Saved]:
        path = folder / "run.json"
        return [_timed("Chrome JSON", path, self._tracer.save, str(path))]

    def counts(self, folder: Path) -> Counts:
        spans = json.loads((folder / "run.json").read_text())["traceEvents"]
        counts: Counts = Counter()
        for span in spans:
            if span.get("ph") == "X" and span["name"].endswith(")") and ":" in span["name"]:
                file, _, line = span["name"].rpartition("(")[2][:-1].rpartition(":")
                if line.isdigit():
                    counts[os.path.basename(file), int(line)] += 1
        return counts


class Yappi:
    def __init__(self) -> None:
        import yappi

        self._yappi: Any = yappi

    def start(self) -> None:
        self._yappi.clear_stats()
        self._yappi.start()

    def stop(self) -> None:
        self._yappi.stop()

    def save(self, folder: Path) -> list[Saved]:
        path = folder / "run.pstats"
        return [_timed("pstats", path, lambda: self._yappi.get_func_stats().save(str(path), type="pstat"))]

    def counts(self, folder: Path) -> Counts:
        rows = self._yappi.get_func_stats()
        return _by_place((r.module, r.lineno, r.ncall) for r in rows if not r.builtin)


class TorchProfiler:
    def __init__(self) -> None:
        from torch import profiler

        self._torch: Any = profiler

    def start(self) -> None:
        self._profile = self._torch.profile(activities=[self._torch.ProfilerActivity.CPU], with_stack=True)
        self._profile.start()

    def stop(self) -> None:
        self._profile.stop()

    def save(self, folder: Path) -> list[Saved]:
        path = folder / "run.json"
        return [_timed("Chrome JSON", path, self._profile.export_chrome_trace, str(path))]

    def counts(self, folder: Path) -> Counts:
        spans = json.loads((folder / "run.json").read_text())["traceEvents"]
        counts: Counts = Counter()
        for span in spans:  # names are "path(line): function"
            if span.get("cat") == "python_function" and "): " in span["name"]:
                file, _, line = span["name"].partition("): ")[0].rpartition("(")
                if line.isdigit():
                    counts[os.path.basename(file), int(line)] += 1
        return counts


#: In the order in which they are shown; "none" is the base that the others are compared with.
TRACERS: dict[str, type[Tracer]] = {
    "none": NoTracer,
    "frametap": Frametap,
    "frametap +C": FrametapWithC,
    "cProfile": CProfile,
    "VizTracer": VizTracer,
    "yappi": Yappi,
    "torch": TorchProfiler,
    "count": Counting,
}
