"""Sums by function, call site and thread are exact, and recursion is counted once."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest

from frametap.analyse import call_sites, functions, losses, threads, totals
from frametap.table.schema import Outcome

from .traces import make_trace

PY = ("app", "app.py", 1, "python")
F, G, H = ("f", *PY), ("g", "app", "app.py", 9, "python"), ("len", "builtins", "", -1, "c")


def by_name(stats, *columns: str) -> dict[str, tuple]:
    return {row["name"]: tuple(row[c] for c in columns) for row in stats}


def test_times_of_nested_calls() -> None:
    # f [0, 100) calls g [10, 40) and g [50, 60); g's first calls len [15, 20)
    trace = make_trace([(0, 0, 0, 0, 100), (0, 1, 1, 10, 30), (0, 2, 2, 15, 5), (0, 1, 1, 50, 10)], [F, G, H])
    stats = functions(trace)
    assert by_name(stats, "calls", "self_ns", "total_ns", "mean_ns", "min_ns", "max_ns") == {
        "f": (1, 60, 100, 100, 100, 100),
        "g": (2, 35, 40, 20, 10, 30),
        "len": (1, 5, 5, 5, 5, 5),
    }
    assert [row["name"] for row in stats] == ["f", "g", "len"]  # by self time


def test_total_counts_the_outermost_call_of_a_recursion_only() -> None:
    # f > f > g > f, then another f of its own
    calls = [(0, 0, 0, 0, 50), (0, 1, 0, 5, 40), (0, 2, 1, 10, 30), (0, 3, 0, 15, 20), (0, 0, 0, 50, 7)]
    assert by_name(functions(make_trace(calls, [F, G])), "calls", "total_ns", "max_ns") == {
        "f": (4, 57, 50),
        "g": (1, 30, 30),
    }


def test_calls_at_the_same_time_on_two_stacks_are_not_nested() -> None:
    trace = make_trace([(0, 0, 0, 0, 100), (1, 0, 0, 10, 20)], [F], tracks=[0, 0])
    assert by_name(functions(trace), "total_ns") == {"f": (120,)}


def test_equal_functions_of_two_processes_are_one_and_c_functions_of_two_modules_are_two() -> None:
    other = ("len", "other", "", -1, "c")
    reloaded = ("f", "__mp_main__", "app.py", 1, "python")
    trace = make_trace([(0, 0, i, 10 * i, 5) for i in range(4)], [F, reloaded, H, other])
    assert sorted((r["name"], r["module"], r["calls"]) for r in functions(trace)) == [
        ("f", "app", 2),
        ("len", "builtins", 1),
        ("len", "other", 1),
    ]


def test_call_sites_tell_caller_line_and_callee() -> None:
    sites = [(0, -1, -1), (1, 0, 3), (1, 0, 4), (1, 0, 3)]
    calls = [(0, 0, 0, 0, 100), (0, 1, 1, 10, 5), (0, 1, 2, 20, 6), (0, 1, 3, 30, 7)]
    rows = call_sites(make_trace(calls, [F, G], sites=sites))
    assert sorted((r["caller"], r["line"], r["name"], r["calls"], r["total_ns"]) for r in rows) == [
        ("", -1, "f", 1, 100),
        ("f", 3, "g", 2, 12),
        ("f", 4, "g", 1, 6),
    ]


def test_threads_are_told_apart_on_request() -> None:
    calls = [(0, 0, 0, 0, 10), (1, 0, 0, 0, 20), (2, 0, 0, 30, 5)]
    trace = make_trace(calls, [F], threads=("main", "worker"), tracks=[0, 1, 1], processes=2)
    rows = [
        (r["thread"], r["pid"], r["native_id"], r["calls"], r["total_ns"]) for r in functions(trace, by_thread=True)
    ]
    assert sorted(rows) == [("main", 100, 500, 1, 10), ("worker", 101, 501, 2, 25)]
    assert [(r["name"], r["calls"], r["busy_ns"], r["deepest"]) for r in threads(trace)] == [
        ("main", 1, 10, 1),
        ("worker", 2, 25, 1),
    ]


def test_resumes_are_calls_and_instances_are_counted() -> None:
    end = Outcome.YIELDED
    calls = [(0, 0, 0, 10 * i, 5, end, instance) for i, instance in enumerate((1, 1, 2, 1))]
    calls += [(1, 0, 0, 0, 5, end, 1), (1, 0, 0, 9, 5, Outcome.RAISED, 1)]
    trace = make_trace(calls, [F], threads=("a", "b"), processes=2)
    assert by_name(functions(trace), "calls", "instances", "raised") == {"f": (6, 3, 1)}


def test_trace_without_calls_gives_empty_tables() -> None:
    trace = make_trace([], [])
    assert (len(functions(trace)), len(call_sites(trace)), len(functions(trace, by_thread=True))) == (0, 0, 0)
    assert threads(trace)[0]["calls"] == 0


def test_very_long_calls_are_added_exactly() -> None:
    year = 31_557_600_000_000_001  # ns: no float64 holds it
    trace = make_trace([(0, 0, 0, 0, year), (0, 0, 0, year, year), (0, 0, 1, 2 * year, 1)], [F, G])
    assert by_name(functions(trace), "self_ns", "total_ns") == {"f": (2 * year, 2 * year), "g": (1, 1)}


def test_losses_name_their_process() -> None:
    rows = list(losses(make_trace([], [], losses=[("deep_stack", 3), ("forked", 0)])))
    assert [(r["kind"], r["count"], r["pid"], r["thread"]) for r in rows] == [("deep_stack", 3, 100, "")]


@pytest.mark.parametrize("seed", range(8))
def test_random_calls_add_up_as_a_plain_loop_says(monkeypatch, seed) -> None:
    rng = random.Random(seed)
    n_functions = rng.randint(1, 5)
    calls = []
    for track in range(3):
        now, open_ = 0, []
        for _ in range(120):
            now += rng.randint(0, 2)
            if open_ and rng.random() < 0.5:
                last = open_.pop()
                calls[last][4] = now - calls[last][3]
            else:
                open_.append(len(calls))
                calls.append([track, len(open_) - 1, rng.randrange(n_functions), now, 0, rng.randrange(4)])
        for i in open_:
            calls[i][4] = now - calls[i][3]
    names = [(f"f{i}", "m", "a.py", i, "python") for i in range(n_functions)]
    trace = make_trace([tuple(c) for c in calls], names, threads=("a", "b"), tracks=[0, 1, 1])

    expected: dict = defaultdict(lambda: [0, 0, 0, 0])
    parent, self_ns = trace.calls["parent"], trace.calls["self_ns"]
    for i, (track, _, site, _, duration, outcome) in enumerate(calls):
        row = expected[f"f{site}", "ab"[min(track, 1)]]
        row[0] += 1
        row[1] += self_ns[i]
        row[3] += outcome == Outcome.RAISED
        above = parent[i]
        while above >= 0 and calls[above][2] != site:
            above = parent[above]
        row[2] += duration if above < 0 else 0
    # In one piece, and in pieces and passes so small that every boundary is crossed.
    for piece, base in ((totals.PIECE, totals._MAX_BASE), (17, 1000)):
        monkeypatch.setattr(totals, "PIECE", piece)
        monkeypatch.setattr(totals, "_MAX_BASE", base)
        stats = functions(trace, by_thread=True)
        found = {(r["name"], r["thread"]): [r[c] for c in ("calls", "self_ns", "total_ns", "raised")] for r in stats}
        assert found == expected
    assert int(np.sum(stats["self_ns"])) == int(np.sum(self_ns))
