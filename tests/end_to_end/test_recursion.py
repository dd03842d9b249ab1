"""Deep recursion: what works untraced works traced, and is recorded, or the gap is told."""

import numpy as np
import pytest


def test_seven_hundred_levels_nest(run_traced):
    r = run_traced(
        """
        import sys
        sys.setrecursionlimit(3000)
        def rec(n):
            if n: rec(n - 1)
        def after(): pass
        rec(700); after(); after()
        """
    )
    rows = r.rows("rec")
    assert len(rows) == 701
    calls = r.trace.calls
    assert calls["parent"][rows[1:]].tolist() == rows[:-1].tolist()
    assert np.all(np.diff(calls["depth"][rows].astype(int)) == 1)
    end = calls["start_ns"][rows] + calls["duration_ns"][rows]
    assert np.all(np.diff(end) <= 0), "an outer frame ended before an inner one"
    assert r.callers("after") == {"<module>": 2}


DEEP = """
import sys, threading
sys.setrecursionlimit(100_000)
threading.stack_size({stack})
def rec(n):
    return rec(n - 1) + 1 if n else 0
def after(): pass
def main():
    print(rec(50_000)); after(); print(rec(50_000)); after()
{run}
"""
ON_THREAD = "t = threading.Thread(target=main); t.start(); t.join()"


@pytest.mark.parametrize("options", [(), ("--c-calls",)], ids=["python", "c_calls"])
@pytest.mark.parametrize(("stack", "run"), [(0, "main()"), (8 << 20, ON_THREAD)], ids=["main thread", "thread"])
def test_fifty_thousand_levels_run_as_untraced(run_traced, options, stack, run):
    r = run_traced(DEEP.format(stack=stack, run=run), *options, losses=["deep_stack"])
    assert r.stdout == "50000\n50000\n"
    assert r.callers("after") == {"main": 2}
    if not r.losses():
        assert r.count("rec") == 100_002
        assert r.trace.calls["depth"][r.rows("rec")].max() >= 50_000
    else:  # the frame hook of 3.11 needs C stack: it goes out of the way before it would run short
        assert r.count("rec") > 2_000


def test_recursion_through_c_functions_ends_in_an_error_not_in_a_crash(run_traced, run_plain):
    source = """
    def through_sorted(n):
        return sorted([n], key=lambda x: through_sorted(n + 1))
    for _ in range(3):
        try: through_sorted(0)
        except RecursionError: print("limit")
    """
    assert run_plain(source).stdout == run_traced(source, losses=["deep_stack"]).stdout == "limit\n" * 3
