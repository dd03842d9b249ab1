"""Writes a Python program with many functions and many call sites.

In: how many functions and sites, a seed. Out: source text whose ``run()`` executes every site at
least once a pass, and the number of calls a pass makes.
Invariant: the same arguments give the same text; the program has exactly the functions and sites asked for.

A tight loop over one function keeps every cache warm. Real programs do not: this one touches a new
call site on nearly every call, which is what a per-site table has to withstand.
"""

from __future__ import annotations

import random
from typing import NamedTuple

SITES_PER_CALLER = 10


class Program(NamedTuple):
    source: str
    calls_per_pass: int  #: Python calls made by ``run()``, itself included


def _callees(rng: random.Random, names: list[str], n: int) -> list[str]:
    """*n* names, each of *names* as often as any other (give or take one), in random order."""
    chosen = names * (n // len(names)) + rng.sample(names, n % len(names))
    rng.shuffle(chosen)
    return chosen


def many_sites(n_functions: int = 2000, n_sites: int = 10_000, seed: int = 1) -> Program:
    """Three layers: ``run`` calls the tops, each top ten middles, each middle ten leaves.

    The calls of the tops in ``run`` go through a list and make one site more.
    """
    rng = random.Random(seed)
    n_callers = n_sites // SITES_PER_CALLER
    n_tops = n_callers // 10
    middles = [f"middle_{i}" for i in range(n_callers - n_tops)]
    leaves = [f"leaf_{i}" for i in range(n_functions - n_callers)]
    lines = [f"def {name}(x):\n    return x + {i}\n" for i, name in enumerate(leaves)]
    targets = _callees(rng, leaves, len(middles) * SITES_PER_CALLER)
    for i, name in enumerate(middles):
        body = "".join(f"    x = {t}(x)\n" for t in targets[i * SITES_PER_CALLER :][:SITES_PER_CALLER])
        lines.append(f"def {name}(x):\n{body}    return x & 255\n")
    targets = _callees(rng, middles, n_tops * SITES_PER_CALLER)
    for i in range(n_tops):
        body = "".join(f"    x = {t}(x)\n" for t in targets[i * SITES_PER_CALLER :][:SITES_PER_CALLER])
        lines.append(f"def top_{i}(x):\n{body}    return x\n")
    lines.append(f"TOPS = [{', '.join(f'top_{i}' for i in range(n_tops))}]\n")
    lines.append("def run():\n    x = 1\n    for top in TOPS:\n        x = top(x)\n    return x\n")
    return Program("\n".join(lines), 1 + n_tops * (1 + SITES_PER_CALLER * (1 + SITES_PER_CALLER)))
