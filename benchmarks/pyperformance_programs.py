"""Programs from pyperformance's wheel, run in this process without pyperf's own runner.

In: the installed package ``pyperformance`` (its wheel carries the programs). Out: laps, as in workloads.py.
Each program's inner function is called with a size that takes tens of milliseconds.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Program:
    """``lap(module, quick)`` makes the lap of the program ``bm_<folder>``."""

    folder: str
    what: str
    lap: Callable[[Any, bool], Callable[[], object]]

    @property
    def name(self) -> str:
        return f"pyperf_{self.folder}"

    def make(self, quick: bool, folder: Path) -> Callable[[], object]:
        return self.lap(_load(self.folder), quick)


def _load(folder: str) -> ModuleType:
    found = importlib.util.find_spec("pyperformance")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("pyperformance is not installed", name="pyperformance")
    path = Path(found.origin).parent / "data-files" / "benchmarks" / f"bm_{folder}" / "run_benchmark.py"
    name = f"bm_{folder}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _richards(m: Any) -> None:
    m.taskWorkArea = m.TaskWorkArea()  # else each lap leaves its tasks to the next
    m.Richards().run(1)


def _chaos(m: Any, quick: bool) -> Callable[[], object]:
    class Runner:  # catches the function that the program hands to pyperf
        def __init__(self) -> None:
            self.metadata: dict[str, object] = {}

        def bench_func(self, name: str, function: Callable[..., object], *args: object) -> None:
            self.lap = partial(function, *args)

    class Arguments:
        thickness, width, height, filename, rng_seed = m.DEFAULT_THICKNESS, 64, 64, None, 1
        iterations = 50 if quick else 2500

    runner = Runner()
    m.main(runner, Arguments)
    return runner.lap


def _go(m: Any, quick: bool) -> Callable[[], object]:
    m.GAMES = 2 if quick else 50
    return m.versus_cpu  # type: ignore[no-any-return]


def _generators(m: Any, quick: bool) -> Callable[[], object]:
    tree = m.tree(range(100 if quick else 10_000))
    return lambda: sum(1 for _ in tree)


def _coroutine_lap(m: Any, n: int) -> None:
    try:
        m.fibonacci(n).send(None)
    except StopIteration:
        pass


def _async_tree(m: Any, quick: bool) -> Callable[[], object]:
    m.NUM_RECURSE_LEVELS = 2 if quick else 4
    return lambda: asyncio.run(m.NoneAsyncTree().run())


def _raytrace(m: Any, quick: bool) -> Callable[[], object]:
    side = 4 if quick else 20
    return lambda: m.bench_raytrace(1, side, side, None)


PROGRAMS: tuple[Program, ...] = (
    Program("richards", "an operating system's kernel", lambda m, quick: partial(_richards, m)),
    Program("deltablue", "a constraint solver", lambda m, quick: partial(m.delta_blue, 10 if quick else 300)),
    Program("go", "a player of Go", _go),
    Program("chaos", "fractals", _chaos),
    Program("raytrace", "a ray tracer", _raytrace),
    Program("hexiom", "a puzzle's solver", lambda m, quick: partial(m.main, 1 if quick else 10, 10)),
    Program(
        "nqueens", "queens on a board, by generators", lambda m, quick: partial(m.bench_n_queens, 5 if quick else 7)
    ),
    Program("generators", "a tree walked by recursive generators", _generators),
    Program("coroutines", "recursive coroutines", lambda m, quick: partial(_coroutine_lap, m, 8 if quick else 23)),
    Program("async_tree", "a tree of asyncio tasks", _async_tree),
)
