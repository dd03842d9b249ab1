"""The programs that are traced.

In: a name and whether to be quick. Out: a function that runs the program once (a "lap").
Invariant: a lap does the same calls each time, in every process, whatever traces it.

Laps are short (tens of milliseconds untraced) so that many of them can be interleaved with those of
the other tracers, and their minimum is not the machine's noise.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .many_sites import many_sites
from .pyperformance_programs import PROGRAMS

Lap = Callable[[], object]


@dataclass(frozen=True)
class Workload:
    """A program to trace. ``make(quick, folder)`` prepares it (untraced, may write into *folder*) and returns its lap."""

    name: str
    what: str
    make: Callable[[bool, Path], Lap]


# ---- recursion --------------------------------------------------------------------------------
def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def down(n: int) -> int:
    return down(n - 1) + 1 if n else 0


def deep(n_times: int) -> None:
    for _ in range(n_times):
        down(900)  # stays under the default recursion limit


# ---- generators and coroutines ----------------------------------------------------------------
def numbers(n: int) -> Iterator[int]:
    yield from range(n)


def doubled(n: int) -> Iterator[int]:
    for x in numbers(n):
        yield 2 * x


def delegated(n: int) -> Iterator[int]:
    yield from doubled(n)


def generators(n: int) -> int:
    return sum(delegated(n)) + sum(x for x in doubled(n))


async def step(n: int) -> int:
    await asyncio.sleep(0)
    return n


async def ticks(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield await step(i)


async def worker(n: int) -> int:
    return sum([i async for i in ticks(n)])


async def _crowd(n_tasks: int, n: int) -> int:
    return sum(await asyncio.gather(*(worker(n) for _ in range(n_tasks))))


def tasks(n_tasks: int, n: int) -> int:
    return asyncio.run(_crowd(n_tasks, n))


# ---- threads ----------------------------------------------------------------------------------
def threads(n_threads: int, n: int) -> None:
    started = [threading.Thread(target=fib, args=(n,)) for _ in range(n_threads)]
    for t in started:
        t.start()
    for t in started:
        t.join()


# ---- C calls ----------------------------------------------------------------------------------
def ten_c_calls(items: list[int], text: str, table: dict[str, int]) -> int:
    items.append(1)
    items.pop()
    text.upper()
    text.find("c")
    text.startswith("a")
    table.get("a")
    table.get("b", 0)
    isinstance(text, str)
    abs(-3)
    return len(items)


def c_calls(n: int) -> None:
    items, text, table = [1, 2, 3], "abc", {"a": 1}
    for _ in range(n):
        ten_c_calls(items, text, table)


# ---- classes ----------------------------------------------------------------------------------
class Shape:
    def __init__(self, size: int) -> None:
        self.size = size

    def area(self) -> int:
        return self.size * self.side

    @property
    def side(self) -> int:
        return self.size + 1

    def __add__(self, other: Shape) -> Shape:
        return type(self)(self.size + other.size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and self.size == other.size

    def __hash__(self) -> int:
        return self.size

    def __getitem__(self, i: int) -> int:
        return self.size + i

    @classmethod
    def unit(cls) -> Shape:
        return cls(1)

    @staticmethod
    def scale(x: int) -> int:
        return 3 * x


class Square(Shape):
    def __init__(self, size: int) -> None:
        super().__init__(size)

    def area(self) -> int:
        return super().area() + self.scale(self[1])


def classes(n: int) -> int:
    total = 0
    for i in range(n):
        shape = (Shape, Square)[i & 1](i)
        both = shape + shape
        total += shape.area() + both.area() + (both == shape) + hash(both) + Shape.unit().size
    return total


# ---- many sites -------------------------------------------------------------------------------
def _many_sites(quick: bool, folder: Path) -> Lap:
    program = many_sites(*((200, 1000) if quick else (2000, 10_000)))
    path = folder / "many_sites_program.py"
    path.write_text(program.source)
    namespace: dict[str, Any] = {"__name__": "many_sites_program"}
    exec(compile(program.source, str(path), "exec"), namespace)  # noqa: S102 (our own text)
    return partial(_passes, namespace["run"], 1 if quick else 20)


def _passes(run: Lap, n: int) -> None:
    for _ in range(n):
        run()


def _sized(
    function: Callable[..., object], quick: tuple[int, ...], full: tuple[int, ...]
) -> Callable[[bool, Path], Lap]:
    return lambda is_quick, folder: partial(function, *(quick if is_quick else full))


WORKLOADS: dict[str, Workload] = {
    w.name: w
    for w in (
        Workload("fib", "fib(25): 242 785 calls of one small function", _sized(fib, (14,), (25,))),
        Workload("deep", "recursion 900 deep", _sized(deep, (3,), (250,))),
        Workload("many_sites", "2 000 functions with 10 000 call sites, each called in turn", _many_sites),
        Workload("classes", "methods, properties, operators, constructors", _sized(classes, (50,), (8_000,))),
        Workload("generators", "nested generators: every resume is a call", _sized(generators, (300,), (20_000,))),
        Workload("asyncio", "200 tasks, asynchronous generators, event loop", _sized(tasks, (5, 5), (200, 20))),
        Workload("threads", "fib(21) in each of 4 threads", _sized(threads, (4, 10), (4, 21))),
        Workload("c_calls", "each Python call makes 10 C calls", _sized(c_calls, (100,), (15_000,))),
        *(Workload(p.name, f"pyperformance: {p.what}", p.make) for p in PROGRAMS),
    )
}
