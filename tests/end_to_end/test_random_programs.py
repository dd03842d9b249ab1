"""Random programs that count their own calls: the recording must hold the same counts.

A program is drawn from a seed, so a failure can be run again. Its functions call one another (downwards
only, so it ends), recurse, raise, catch, yield, make objects, and start threads. Each entry and each resume
notes itself by ``list.append``, which is one C call and cannot be interrupted.
"""

import json
import random

import pytest

HEAD = """
import collections, json, sys, threading
NOTED = []
hit = NOTED.append
class Stop(Exception): pass
"""

TAIL = """
def main():
    hit("main")
    for i in range(ROUNDS):
        try: top(3)
        except Stop: pass
main()
for t in list(THREADS): t.join()
json.dump(collections.Counter(NOTED), sys.stdout)
"""


class Writer:
    """Writes one program. Function ``f<i>`` calls only functions with a greater number."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.n_functions = 14
        self.kinds = [
            self.rng.choice(["plain", "plain", "generator", "class", "coroutine"]) for _ in range(self.n_functions)
        ]
        self.kinds[-3:] = ["plain", "generator", "class"]

    def source(self) -> str:
        parts = [HEAD, "THREADS = []\nROUNDS = 12\n"]
        for i in reversed(range(self.n_functions)):
            parts.append(getattr(self, f"write_{self.kinds[i]}")(i))
        parts.append("def top(n):\n    hit('top')\n" + self.body(-1, 4))
        return "\n".join(parts) + TAIL

    # Each way of using function j, as statements.
    def use(self, j: int) -> list[str]:
        kind, name, rng = self.kinds[j], f"f{j}", self.rng
        if kind == "plain":
            return rng.choice(
                [
                    [f"{name}(n)"],
                    [f"x = [{name}(n), {name}(n - 1)]"],
                    [f"sorted([2, 1], key={name})"],
                    [f"list(map({name}, (1, 2, 3)))"],
                    ["try:", f"    {name}(n)", "except Stop: pass"],
                    ["try:", f"    {name}(n)", f"finally: {name}(0)"],
                    [f"t = threading.Thread(target=quiet, args=({name}, n))", "THREADS.append(t); t.start()"],
                ]
            )
        if kind == "generator":
            return rng.choice(
                [
                    [f"for x in {name}(n): pass"],
                    [f"for x in {name}(n): break"],
                    [f"g = {name}(n); next(g, None); g.close()"],
                    [f"g = {name}(n); next(g, None); del g"],
                    ["try:", f"    g = {name}(n); next(g, None); g.throw(Stop)", "except (Stop, StopIteration): pass"],
                    [f"sum(1 for x in {name}(n))"],
                    [f"list(zip({name}(n), {name}(n)))"],
                ]
            )
        if kind == "class":
            return rng.choice([[f"{name}(n)"], [f"{name}(n).method()"], [f"{name}(n).value"], [f"len({name}(n))"]])
        return [f"drive({name}(n))"]

    def body(self, i: int, n_statements: int, indent: str = "    ") -> str:
        lines = []
        for _ in range(n_statements):
            if i + 1 < self.n_functions:
                lines += self.use(self.rng.randrange(i + 1, min(self.n_functions, i + 6)))
            if self.rng.random() < 0.06:
                lines.append("if n > 2: raise Stop")
        return "".join(f"{indent}{line}\n" for line in lines or ["pass"])

    def write_plain(self, i: int) -> str:
        recursion = f"    if n > 0: f{i}(n - 1)\n" if self.rng.random() < 0.4 else ""
        return f"def f{i}(n):\n    hit('f{i}')\n{recursion}{self.body(i, self.rng.randrange(3))}    return n\n"

    def write_generator(self, i: int) -> str:
        # ``finally`` notes the resume that follows a yield, whether by next, throw or close.
        inner = self.rng.choice(["yield 1", f"yield from f{i}(n - 1) if n > 0 else ()"])
        n_yields = self.rng.randrange(1, 4)
        lines = f"def f{i}(n):\n    hit('f{i}')\n{self.body(i, 1)}"
        for _ in range(n_yields):
            lines += f"    try: yield n\n    finally: hit('f{i}')\n"
        if inner.startswith("yield from"):
            lines += f"    for x in f{i}(n - 1) if n > 0 else (): pass\n"
        return lines

    def write_class(self, i: int) -> str:
        return (
            f"class f{i}:\n"
            f"    def __init__(self, n):\n        hit('f{i}.__init__')\n{self.body(i, 1, ' ' * 8)}        self.n = n\n"
            f"    def method(self):\n        n = self.n; hit('f{i}.method')\n{self.body(i, 1, ' ' * 8)}"
            f"    @property\n    def value(self):\n        hit('f{i}.value'); return self.n\n"
            f"    def __len__(self):\n        hit('f{i}.__len__'); return 1\n"
        )

    def write_coroutine(self, i: int) -> str:
        return (
            f"async def f{i}(n):\n    hit('f{i}')\n{self.body(i, 1)}"
            f"    for _ in range(n):\n        await pause()\n        hit('f{i}')\n    return n\n"
        )


HELPERS = """
class Pause:
    def __await__(self):
        hit("Pause.__await__")
        try: yield
        finally: hit("Pause.__await__")
def pause():
    hit("pause")
    return Pause()
def drive(coroutine):
    hit("drive")
    try:
        while True: coroutine.send(None)
    except StopIteration: pass
def quiet(f, n):
    hit("quiet")
    try: f(n)
    except Stop: pass
"""


@pytest.mark.parametrize("options", [(), ("--c-calls",)], ids=["python", "c_calls"])
@pytest.mark.parametrize("seed", range(12))
def test_the_recording_holds_what_the_program_counted(run_traced, seed, options):
    r = run_traced(Writer(seed).source().replace("ROUNDS = 12\n", "ROUNDS = 12\n" + HELPERS), *options)
    counted = json.loads(r.stdout)
    assert sum(counted.values()) > 50
    names = r.counts("f", "main", "top", "pause", "Pause.", "drive", "quiet")
    assert {name: names.get(name, 0) for name in counted} == counted
